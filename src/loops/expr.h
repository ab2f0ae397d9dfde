// The value of one element, as a DAG of operations named as in emit/preamble.h. Equal expressions are one node, so
// ids compare. dtype is the tensor dtype: f16 and bf16 results are rounded after every operation.
#pragma once
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "ir/type.h"
#include "loops/index.h"

namespace precast::loops {

using ExprId = int32_t;
using BufferId = int32_t;

struct Expr {
  enum class Kind {
    constant,  // number
    load,      // element `at` of `buffer`, read as dtype
    index,     // the integer `at` (i64, or i32 where it fits)
    call,      // name(args...)
    cast,      // args[0] as dtype, by ATen's rules
    checked,   // args[0] (i64), an index into `extent` entries: wraps if `wrap`, fails out of range; name is the op
    exact,     // constant that is kept in f32 beside f16/bf16 operands
  } kind = Kind::constant;
  ir::Dtype dtype = ir::Dtype::f32;
  std::string name{};
  std::vector<ExprId> args{};
  double real = 0;
  int64_t integer = 0;
  BufferId buffer = -1;
  Index at{};
  Size extent = 0;
  int dim = 0;
  bool wrap = false;
};

/// Owns all expressions and loop variables of one graph.
class Exprs {
 public:
  ExprId constant(ir::Dtype, double);
  ExprId constant(ir::Dtype, int64_t);
  /// A factor or divisor of an operand of this dtype: ATen does not round it to f16/bf16 first.
  ExprId operand_number(ir::Dtype, double);
  ExprId load(BufferId, ir::Dtype, Index at);
  ExprId index(Index, ir::Dtype = ir::Dtype::i64);
  ExprId call(std::string name, ir::Dtype result, std::vector<ExprId> args);
  ExprId cast(ir::Dtype, ExprId);
  ExprId checked(std::string op, int dim, Size extent, bool wrap, ExprId);
  ExprId select(ExprId condition, ExprId a, ExprId b);

  const Expr& operator[](ExprId id) const { return nodes_[static_cast<size_t>(id)]; }

  Atom variable(Size extent);
  Size extent(Atom) const;
  ExtentOf extent_of() const {
    return [this](Atom a) { return extent(a); };
  }
  /// `e` as an index: affine where it is one, else an atom read at run time.
  Index as_index(ExprId e);

  using Variables = std::function<std::optional<Index>(Atom)>;
  /// Rewrites loop variables everywhere below `id`, run-time indices included.
  ExprId substitute(ExprId id, const Variables&);
  Index substitute(const Index&, const Variables&);
  /// Replaces whole expressions; `f` gives nothing for what is to be rebuilt from its parts.
  ExprId rewrite(ExprId id, const std::function<std::optional<ExprId>(ExprId)>& f);

  /// Calls f(id) once for each node below `id`, operands first, run-time indices of loads included.
  void visit(ExprId id, const std::function<void(ExprId)>& f) const;
  void visit(const std::vector<ExprId>& roots, const std::function<void(ExprId)>& f) const;
  /// Roughly how many simple vector operations the expression takes.
  double cost(ExprId id) const;

 private:
  /// An i64 expression of loop variables in i32, where it fits: twice the lanes.
  std::optional<ExprId> narrow(ExprId);
  ExprId intern(Expr);
  using Memo = std::map<ExprId, ExprId>;
  ExprId substitute(ExprId, const Variables&, Memo&);
  Index substitute(const Index&, const Variables&, Memo&);

  std::vector<Expr> nodes_;
  std::map<std::string, ExprId> known_;
  Dims extents_;
};

/// Cost of one operation, in simple vector operations.
double operation_cost(const Expr&);

}  // namespace precast::loops
