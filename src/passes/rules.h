// What a rule sees of the node it rewrites, and the tables that hold the rules: one row an op.
#pragma once
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "ir/graph.h"
#include "passes/builder.h"

namespace precast::passes {

/// The recorded node: its arguments by the schema's names, and where its results go. A reader declines when the
/// argument is of another kind.
class Op {
 public:
  Op(Builder& b, const ir::Node& n) : b(b), node_(n), outs_(n.outs.size()), writes_(n.writes.size()) {}
  Builder& b;

  const ir::Attr* find(const char* arg) const { return node_.find(arg); }
  bool given(const char* arg) const;      // present and not None
  bool is_number(const char* arg) const;  // a number where a tensor might be: it takes part in promotion as one
  Val val(const char* arg) const;         // a tensor
  Val optional(const char* arg) const;    // a tensor or empty
  std::vector<Val> vals(const char* arg) const;
  Number number(const char* arg) const;
  std::optional<Number> optional_number(const char* arg) const;
  int64_t integer(const char* arg) const;
  Size size(const char* arg) const;
  double real(const char* arg) const { return number(arg).real(); }
  bool flag(const char* arg) const;
  Dims ints(const char* arg) const;
  std::string text(const char* arg) const;
  std::optional<ir::Dtype> dtype(const char* arg) const;  // None: nothing

  /// Wrapped dims of the argument ("dim"); None and, unless `empty_is_none`, an empty list mean all.
  Dims dims(const char* arg, Val of) const;

  /// A tensor or number operand as a tensor of this dtype.
  Val as(const char* arg, ir::Dtype) const;
  ir::Dtype common_dtype(std::initializer_list<const char*> args) const;

  bool wants(size_t out) const {
    return out < wanted_.size() || (out < node_.outs.size() && node_.outs[out].id != ir::kNoValue);
  }
  const ir::Type& wanted(size_t out) const { return out < wanted_.size() ? wanted_[out] : b.type(node_.outs[out].id); }
  /// The row's name: of an in-place or out= form, the functional op.
  const std::string& name() const { return row_.empty() ? node_.op : row_; }
  const std::vector<ir::Arg>& args() const { return node_.args; }
  /// The arguments with another value in one place.
  std::vector<ir::Arg> args_with(const char* arg, Val v) const;

  /// The first result of another op's rule, of real or complex values; all results. `wanted` stands for what is
  /// recorded of them.
  Val apply(std::string name, std::vector<ir::Arg> args, std::vector<ir::Type> wanted = {}) const;
  std::vector<Val> apply_all(std::string name, std::vector<ir::Arg> args, std::vector<ir::Type> wanted = {}) const;

  bool writes() const { return !node_.writes.empty(); }
  void result(size_t out, Val v);
  void results(size_t out, std::vector<Val> list);   // a Tensor[] return
  void append(size_t out, Val v);                    // to one
  void write(const char* arg, Val v, int item = 0);  // what a written operand holds afterwards

 private:
  friend class Decomposer;
  const ir::Attr& at(const char* arg) const;
  Val result_at(size_t out) const { return out < outs_.size() && !outs_[out].empty() ? outs_[out][0] : Val{}; }

  const ir::Node& node_;
  std::string row_;               // empty: the node's own name
  std::vector<ir::Type> wanted_;  // of a node that stands in no graph, or of what an out= form writes
  std::vector<std::vector<Val>> outs_;
  std::vector<Val> writes_;
};

using Rule = void (*)(Op&);
struct Row {
  std::string_view op;
  Rule rule;
};

// One table a family.
std::span<const Row> pointwise_rules();
std::span<const Row> special_rules();
std::span<const Row> ternary_rules();
std::span<const Row> activation_rules();
std::span<const Row> reduction_rules();
std::span<const Row> order_rules();
std::span<const Row> softmax_rules();
std::span<const Row> norm_rules();
std::span<const Row> weight_norm_rules();
std::span<const Row> loss_rules();
std::span<const Row> margin_loss_rules();
std::span<const Row> matrix_rules();
std::span<const Row> convolution_rules();
std::span<const Row> pool_rules();
std::span<const Row> pool_indexed_rules();
std::span<const Row> distance_rules();
std::span<const Row> index_rules();
std::span<const Row> scatter_rules();
std::span<const Row> embedding_rules();
std::span<const Row> shape_rules();
std::span<const Row> rearrange_rules();
std::span<const Row> padding_rules();
std::span<const Row> resample_rules();
std::span<const Row> antialias_rules();
std::span<const Row> grid_rules();
std::span<const Row> creation_rules();
std::span<const Row> foreach_rules();
std::span<const Row> optimizer_rules();
std::span<const Row> attention_rules();
std::span<const Row> recurrent_rules();
std::span<const Row> ctc_rules();

/// nullptr when no table has the op.
Rule find_rule(std::string_view op);
/// For nodes with complex values, which have no other rules.
Rule find_complex_rule(std::string_view op);
/// The one of both that the node takes.
bool has_complex(const Builder&, const ir::Node&);
/// All ops of the tables, sorted.
std::vector<std::string_view> ops_with_rules();

/// Computes `formula` as eager does for half types: in f32, rounded once at the end.
template <class F>
Val in_f32(Val x, F formula) {
  ir::Dtype d = x.dtype();
  bool half = d == ir::Dtype::f16 || d == ir::Dtype::bf16;
  return cast(formula(half ? cast(x, ir::Dtype::f32) : x), d);
}
/// The dtype that kernels compute in: f32 for half types.
inline ir::Dtype compute_dtype(ir::Dtype d) { return d == ir::Dtype::f16 || d == ir::Dtype::bf16 ? ir::Dtype::f32 : d; }

}  // namespace precast::passes
