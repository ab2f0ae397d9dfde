// Turns one kernel into text. The parts: kernel_schedule.cpp decides (stages, lanes, scratch), kernel_rows.cpp writes
// loops, kernel_product.cpp matrix products, kernel.cpp the function around them.
#pragma once
#include <functional>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "emit/gemm.h"
#include "emit/kernel.h"
#include "emit/size_text.h"
#include "emit/writer.h"

namespace precast::emit {

using ir::Dtype;
using ir::Size;
using loops::Atom;
using loops::Buffer;
using loops::BufferId;
using loops::Expr;
using loops::ExprId;
using loops::Index;
using loops::Kernel;
using loops::Program;
using loops::Reduction;
using loops::Step;

inline constexpr int kMaxLanes = 16;

bool is_arg(Reduction);
bool contains(const std::vector<Atom>&, Atom);

class KernelWriter {
 public:
  KernelWriter(loops::Kernel k, loops::Program& p, const std::set<loops::BufferId>& kept,
               const std::set<loops::BufferId>& constants, const ProductConfig& config)
      : kernel_(std::move(k)),
        program_(p),
        exprs_(p.exprs),
        w_(p.exprs),
        kept_(kept),
        constants_(constants),
        config_(config) {}

  KernelText run();

 private:
  // ---- The function ----
  void count(const loops::Step& s);
  bool produced(loops::BufferId b) const;
  void read(loops::BufferId b, const loops::Index& at, ir::Dtype t);
  /// The function: units of outer points, spread over threads.
  KernelText spread(void (KernelWriter::*body)());
  std::string parameters();
  /// Declares the symbols that the text names.
  std::string sizes(const std::string& text);
  void finish();
  Size extent(loops::Atom a) const { return exprs_.extent(a); }
  bool lane_in_row() const { return w_.lane >= 0 && contains(kernel_.inner, w_.lane); }

  // ---- Decisions ----
  bool at_inner_level(const loops::Step& s) const;
  /// Stage of each step: loops over the row run one after the other; a reduction's result is there after its stage.
  /// Steps on the outer level run before the loops of their stage.
  void assign_stages();
  /// The variable whose neighbours are computed side by side: the one that makes memory access cheapest.
  void choose_lane();
  double access(const loops::Index& at, loops::Atom v);
  bool lane_possible(const loops::Step& s, loops::Atom v);
  /// Values that one stage leaves for a later one, and that nobody else wants, stay in arrays of the thread.
  void choose_scratch();
  void choose_width();
  /// Declares the row's order: the lane variable innermost, else as given.
  std::vector<loops::Atom> row_order() const;
  /// Lanes far apart in an operand that is contiguous along another outer variable.
  bool transposes();
  /// Operations for one outer point, and more of them for each element of the row; and the ns of one.
  struct Cost {
    double operation = 0, each = 0, per_element = 0;
  };
  Cost point_cost();

  // ---- Loops ----
  /// `body` for every vector of [low, high) along the lane variable.
  void along_lanes(const std::string& low, const std::string& high, int unroll, bool has_tail,
                   const std::function<void(int)>& body);
  void rows();
  void stages();
  void declare_scratch();
  void map(const loops::Step& s);
  ir::Dtype accumulator(const loops::Step& s) const;
  bool cascades(const loops::Step& s) const;
  const char* position_type() const;
  /// One pass over the row.
  void row_loops(int stage);
  void one_by_one(loops::Atom variable, const std::string& low, const std::string& high, int unroll,
                  const std::function<void(int)>& body);
  void accumulate(const loops::Step& s, const std::string& to);
  void merge(const loops::Step& s, const std::string& a, const std::string& b);
  /// The accumulator becomes a value of the outer level.
  void result(const loops::Step& s, size_t i);
  void scan(const loops::Step& s, size_t i);
  void write_rows();

  // ---- Matrix products ----
  KernelText matmul();
  double lane_cost(loops::Atom v);
  void pack(const GemmSpec& product, const loops::Expr& source);

  loops::Kernel kernel_;
  loops::Program& program_;
  loops::Exprs& exprs_;
  Writer w_;
  std::set<loops::BufferId> kept_;
  const std::set<loops::BufferId>& constants_;
  const ProductConfig config_;
  KernelText out_;
  std::set<std::pair<loops::BufferId, loops::Index>> counted_;
  std::vector<int> stage_;  // by step
  std::vector<size_t> scratch_steps_;
  std::string width_ = "LANES", low_, high_, pending_;
  Size block_multiple_ = 0;
};

}  // namespace precast::emit
