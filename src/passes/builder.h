// Appends core nodes, and knows the dtype, sizes and strides of their results. Formulas read as formulas:
//   Val y = x * sigmoid(x);
// Operands of one operation must have one dtype (cast first); numbers take the operand's dtype.
#pragma once
#include <deque>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "ir/graph.h"
#include "passes/layout.h"
#include "passes/promote.h"

namespace precast::passes {

class Builder;

/// A value of the graph under construction. Empty: an undefined tensor.
struct Val {
  Builder* b = nullptr;
  ir::ValueId id = ir::kNoValue;

  explicit operator bool() const { return id != ir::kNoValue; }
  const ir::Type& type() const;
  ir::Dtype dtype() const { return type().dtype; }
  const Dims& sizes() const { return type().sizes; }
  const Size& size(int64_t d) const { return type().sizes[static_cast<size_t>(d)]; }
  int64_t dim() const { return type().dim(); }
  Size numel() const { return type().numel(); }
};

/// Which result of which recorded node a value is.
struct Origin {
  ir::Node node;
  size_t out = 0;
};
using Origins = std::unordered_map<ir::ValueId, Origin>;

class Builder {
 public:
  explicit Builder(const ir::Graph& g, const Origins* origins = nullptr) : graph_(g), origins_(origins) {}

  std::vector<ir::Node> nodes;  // made so far
  std::deque<ir::Value> added;  // their values; numbered after the graph's

  Val value(ir::ValueId id) { return {this, id}; }
  bool is_input(Val) const;
  const ir::Type& type(ir::ValueId) const;
  /// nullptr for a graph input and for what was not decomposed.
  const Origin* origin(Val) const;
  ir::Type& added_type(ir::ValueId);  // of a value made here
  Val emit(std::string op, std::vector<ir::Arg> args, ir::Type type);
  /// A node of several results.
  std::vector<Val> emit_all(std::string op, std::vector<ir::Arg> args, std::vector<ir::Type> types);

  /// A pointwise node: result of the broadcast sizes, in the layout ATen would choose.
  Val pointwise(std::string op, std::vector<ir::Arg> args, const std::vector<Val>& operands, ir::Dtype result);

  // Creation.
  Val full(const Dims& sizes, Number, ir::Dtype);
  Val number(Number n, ir::Dtype d) { return full({}, n, d); }
  Val arange(const Size& end, ir::Dtype = ir::Dtype::i64);

  // Windows on bytes that exist: no copy.
  Val view(Val, ir::Type, const Size& offset_bytes = 0);

 private:
  const ir::Graph& graph_;
  const Origins* origins_;
};

// Pointwise, one operand.
Val unary(std::string_view name, Val);  // "exp": result of the operand's dtype
Val cast(Val, ir::Dtype);
Val copy(Val, const Dims& strides);  // a clone in this layout
Val neg(Val);
Val abs(Val);
Val exp(Val);
Val log(Val);
Val log1p(Val);
Val expm1(Val);
Val sqrt(Val);
Val rsqrt(Val);
Val tanh(Val);
Val erf(Val);
Val sigmoid(Val);
Val sign(Val);
Val isnan(Val);
Val logical_not(Val);

// Two operands of one dtype, or one and a number.
Val binary(std::string_view op, Val, Val);            // "add.Tensor", "maximum"; comparisons give bool
Val binary_number(std::string_view op, Val, Number);  // "add.Scalar"
Val div_mode(Val, Val, const char* rounding_mode);
Val operator+(Val, Val);
Val operator-(Val, Val);
Val operator*(Val, Val);
Val operator/(Val, Val);
Val operator+(Val, Number);
Val operator-(Val, Number);
Val operator*(Val, Number);
Val operator/(Val, Number);
Val operator+(Number, Val);
Val operator-(Number, Val);
Val operator*(Number, Val);
Val operator/(Number, Val);
Val operator-(Val);
Val lt(Val, Number);
Val le(Val, Number);
Val gt(Val, Number);
Val ge(Val, Number);
Val eq(Val, Number);
Val ne(Val, Number);
Val logical_and(Val, Val);
Val logical_or(Val, Val);
Val where(Val condition, Val, Val);
Val where(Val condition, Number, Val);
Val where(Val condition, Val, Number);
/// min(max(x, low), high) as eager's kernels write it: NaN stays, and so does -0 against 0.
Val at_least(Val, Number low);
Val at_most(Val, Number high);

// Reductions over wrapped, distinct dims; 0-dim operands are allowed.
Val sum(Val, const Dims& dims, bool keepdim);
Val reduce(std::string_view op, Val, const Dims& dims, bool keepdim, ir::Dtype result);  // amax amin any.dims all.dims
Val reduce_one(std::string_view op, Val, int64_t dim, bool keepdim, ir::Dtype result);   // prod.dim_int argmax argmin
Val mean(Val, const Dims& dims, bool keepdim);
Number as_real(const Size&);          // a number of elements as what it divides sees it
Number count(Val, const Dims& dims);  // elements of these dims
Val cumsum(Val, int64_t dim);         // of i64
Dims all_dims(Val);

// Matrix products: [n,k]x[k,m], [b,n,k]x[b,k,m].
Val mm(Val, Val);
Val bmm(Val, Val);
/// [2, n] of i64: rows and columns of the places on and below (or above) a diagonal, row by row.
Val triangle_places(Builder&, int64_t rows, int64_t columns, int64_t diagonal, bool lower);

/// Two operands, a letter for each dim; the result is contiguous. Of integers too.
Val einsum(std::string equation, Val, Val);

// Shape: windows where possible.
Val reshape(Val, const Dims& sizes);
Val expand(Val, const Dims& sizes);
Val permute(Val, const Dims& dims);
Val transpose(Val, int64_t d0, int64_t d1);
Val unsqueeze(Val, int64_t d);
Val squeeze(Val, int64_t d);
Val select(Val, int64_t d, const Size& index);
Val slice(Val, int64_t d, const Size& start, const Size& length, int64_t step = 1);
/// base with the window (in elements of base's dtype) overwritten; src has the window's sizes and base's dtype.
Val scatter_window(Val base, Val src, const Size& offset_bytes, const Dims& strides);
Val contiguous(Val);
/// A contiguous copy, because what comes next reads it in that order: no pass gives it another layout.
Val in_order(Val);
/// As torch.nn.functional.pad: amounts from the last dim on.
Val pad(Val, const Dims& amounts, Number value);
Val flip(Val, const Dims& dims);
Val cat(const std::vector<Val>&, int64_t d);

Val flip(Val, int64_t d);
/// More elements of this value before and after, along d; fewer where negative.
Val pad(Val, int64_t d, const Size& before, const Size& after, Number value);
/// `passed`, once `condition` (0-dim) holds; a run fails with the message if not.
Val require(Val condition, const std::string& message, Val passed);

// Index. Indices are i64; `index` 1-D for index_select and index_add, of the operand's rank for gather and scatter.
Val gather(Val, int64_t d, Val index);
Val index_select(Val, int64_t d, Val index);
Val index_add(Val base, int64_t d, Val index, Val source);
Val scatter(Val base, int64_t d, Val index, Val source);
Val scatter(Val base, int64_t d, Val index, Number value);
Val scatter_add(Val base, int64_t d, Val index, Val source);
/// reduce: "prod", "amax", "amin"; base counts.
Val scatter_reduce(Val base, int64_t d, Val index, Val source, const char* reduce);
/// x[indices] for indices that stand side by side; an empty Val is a whole dim.
Val index(Val, const std::vector<Val>& indices);
Val index_put(Val, const std::vector<Val>& indices, Val values, bool accumulate);

/// d in [0, rank); declines when out of range. Rank 0 counts as 1.
int64_t wrap_dim(int64_t d, int64_t rank);

}  // namespace precast::passes
