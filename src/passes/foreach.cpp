// Ops over lists, _foreach_*: each entry becomes the op on one tensor.
#include <algorithm>

#include "passes/rules.h"

namespace precast::passes {
namespace {

using ir::Arg;
using ir::Ref;

// Argument names of the foreach op and of the op on one tensor. Lists give one entry each.
struct Renamed {
  std::string_view list_name, name;
};
constexpr Renamed kArguments[] = {
    {"self", "self"},
    {"other", "other"},
    {"scalar", "other"},
    {"scalars", "other"},
    {"alpha", "alpha"},
    {"tensor1", "tensor1"},
    {"tensor2", "tensor2"},
    {"value", "value"},
    {"tensors1", "end"},
    {"weights", "weight"},
    {"weight", "weight"},
    {"exponent", "other"},
    {"src", "src"},
    {"ord", "ord"},
    {"dtype", "dtype"},
    {"mat2", "mat2"},
    {"memory_format", "memory_format"},
};

ir::Attr entry(const ir::Attr& a, size_t i) {
  if (auto* refs = std::get_if<std::vector<Ref>>(&a)) return refs->at(i);
  if (auto* reals = std::get_if<std::vector<double>>(&a)) return reals->at(i);
  if (const auto ints = ir::as_dims(a)) return ints->at(i);
  return a;
}

// "aten::_foreach_add_.Scalar" -> "add".
std::string each_name(const std::string& op) {
  size_t start = std::string_view("aten::_foreach_").size(), end = std::min(op.find('.'), op.size());
  std::string name = op.substr(start, end - start);
  if (name.ends_with('_')) name.pop_back();
  return name;
}

void each(Op& op, std::string target, const char* other = "other", std::initializer_list<Arg> defaults = {}) {
  size_t n = op.vals("self").size();
  std::vector<Val> made;
  for (size_t i = 0; i < n; ++i) {
    std::vector<Arg> args;
    for (const Renamed& r : kArguments) {
      if (!op.given(std::string(r.list_name).c_str())) continue;
      std::string name(r.name == "other" ? other : r.name);
      args.push_back({name, entry(*op.find(std::string(r.list_name).c_str()), i)});
    }
    for (const Arg& d : defaults)
      if (std::ranges::none_of(args, [&](const Arg& a) { return a.name == d.name; })) args.push_back(d);
    made.push_back(op.apply(target, std::move(args)));
  }
  if (!op.writes()) return op.results(0, std::move(made));
  for (size_t i = 0; i < n; ++i) op.write("self", made[i], static_cast<int>(i));
}

void each_unary(Op& op) { each(op, "aten::" + each_name(op.name())); }
void each_binary(Op& op) { each(op, "aten::" + each_name(op.name()) + ".Tensor"); }
void each_sum(Op& op) { each(op, "aten::" + each_name(op.name()) + ".Tensor", "other", {{"alpha", int64_t{1}}}); }
// Of a list entry or a number; a number bounds as clamp_min does.
void each_extremum(Op& op) {
  std::string name = each_name(op.name());
  bool max = name == "maximum" || name == "clamp_min";
  if (op.name().find(".List") != std::string::npos) return each(op, max ? "aten::maximum" : "aten::minimum");
  each(op, max ? "aten::clamp_min" : "aten::clamp_max", max ? "min" : "max");
}
void each_pow(Op& op) { each(op, "aten::pow.Tensor_Tensor", "exponent"); }
void each_pow_of_number(Op& op) {
  std::vector<Val> made;
  for (Val v : op.vals("exponent"))
    made.push_back(op.apply("aten::pow.Scalar", {{"self", *op.find("self")}, {"exponent", Ref{v.id}}}));
  op.results(0, std::move(made));
}
void each_ternary(Op& op) { each(op, "aten::" + each_name(op.name()), "value"); }
// The numbers are the elements of a tensor.
template <Val f(Val, Val)>
void each_ternary_by(Op& op) {
  const std::vector<Val> self = op.vals("self"), first = op.vals("tensor1"), second = op.vals("tensor2");
  Val numbers = op.val("scalars");
  for (size_t i = 0; i < self.size(); ++i) {
    const ir::Dtype d = self[i].dtype(), c = compute_dtype(d);
    if (!ir::is_float(d) || first[i].dtype() != d || second[i].dtype() != d) decline("not floats of one dtype");
    Val n = cast(select(numbers, 0, static_cast<int64_t>(i)), c);
    Val r = cast(cast(self[i], c) + f(cast(first[i], c) * n, cast(second[i], c)), d);
    op.writes() ? op.write("self", r, static_cast<int>(i)) : op.append(0, r);
  }
}
Val product(Val x, Val y) { return x * y; }
Val quotient(Val x, Val y) { return x / y; }
void each_lerp(Op& op) { each(op, "aten::lerp.Tensor", "weight"); }
void each_norm(Op& op) {
  each(op, "aten::linalg_vector_norm", "other", {{"ord", int64_t{2}}, {"dim", {}}, {"keepdim", false}});
}
void each_power_sum(Op& op) {
  each(op, "aten::linalg__powsum", "other", {{"ord", int64_t{2}}, {"dim", {}}, {"keepdim", false}});
}
void each_max(Op& op) { each(op, "aten::max"); }

// A row for the op and one for its form in place.
#define PRECAST_EACH(name, rule) \
  {"aten::_foreach_" name, rule}, { "aten::_foreach_" name "_", rule }
#define PRECAST_EACH_OF(name, overload, rule) \
  {"aten::_foreach_" name "." overload, rule}, { "aten::_foreach_" name "_." overload, rule }
#define PRECAST_EACH_OF_ALL(name, rule) \
  PRECAST_EACH_OF(name, "Scalar", rule), PRECAST_EACH_OF(name, "ScalarList", rule), PRECAST_EACH_OF(name, "List", rule)

constexpr Row kRows[] = {
    PRECAST_EACH("abs", each_unary),
    PRECAST_EACH("acos", each_unary),
    PRECAST_EACH("asin", each_unary),
    PRECAST_EACH("atan", each_unary),
    PRECAST_EACH("ceil", each_unary),
    PRECAST_EACH("cos", each_unary),
    PRECAST_EACH("cosh", each_unary),
    PRECAST_EACH("erf", each_unary),
    PRECAST_EACH("erfc", each_unary),
    PRECAST_EACH("exp", each_unary),
    PRECAST_EACH("expm1", each_unary),
    PRECAST_EACH("floor", each_unary),
    PRECAST_EACH("frac", each_unary),
    PRECAST_EACH("lgamma", each_unary),
    PRECAST_EACH("log", each_unary),
    PRECAST_EACH("log10", each_unary),
    PRECAST_EACH("log1p", each_unary),
    PRECAST_EACH("log2", each_unary),
    PRECAST_EACH("neg", each_unary),
    PRECAST_EACH("reciprocal", each_unary),
    PRECAST_EACH("round", each_unary),
    PRECAST_EACH("rsqrt", each_unary),
    PRECAST_EACH("sigmoid", each_unary),
    PRECAST_EACH("sign", each_unary),
    PRECAST_EACH("sin", each_unary),
    PRECAST_EACH("sinh", each_unary),
    PRECAST_EACH("sqrt", each_unary),
    PRECAST_EACH("tan", each_unary),
    PRECAST_EACH("tanh", each_unary),
    PRECAST_EACH("trunc", each_unary),
    PRECAST_EACH("zero", each_unary),
    PRECAST_EACH("copy", each_unary),
    {"aten::_foreach_clone", each_unary},
    {"aten::_foreach_max", each_max},
    {"aten::_foreach_mm", each_unary},
    {"aten::_foreach_norm.Scalar", each_norm},
    {"aten::_foreach_powsum.Scalar", each_power_sum},
    PRECAST_EACH_OF_ALL("add", each_sum),
    PRECAST_EACH_OF("add", "Tensor", each_sum),
    PRECAST_EACH_OF_ALL("sub", each_sum),
    PRECAST_EACH_OF_ALL("mul", each_binary),
    PRECAST_EACH_OF("mul", "Tensor", each_binary),
    PRECAST_EACH_OF_ALL("div", each_binary),
    PRECAST_EACH_OF("div", "Tensor", each_binary),
    PRECAST_EACH_OF_ALL("maximum", each_extremum),
    PRECAST_EACH_OF_ALL("minimum", each_extremum),
    PRECAST_EACH_OF_ALL("clamp_min", each_extremum),
    PRECAST_EACH_OF_ALL("clamp_max", each_extremum),
    PRECAST_EACH_OF_ALL("pow", each_pow),
    {"aten::_foreach_pow.ScalarAndTensor", each_pow_of_number},
    PRECAST_EACH_OF("addcmul", "Tensor", each_ternary_by<product>),
    PRECAST_EACH_OF("addcdiv", "Tensor", each_ternary_by<quotient>),
    PRECAST_EACH_OF("addcmul", "Scalar", each_ternary),
    PRECAST_EACH_OF("addcmul", "ScalarList", each_ternary),
    PRECAST_EACH_OF("addcdiv", "Scalar", each_ternary),
    PRECAST_EACH_OF("addcdiv", "ScalarList", each_ternary),
    PRECAST_EACH_OF_ALL("lerp", each_lerp),
};
#undef PRECAST_EACH
#undef PRECAST_EACH_OF
#undef PRECAST_EACH_OF_ALL

}  // namespace

std::span<const Row> foreach_rules() { return kRows; }

}  // namespace precast::passes
