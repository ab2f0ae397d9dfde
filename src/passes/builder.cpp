#include "passes/builder.h"

#include <algorithm>
#include <numeric>

#include "util/errors.h"

namespace precast::passes {

using ir::Arg;
using ir::Attr;
using ir::Dtype;
using ir::Ref;
using ir::Type;

namespace {

Ref ref(Val v) { return {v.id}; }
std::string aten(std::string_view op) { return "aten::" + std::string(op); }
std::string_view base_name(std::string_view op) { return op.substr(0, op.find('.')); }

bool gives_bool(std::string_view op) {
  static constexpr std::string_view kNames[] = {
      "eq", "ne", "lt", "le", "gt", "ge", "isnan", "isinf", "logical_and", "logical_or", "logical_xor", "logical_not"};
  return std::ranges::find(kNames, base_name(op)) != std::end(kNames);
}

const char* second_name(std::string_view op) { return base_name(op) == "pow" ? "exponent" : "other"; }

bool has_alpha(std::string_view op) { return base_name(op) == "add" || base_name(op) == "sub"; }

std::vector<Arg> with_alpha(std::string_view op, std::vector<Arg> args) {
  if (has_alpha(op)) args.push_back({"alpha", int64_t{1}});
  return args;
}

}  // namespace

const Type& Val::type() const { return b->type(id); }

const Type& Builder::type(ir::ValueId id) const {
  auto i = static_cast<size_t>(id);
  return i < graph_.values.size() ? graph_.values[i].type : added[i - graph_.values.size()].type;
}

const Origin* Builder::origin(Val v) const {
  if (!origins_) return nullptr;
  const auto found = origins_->find(v.id);
  return found == origins_->end() ? nullptr : &found->second;
}
bool Builder::is_input(Val v) const { return std::ranges::find(graph_.inputs, v.id) != graph_.inputs.end(); }

Type& Builder::added_type(ir::ValueId id) { return added[static_cast<size_t>(id) - graph_.values.size()].type; }

Val Builder::emit(std::string op, std::vector<Arg> args, Type type) {
  return emit_all(std::move(op), std::move(args), {std::move(type)})[0];
}

std::vector<Val> Builder::emit_all(std::string op, std::vector<Arg> args, std::vector<Type> types) {
  ir::Node n{std::move(op), std::move(args), {}, {}, {}};
  std::vector<Val> results;
  for (Type& type : types) {
    auto id = static_cast<ir::ValueId>(graph_.values.size() + added.size());
    added.push_back({std::move(type), {}});
    n.outs.emplace_back().id = id;
    results.push_back({this, id});
  }
  nodes.push_back(std::move(n));
  return results;
}

Val Builder::pointwise(std::string op, std::vector<Arg> args, const std::vector<Val>& operands, Dtype result) {
  std::vector<const Type*> types;
  for (Val v : operands) types.push_back(&v.type());
  auto sizes = broadcast_sizes(types);
  if (!sizes) decline("operands do not broadcast");
  Type t{.dtype = result, .sizes = *sizes, .strides = pointwise_strides(types, *sizes)};
  return emit(std::move(op), std::move(args), std::move(t));
}

Val Builder::full(const Dims& sizes, Number n, Dtype d) {
  return emit("aten::full",
              {{"size", sizes},
               {"fill_value", n.in(d)},
               {"dtype", d},
               {"layout", {}},
               {"device", ir::Device{}},
               {"pin_memory", {}}},
              ir::contiguous(d, sizes));
}

Val Builder::arange(const Size& end, Dtype d) {
  return emit("aten::arange.start_step",
              {{"start", int64_t{0}},
               {"end", end},
               {"step", int64_t{1}},
               {"dtype", d},
               {"layout", {}},
               {"device", ir::Device{}},
               {"pin_memory", {}}},
              ir::contiguous(d, {end}));
}

Val Builder::view(Val v, Type type, const Size& offset) {
  if (offset == 0 && type == v.type()) return v;
  return emit("prim::view", {{"base", ref(v)}, {"offset", offset}}, std::move(type));
}

// ---- one operand

Val unary(std::string_view name, Val x) {
  return x.b->pointwise(aten(name), {{"self", ref(x)}}, {x}, gives_bool(name) ? Dtype::b8 : x.dtype());
}

Val cast(Val x, Dtype d) {
  if (x.dtype() == d) return x;
  return x.b->emit("aten::_to_copy",
                   {{"self", ref(x)},
                    {"dtype", d},
                    {"layout", {}},
                    {"device", {}},
                    {"pin_memory", {}},
                    {"non_blocking", false},
                    {"memory_format", {}}},
                   {.dtype = d, .sizes = x.sizes(), .strides = preserved_strides(x.type())});
}

Val copy(Val x, const Dims& strides) {
  Type t = x.type();
  t.strides = strides;
  return x.b->emit("aten::clone", {{"self", ref(x)}, {"memory_format", {}}}, std::move(t));
}

Val neg(Val x) { return unary("neg", x); }
Val abs(Val x) { return unary("abs", x); }
Val exp(Val x) { return unary("exp", x); }
Val log(Val x) { return unary("log", x); }
Val log1p(Val x) { return unary("log1p", x); }
Val expm1(Val x) { return unary("expm1", x); }
Val sqrt(Val x) { return unary("sqrt", x); }
Val rsqrt(Val x) { return unary("rsqrt", x); }
Val tanh(Val x) { return unary("tanh", x); }
Val erf(Val x) { return unary("erf", x); }
Val sigmoid(Val x) { return unary("sigmoid", x); }
Val sign(Val x) { return unary("sign", x); }
Val isnan(Val x) { return unary("isnan", x); }
Val logical_not(Val x) { return unary("logical_not", x); }

// ---- two operands

Val binary(std::string_view op, Val x, Val y) {
  PRECAST_CHECK(x.dtype() == y.dtype(), "operands of " + std::string(op) + " have two dtypes");
  return x.b->pointwise(aten(op), with_alpha(op, {{"self", ref(x)}, {second_name(op), ref(y)}}), {x, y},
                        gives_bool(op) ? Dtype::b8 : x.dtype());
}

Val binary_number(std::string_view op, Val x, Number n) {
  return x.b->pointwise(aten(op), with_alpha(op, {{"self", ref(x)}, {second_name(op), n.in(x.dtype())}}), {x},
                        gives_bool(op) ? Dtype::b8 : x.dtype());
}

Val div_mode(Val x, Val y, const char* rounding_mode) {
  PRECAST_CHECK(x.dtype() == y.dtype(), "operands of div have two dtypes");
  return x.b->pointwise("aten::div.Tensor_mode",
                        {{"self", ref(x)}, {"other", ref(y)}, {"rounding_mode", std::string(rounding_mode)}}, {x, y},
                        x.dtype());
}

Val operator+(Val x, Val y) { return binary("add.Tensor", x, y); }
Val operator-(Val x, Val y) { return binary("sub.Tensor", x, y); }
Val operator*(Val x, Val y) { return binary("mul.Tensor", x, y); }
Val operator/(Val x, Val y) { return binary("div.Tensor", x, y); }
Val operator+(Val x, Number n) { return binary_number("add.Scalar", x, n); }
Val operator-(Val x, Number n) { return binary_number("sub.Scalar", x, n); }
Val operator*(Val x, Number n) { return binary_number("mul.Scalar", x, n); }
Val operator/(Val x, Number n) { return binary_number("div.Scalar", x, n); }
Val operator+(Number n, Val x) { return x + n; }
Val operator-(Number n, Val x) { return neg(x) + n; }  // IEEE: n - x is n + (-x)
Val operator*(Number n, Val x) { return x * n; }
Val operator/(Number n, Val x) { return n == 1.0 ? unary("reciprocal", x) : x.b->number(n, x.dtype()) / x; }
Val operator-(Val x) { return neg(x); }
Val lt(Val x, Number n) { return binary_number("lt.Scalar", x, n); }
Val le(Val x, Number n) { return binary_number("le.Scalar", x, n); }
Val gt(Val x, Number n) { return binary_number("gt.Scalar", x, n); }
Val ge(Val x, Number n) { return binary_number("ge.Scalar", x, n); }
Val eq(Val x, Number n) { return binary_number("eq.Scalar", x, n); }
Val ne(Val x, Number n) { return binary_number("ne.Scalar", x, n); }
Val logical_and(Val x, Val y) { return binary("logical_and", x, y); }
Val logical_or(Val x, Val y) { return binary("logical_or", x, y); }

Val where(Val c, Val x, Val y) {
  PRECAST_CHECK(c.dtype() == Dtype::b8 && x.dtype() == y.dtype(), "where needs a bool and operands of one dtype");
  return x.b->pointwise("aten::where.self", {{"condition", ref(c)}, {"self", ref(x)}, {"other", ref(y)}}, {c, x, y},
                        x.dtype());
}
Val where(Val c, Number n, Val y) { return where(c, y.b->number(n, y.dtype()), y); }
Val where(Val c, Val x, Number n) { return where(c, x, x.b->number(n, x.dtype())); }
Val at_least(Val x, Number low) { return where(lt(x, low), low, x); }
Val at_most(Val x, Number high) { return where(gt(x, high), high, x); }

// ---- reductions

Dims all_dims(Val x) {
  Dims dims(x.sizes().size());
  std::iota(dims.begin(), dims.end(), 0);
  return dims;
}

namespace {

Type reduced(const Type& t, const Dims& dims, bool keepdim, Dtype result) {
  Dims sizes;
  for (int64_t d = 0; d < t.dim(); ++d) {
    if (std::ranges::find(dims, Size(d)) == dims.end())
      sizes.push_back(t.sizes[static_cast<size_t>(d)]);
    else if (keepdim)
      sizes.push_back(1);
  }
  return ir::contiguous(result, std::move(sizes));
}

}  // namespace

Val reduce(std::string_view op, Val x, const Dims& dims, bool keepdim, Dtype result) {
  if (x.dim() == 0) return reduce(op, reshape(x, {1}), {0}, false, result);
  PRECAST_CHECK(!dims.empty(), "a reduction needs its dims");
  std::vector<Arg> args{{"self", ref(x)}, {"dim", dims}, {"keepdim", keepdim}};
  if (op == "sum.dim_IntList") args.push_back({"dtype", {}});
  return x.b->emit(aten(op), std::move(args), reduced(x.type(), dims, keepdim, result));
}

Val sum(Val x, const Dims& dims, bool keepdim) {
  bool counts = !ir::is_float(x.dtype());  // integers and bools add up as i64
  return reduce("sum.dim_IntList", counts ? cast(x, Dtype::i64) : x, dims, keepdim, counts ? Dtype::i64 : x.dtype());
}

Val cumsum(Val x, int64_t dim) {
  return x.b->emit("aten::cumsum", {{"self", Ref{x.id}}, {"dim", dim}, {"dtype", {}}}, x.type());
}

Val reduce_one(std::string_view op, Val x, int64_t dim, bool keepdim, Dtype result) {
  if (x.dim() == 0) return reduce_one(op, reshape(x, {1}), 0, false, result);
  std::vector<Arg> args{{"self", ref(x)}, {"dim", dim}, {"keepdim", keepdim}};
  if (op == "prod.dim_int") args.push_back({"dtype", {}});
  return x.b->emit(aten(op), std::move(args), reduced(x.type(), {dim}, keepdim, result));
}

Number as_real(const Size& n) { return n.is_symbolic() ? Number(n) : Number(static_cast<double>(n)); }

Number count(Val x, const Dims& dims) {
  Size n = 1;
  for (int64_t d : dims) n *= x.dim() == 0 ? Size(1) : x.size(d);
  return as_real(n);
}

Val mean(Val x, const Dims& dims, bool keepdim) { return sum(x, dims, keepdim) / count(x, dims); }

// ---- matrix products

Val mm(Val x, Val y) {
  PRECAST_CHECK(x.dtype() == y.dtype() && x.dim() == 2 && y.dim() == 2 && x.size(1) == y.size(0), "mm");
  return x.b->emit("aten::mm", {{"self", ref(x)}, {"mat2", ref(y)}}, ir::contiguous(x.dtype(), {x.size(0), y.size(1)}));
}

Val bmm(Val x, Val y) {
  PRECAST_CHECK(
      x.dtype() == y.dtype() && x.dim() == 3 && y.dim() == 3 && x.size(0) == y.size(0) && x.size(2) == y.size(1),
      "bmm");
  return x.b->emit("aten::bmm", {{"self", ref(x)}, {"mat2", ref(y)}},
                   ir::contiguous(x.dtype(), {x.size(0), x.size(1), y.size(2)}));
}

namespace {

// v, whose dims have these letters, with a dim for each of `all`; of size 1 where it has none.
Val aligned(Val v, const std::string& letters, const std::string& all) {
  Type t = v.type();
  t.sizes.assign(all.size(), 1), t.strides.assign(all.size(), 1);
  for (size_t d = 0; d < letters.size(); ++d) {
    t.sizes[all.find(letters[d])] = v.sizes()[d];
    t.strides[all.find(letters[d])] = v.type().strides[d];
  }
  return v.b->view(v, std::move(t));
}

}  // namespace

Val einsum(std::string equation, Val x, Val y) {
  PRECAST_CHECK(x.dtype() == y.dtype(), "operands of einsum have two dtypes");
  const size_t comma = equation.find(','), arrow = equation.find("->");
  const std::string left = equation.substr(0, comma), right = equation.substr(comma + 1, arrow - comma - 1);
  if (!ir::is_float(x.dtype())) {  // integers have no product kernels: a product and a sum, which wrap alike
    std::string letters = equation.substr(arrow + 2);
    Dims summed;
    for (char letter : left)
      if (letters.find(letter) == letters.npos) {
        summed.push_back(static_cast<int64_t>(letters.size()));
        letters += letter;
      }
    Val terms = cast(aligned(x, left, letters), Dtype::i64) * cast(aligned(y, right, letters), Dtype::i64);
    return cast(summed.empty() ? terms : sum(terms, summed, false), x.dtype());
  }
  Dims sizes;
  for (char letter : equation.substr(arrow + 2)) {
    const size_t in_left = left.find(letter);
    sizes.push_back(in_left < left.size() ? x.sizes().at(in_left) : y.sizes().at(right.find(letter)));
  }
  return x.b->emit("aten::einsum",
                   {{"equation", std::move(equation)}, {"tensors", std::vector<Ref>{ref(x), ref(y)}}, {"path", {}}},
                   ir::contiguous(x.dtype(), std::move(sizes)));
}

}  // namespace precast::passes
