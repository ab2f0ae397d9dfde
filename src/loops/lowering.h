// Walks a core graph and turns each node into a lazy definition (inlined into its consumers) or into steps.
// Rules, one per core op, live in rules_*.cpp; a node no rule takes becomes a host op.
#pragma once
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "emit/emitted.h"
#include "loops/program.h"

namespace precast::loops {

/// The element of a tensor at a logical index.
using Indices = std::vector<Index>;
using Element = std::function<ExprId(const Indices&)>;

class Lowering {
 public:
  explicit Lowering(const ir::Graph&);

  Program run();
  std::vector<emit::HostOp> host_ops;
  int lowered = 0;

  // ---- What rules call ----
  const ir::Graph& graph;
  Exprs& exprs() { return program_.exprs; }
  const ir::Type& type(ir::ValueId v) const { return graph.type(v); }
  bool used(ir::ValueId v) const { return v != ir::kNoValue && uses_[static_cast<size_t>(v)] > 0; }

  /// The element of v at a logical index.
  ExprId element(ir::ValueId v, const Indices&);
  /// The same with numpy's broadcasting to `rank` dimensions.
  ExprId broadcast(ir::ValueId v, const Indices&);
  /// e % k; asks for a finer loop where that is not affine, and returns nonsense in that case.
  Index modulo(const Index& e, const Size& k);

  /// v is computed element by element. Stored or inlined as its uses and cost suggest.
  void define(ir::ValueId v, std::string what, Element);
  /// v is stored now.
  BufferId store(ir::ValueId v);

  /// v in memory: stored now, or a window of what is.
  HostOperand operand(ir::ValueId v);

  /// A buffer for v, to be filled by steps that the rule makes.
  BufferId make_buffer(ir::ValueId v);
  BufferId new_buffer(const ir::Type&);
  /// Stores `f` over `sizes` at offset + index * strides of the buffer. Returns the step, or -1 if there is nothing to
  /// do.
  int map(BufferId, std::string what, const Dims& sizes, const Dims& strides, Size offset, ir::Dtype, const Element&);
  /// As map, for any kind of step. `prepare` fills the step in from the logical index; it may be called again.
  int add_step(Step, const Dims& sizes, const Dims& order_strides, const std::vector<bool>& reduced,
               const std::function<void(Step&, const Indices&)>& prepare);
  /// A step that is a routine of the preamble.
  void add_routine(std::string what, Routine, std::vector<HostOperand> reads, std::vector<BufferId> writes);
  /// v with unit stride along its last dim, copied where it has not; `strides` are those of the others.
  HostOperand rows(ir::ValueId v, Dims& strides);
  /// v contiguous, copied where it is not.
  HostOperand dense(ir::ValueId v);
  std::vector<int> writers(BufferId) const;
  Step& step(int i) { return program_.steps[static_cast<size_t>(i)]; }

  /// What a layer keeps for its backward, by the workspace that eager keeps it in.
  std::map<ir::ValueId, std::vector<BufferId>> kept_of;

  /// Why the last rule refused.
  std::string refusal;
  bool refuse(std::string why) { return refusal = std::move(why), false; }

 private:
  struct View {
    ir::ValueId base;
    Size offset_bytes;
  };
  struct Definition {
    std::string what;
    Element element;
    double cost = 0;
    bool turns = false;  // neighbours lie apart in what it reads
  };
  struct Split {
    Atom variable;
    Size inner;
  };

  void lower(const ir::Node&);
  /// Runs the rule. Where it needs a size that it does not get, what it made is taken back.
  bool apply(bool (*rule)(Lowering&, const ir::Node&), const ir::Node&);
  /// Why a node that no rule takes stays with the host.
  std::string reason(const ir::Node&) const;
  void host(const ir::Node&, std::string why);
  ExprId read(ir::ValueId v, Index offset, ir::Dtype);
  void count_uses();
  void store_outputs();
  void write_in_place();
  void join_in_place();
  std::string origin(ir::ValueId v) const;
  BufferId copy(ir::ValueId v);  // of the bytes, whatever the dtype
  bool widens(ExprId) const;
  void ask_split(const Index& e, const Size& k);
  /// Calls build until it asks for no finer loop; rewrites index and variables.
  void refine(Indices&, std::vector<Atom>& space, std::vector<Atom>& reduced, const std::function<void()>& build);

  Program program_;
  std::vector<int> uses_;
  std::vector<BufferId> buffer_of_;  // by value; -1: not stored
  std::map<ir::ValueId, View> views_;
  std::map<ir::ValueId, Definition> definitions_;
  std::optional<Split> split_;
  Size volume_ = 0;     // points of the step being built
  bool packs_ = false;  // and it copies its operands anyway
  int host_slots_ = 0, last_host_ = -1;
};

/// Sizes with one copy of what strides of 0 repeat.
Dims without_repeats(const ir::Type&);

/// A rule turns one node into definitions or steps; false leaves it to the host, with refusal set.
using Rule = bool (*)(Lowering&, const ir::Node&);
using Rules = std::map<std::string, Rule, std::less<>>;
void add_pointwise_rules(Rules&);
void add_reduction_rules(Rules&);
void add_matrix_rules(Rules&);
void add_attention_rules(Rules&);
void add_recurrent_rules(Rules&);
void add_order_rules(Rules&);
void add_ctc_rules(Rules&);
void add_index_rules(Rules&);
void add_shape_rules(Rules&);

// ---- Arguments ----
ir::ValueId tensor(const ir::Node&, std::string_view arg);
Size integer(const ir::Node&, std::string_view arg);
double number(const ir::Node&, std::string_view arg);
bool flag(const ir::Node&, std::string_view arg);
Dims integers(const ir::Node&, std::string_view arg);  // empty for None
ir::ValueId result(const ir::Node&);

}  // namespace precast::loops
