// Ops on complex values, by their parts.
#include <algorithm>
#include <cmath>
#include <complex>

#include "passes/complex_maths.h"

namespace precast::passes {
namespace {

using ir::Dtype;
using ir::Ref;

void give(Op& op, Parts p) { op.result(0, joined(p)); }
Parts self(Op& op) { return parts(op.val("self")); }

// Eager's vectors of complex numbers, not its single ones, where an element has its neighbour beside it. (The last
// few elements of a row go one by one there too, which only shows where an infinity is divided.)
bool in_vectors(Val x) {
  for (int64_t d = 0; d < x.dim(); ++d)
    if (x.size(d) > 1 && x.type().strides[static_cast<size_t>(d)] == 1) return true;
  return x.dim() == 0;
}

std::complex<double> number_of(const ir::Attr& a) {
  if (auto* z = std::get_if<std::complex<double>>(&a)) return *z;
  if (auto* d = std::get_if<double>(&a)) return *d;
  if (auto* i = std::get_if<int64_t>(&a)) return static_cast<double>(*i);
  if (auto* b = std::get_if<bool>(&a)) return *b ? 1 : 0;
  decline("a number of another kind");
}
bool is_any_number(const ir::Attr& a) { return !std::holds_alternative<Ref>(a); }

// ---- arithmetic

// Eager multiplies by alpha as a complex number even if it is 1, which spreads NaN and infinities.
void add_scaled(Op& op, const char* first, const char* second, double sign) {
  Dtype d = part_dtype(op, {"self", "other"});
  std::complex<double> n = 1;
  if (const ir::Attr* a = op.find("alpha")) n = number_of(*a);
  n = n.imag() == 0 ? n.real() * sign : n * sign;
  Parts x = operand(op, first, d), y = operand(op, second, d), alpha = number(op.b.number(0.0, d), n.real(), n.imag());
  y = {y.re * alpha.re - y.im * alpha.im, y.re * alpha.im + y.im * alpha.re};
  give(op, x + y);
}
void add(Op& op) { add_scaled(op, "self", "other", 1); }
void sub(Op& op) { add_scaled(op, "self", "other", -1); }
void rsub(Op& op) { add_scaled(op, "other", "self", -1); }

template <Parts f(Parts, Parts)>
void of_two(Op& op) {
  Dtype d = part_dtype(op, {"self", "other"});
  give(op, f(operand(op, "self", d), operand(op, "other", d)));
}
Parts product(Parts x, Parts y) { return x * y; }
Parts quotient(Parts x, Parts y) { return x / y; }
void div_mode(Op& op) {
  if (op.given("rounding_mode")) decline("complex numbers are not rounded");
  of_two<quotient>(op);
}

Val float_of(Val x) { return ir::is_float(part_of(x.dtype())) ? x : cast(x, Dtype::f32); }
template <Parts f(Parts)>
void of_one(Op& op) {
  give(op, f(parts(float_of(op.val("self")))));
}
Parts square(Parts x) { return x * x; }
Parts conj(Parts x) { return {x.re, neg(x.im)}; }
Parts minus(Parts x) { return -x; }
Parts exp2(Parts x) { return exp(times(x, std::log(2.0))); }
template <int base>
Parts log_to(Parts x) {
  Parts y = log(x);
  return {y.re / std::log(double{base}), y.im / std::log(double{base})};
}
Parts rsqrt(Parts x) { return reciprocal(sqrt(x)); }
Parts sigmoid(Parts x) {
  Parts one = number(x.re, 1);
  return one / (one + exp(-x));
}

void copy_rule(Op& op) {
  Val x = op.val("self");
  Dtype d = op.dtype("dtype").value_or(x.dtype());
  Parts p = parts(x);
  if (!ir::is_complex(d)) return op.result(0, passes::cast(p.re, d));
  if (d != Dtype::c64 && d != Dtype::c128) decline("a complex dtype without parts");
  give(op, cast(p, part_of(d)));
}
void store(Op& op) {  // self.copy_(src)
  Val x = op.val("self");
  Parts p = operand(op, "src", part_of(x.dtype()));
  if (!ir::is_complex(x.dtype())) return op.result(0, expand(passes::cast(p.re, x.dtype()), x.sizes()));
  op.result(0, expand(joined(p), x.sizes()));
}
void make(Op& op) { give(op, {op.val("real"), op.val("imag")}); }

// z / |z|; 0 of 0. Eager's vectors divide part by part, its single numbers as complex numbers.
void sgn(Op& op) {
  Parts x = self(op);
  Val size = size_of(x), none = eq(size, 0.0);
  Parts r = in_vectors(op.val("self")) ? Parts{x.re / size, x.im / size}
                                       : x / Parts{size, op.b.full(size.sizes(), 0.0, size.dtype())};
  give(op, {where(none, 0.0, r.re), where(none, 0.0, r.im)});
}
void polar(Op& op) {
  Val size = op.val("abs"), turn = op.val("angle");
  give(op, {size * unary("cos", turn), size * unary("sin", turn)});
}

// Exponents that eager replaces by products and quotients.
Parts power(Parts x, std::complex<double> e) {
  if (e == 0.5) return sqrt(x);
  if (e == -0.5) return rsqrt(x);
  if (e == -1.0) return reciprocal(x);
  if (e == 2.0) return x * x;
  if (e == 3.0) return x * x * x;
  if (e == -2.0) return reciprocal(x * x);
  return pow(x, number(x.re, e.real(), e.imag()));
}
void pow_rule(Op& op) {
  Dtype d = part_dtype(op, {"self", "exponent"});
  Parts x = operand(op, "self", d);
  const auto ones = [&](Val like) { return Parts{op.b.full(like.sizes(), 1.0, d), op.b.full(like.sizes(), 0.0, d)}; };
  if (const ir::Attr& e = *op.find("exponent"); is_any_number(e)) {
    const std::complex<double> n = number_of(e);
    return give(op, n == 0.0 ? ones(x.re) : n == 1.0 ? x : power(x, n));
  }
  Parts e = operand(op, "exponent", d);
  const ir::Attr& base = *op.find("self");
  give(op, is_any_number(base) && number_of(base) == 1.0 ? ones(e.re) : pow(x, e));
}

// self + value * tensor1 (* or /) tensor2
template <Parts f(Parts, Parts)>
void add_scaled_pair(Op& op) {
  Dtype d = part_dtype(op, {"self", "tensor1", "tensor2"});
  give(op, operand(op, "self", d) + f(operand(op, "value", d) * operand(op, "tensor1", d), operand(op, "tensor2", d)));
}
void lerp(Op& op) {
  Dtype d = part_dtype(op, {"self", "end"});
  Parts x = operand(op, "self", d), end = operand(op, "end", d), w = operand(op, "weight", d);
  Parts one = number(x.re, 1), span = end - x;
  give(op, where(lt(size_of(w), 0.5), x + w * span, end - span * (one - w)));
}
// The gradients of sigmoid and tanh: grad times the conjugate of the derivative.
void sigmoid_backward(Op& op) {
  Parts g = parts(op.val("grad_output")), y = parts(op.val("output"));
  give(op, g * conj((number(y.re, 1) - y) * y));
}
void tanh_backward(Op& op) {
  Parts g = parts(op.val("grad_output")), y = parts(op.val("output"));
  give(op, g * conj(number(y.re, 1) - y * y));
}

// ---- real results

void abs_rule(Op& op) { op.result(0, size_of(self(op))); }
void angle(Op& op) {
  Parts x = self(op);
  op.result(0, binary("atan2", x.im, x.re));
}
template <bool same>
void compare(Op& op) {
  Dtype d = part_dtype(op, {"self", "other"});
  Val r = equal(operand(op, "self", d), operand(op, "other", d));
  op.result(0, same ? r : logical_not(r));
}
void either(Op& op, Val f(Val)) {
  Parts x = self(op);
  op.result(0, logical_or(f(x.re), f(x.im)));
}
void isnan_rule(Op& op) { either(op, isnan); }
void isinf_rule(Op& op) {
  either(op, [](Val v) { return unary("isinf", v); });
}
// Logic, and what counts: on whether a value is zero.
void of_truth(Op& op) {
  std::vector<ir::Arg> args = op.args();
  for (ir::Arg& a : args)
    if (auto* r = std::get_if<Ref>(&a.value); r && r->id != ir::kNoValue) *r = {is_true(parts(op.b.value(r->id))).id};
  op.result(0, op.apply(op.name(), std::move(args)));
}

// ---- reductions

// In a real dtype, the real parts count.
bool of_real_parts(Op& op) {
  const auto d = op.dtype("dtype");
  if (!d || ir::is_complex(*d)) return false;
  op.result(0, op.apply(op.name(), op.args_with("self", self(op).re)));
  return true;
}
void sum_rule(Op& op) {
  if (of_real_parts(op)) return;
  Val x = op.val("self");
  if (auto d = op.dtype("dtype")) x = converted(x, *d);
  Dims dims = op.dims("dim", x);
  const bool keep = op.given("keepdim") && op.flag("keepdim");
  Parts p = parts(x);
  give(op, {sum(p.re, dims, keep), sum(p.im, dims, keep)});
}
void mean_rule(Op& op) {
  if (of_real_parts(op)) return;
  Val x = op.val("self");
  if (auto d = op.dtype("dtype")) x = converted(x, *d);
  Dims dims = op.dims("dim", x);
  const bool keep = op.given("keepdim") && op.flag("keepdim");
  Parts p = parts(x);
  double n = 1;
  for (int64_t d : dims) n *= x.dim() == 0 ? 1 : static_cast<double>(x.size(d));
  Parts s{sum(p.re, dims, keep), sum(p.im, dims, keep)};
  give(op, s / number(s.re, n));
}
// The variance of the parts, added up; with their mean where it is asked for.
template <bool root, bool with_mean>
void variance(Op& op) {
  Parts p = self(op), means;
  Val total;
  for (auto [part, mean] : {std::pair{p.re, &means.re}, std::pair{p.im, &means.im}}) {
    const std::vector<Val> made =
        op.apply_all(with_mean ? "aten::var_mean.correction" : "aten::var.correction", op.args_with("self", part));
    total = total ? total + made[0] : made[0];
    if (with_mean) *mean = made[1];
  }
  op.result(0, root ? sqrt(total) : total);
  if (with_mean) op.result(1, joined(means));
}
void norm(Op& op) {
  std::vector<ir::Arg> args = op.args();
  Val x = op.val("self");
  if (auto d = op.dtype("dtype")) x = converted(x, *d);
  for (ir::Arg& a : args) {
    if (a.name == "self") a.value = Ref{size_of(parts(x)).id};
    if (a.name == "dtype") a.value = {};
  }
  op.result(0, op.apply(op.name(), std::move(args)));
}

// Products along a dim by halves, and those of all beginnings by doubling steps.
Parts product_along(Parts x, int64_t d) {
  for (int64_t n; (n = x.re.size(d)) > 1;) {
    const auto half = [&](Val v, int64_t start, int64_t length) { return slice(v, d, start, length); };
    const auto both = [&](int64_t start, int64_t length) {
      return Parts{half(x.re, start, length), half(x.im, start, length)};
    };
    Parts y = both(0, n / 2) * both(n / 2, n / 2);
    if (n % 2) {
      Parts rest = both(n - 1, 1);
      y = {cat({y.re, rest.re}, d), cat({y.im, rest.im}, d)};
    }
    x = y;
  }
  return x;
}
Parts products_along(Parts x, int64_t d) {
  const int64_t n = x.re.size(d);
  for (int64_t step = 1; step < n; step *= 2) {
    const auto at = [&](int64_t start) {
      return Parts{slice(x.re, d, start, n - step), slice(x.im, d, start, n - step)};
    };
    Parts moved = at(step) * at(0);
    x = {cat({slice(x.re, d, 0, step), moved.re}, d), cat({slice(x.im, d, 0, step), moved.im}, d)};
  }
  return x;
}
Parts of_dtype(Op& op) {
  Val x = op.val("self");
  if (auto d = op.dtype("dtype")) x = converted(x, *d);
  if (x.numel() == 0) decline("a product of nothing");
  return parts(x);
}
void prod(Op& op) {
  if (of_real_parts(op)) return;
  Parts x = of_dtype(op);
  const Dims sizes = x.re.sizes();
  if (!op.given("dim") || sizes.empty()) {
    const Dims flat{x.re.numel()};
    x = product_along({reshape(x.re, flat), reshape(x.im, flat)}, 0);
    return give(op, {reshape(x.re, {}), reshape(x.im, {})});
  }
  const int64_t d = wrap_dim(op.integer("dim"), x.re.dim());
  x = product_along(x, d);
  if (!op.flag("keepdim")) x = {squeeze(x.re, d), squeeze(x.im, d)};
  give(op, x);
}
void cumprod(Op& op) {
  if (of_real_parts(op)) return;
  Parts x = of_dtype(op);
  if (x.re.dim() == 0) return give(op, x);
  give(op, products_along(x, wrap_dim(op.integer("dim"), x.re.dim())));
}

// ---- matrix products: the rule for real values on each pair of parts

// `left` and `right` stand for the factors; the other arguments are those of the op.
Parts product_of(Op& op, const std::string& rule, const char* left, const char* right, bool conj_left = false) {
  Dtype d = part_dtype(op, {left, right});
  if (op.val(left).dtype() != op.val(right).dtype()) decline("operands of several dtypes");
  Parts x = operand(op, left, d), y = operand(op, right, d);
  const auto multiply = [&](Val a, Val b) { return op.apply(rule, {{left, Ref{a.id}}, {right, Ref{b.id}}}); };
  Val re = multiply(x.re, y.re), im = multiply(x.im, y.im), cross = multiply(x.re, y.im), back = multiply(x.im, y.re);
  if (conj_left) return {re + im, cross - back};
  return {re - im, cross + back};
}
void mm(Op& op) { give(op, product_of(op, "aten::mm", "self", "mat2")); }
void bmm(Op& op) { give(op, product_of(op, "aten::bmm", "self", "mat2")); }
void mv(Op& op) { give(op, product_of(op, "aten::mv", "self", "vec")); }
void dot(Op& op) { give(op, product_of(op, "aten::dot", "self", "tensor")); }
void vdot(Op& op) { give(op, product_of(op, "aten::vdot", "self", "other", true)); }

void cross(Op& op) {
  Dtype d = part_dtype(op, {"self", "other"});
  Parts x = operand(op, "self", d), y = operand(op, "other", d);
  const int64_t dim = wrap_dim(op.integer("dim"), x.re.dim());
  const auto of = [&](Parts z, int64_t i) { return Parts{select(z.re, dim, i % 3), select(z.im, dim, i % 3)}; };
  std::vector<Val> re, im;
  for (int64_t i = 0; i < 3; ++i) {
    Parts p = of(x, i + 1) * of(y, i + 2) - of(x, i + 2) * of(y, i + 1);
    re.push_back(unsqueeze(p.re, dim)), im.push_back(unsqueeze(p.im, dim));
  }
  give(op, {cat(re, dim), cat(im, dim)});
}

// beta * self + alpha * product; beta = 0 does not read self.
template <const auto& rule>
void accumulate(Op& op) {
  std::vector<ir::Arg> args;
  Val x = op.val(rule.left), y = op.val(rule.right);
  if (x.dtype() != y.dtype()) decline("operands of several dtypes");
  Parts a = parts(x), b = parts(y);
  const auto multiply = [&](Val u, Val v) {
    return op.apply(rule.op, {{rule.first, Ref{u.id}}, {rule.second, Ref{v.id}}});
  };
  Parts p{multiply(a.re, b.re) - multiply(a.im, b.im), multiply(a.re, b.im) + multiply(a.im, b.re)};
  const auto scale = [&](const char* arg) { return op.given(arg) ? number_of(*op.find(arg)) : 1.0; };
  const auto scaled = [&](Parts z, std::complex<double> n) {
    return n == 1.0 ? z : n.imag() == 0 ? times(z, n.real()) : z * number(z.re, n.real(), n.imag());
  };
  p = scaled(p, scale("alpha"));
  const std::complex<double> beta = scale("beta");
  if (beta == 0.0) return give(op, p);
  give(op, scaled(operand(op, "self", p.re.dtype()), beta) + p);
}
struct Product {
  const char *op, *first, *second, *left, *right;
};
constexpr Product kAddmm{"aten::mm", "self", "mat2", "mat1", "mat2"};
constexpr Product kBaddbmm{"aten::bmm", "self", "mat2", "batch1", "batch2"};
constexpr Product kAddmv{"aten::mv", "self", "vec", "mat", "vec"};

// ---- what moves or adds up elements, part by part: the rule for real values on each

void each_part(Op& op) {
  Parts made;
  for (bool imaginary : {false, true}) {
    std::vector<ir::Arg> args = op.args();
    const auto part = [&](Val v) {
      Parts p = parts(v);
      return Ref{(imaginary ? p.im : p.re).id};
    };
    for (ir::Arg& a : args) {
      if (auto* r = std::get_if<Ref>(&a.value); r && r->id != ir::kNoValue) {
        Val v = op.b.value(r->id);
        if (ir::is_float(v.dtype())) decline("complex values among real ones");
        if (ir::is_complex(v.dtype())) *r = part(v);
      }
      if (auto* list = std::get_if<std::vector<Ref>>(&a.value))
        for (Ref& r : *list)
          if (r.id != ir::kNoValue && a.name != "indices") r = part(op.b.value(r.id));
      if (a.name == "dtype") a.value = {};
      if (a.name == "alpha" && !(op.is_number("alpha") && op.number("alpha") == 1.0))
        decline("alpha of complex values");
      if (a.name != "value" && a.name != "other" && a.name != "fill_value") continue;
      if (auto* z = std::get_if<std::complex<double>>(&a.value))
        a.value = imaginary ? z->imag() : z->real();
      else if (imaginary && op.is_number(a.name.c_str()))
        a.value = 0.0;
    }
    std::vector<ir::Type> wanted;
    if (op.wants(0)) {
      wanted.push_back(op.wanted(0));
      wanted[0].dtype = part_of(wanted[0].dtype);
    }
    (imaginary ? made.im : made.re) = op.apply(op.name(), std::move(args), std::move(wanted));
  }
  if (made.re.dtype() != made.im.dtype()) decline("parts of several dtypes");
  give(op, made);
}
// A number fills the real part.
void masked_fill(Op& op) {
  Val x = op.val("self"), mask = op.val("mask");
  if (mask.dtype() != Dtype::b8) decline("the mask is not bool");
  Parts p = parts(x);
  give(op, where(mask, operand(op, "value", p.re.dtype()), p));
}
void where_rule(Op& op) {
  Dtype d = part_dtype(op, {"self", "other"});
  Val c = op.val("condition");
  if (c.dtype() != Dtype::b8) decline("the condition is not bool");
  give(op, where(c, operand(op, "self", d), operand(op, "other", d)));
}
// Values of the recorded type, of this number.
void filled(Op& op, std::complex<double> n) {
  if (!op.wants(0)) decline("the result has no recorded sizes");
  const ir::Type& t = op.wanted(0);
  if (!ir::is_complex(t.dtype)) return op.result(0, op.b.full(t.sizes, n.real(), t.dtype));
  give(op, {op.b.full(t.sizes, n.real(), part_of(t.dtype)), op.b.full(t.sizes, n.imag(), part_of(t.dtype))});
}
void zeros(Op& op) { filled(op, 0); }
void ones(Op& op) { filled(op, 1); }
void full(Op& op) { filled(op, number_of(*op.find("fill_value"))); }
void scalar(Op& op) { filled(op, number_of(*op.find("s"))); }
void eye(Op& op) {
  ir::Type t = op.wanted(0);
  t.dtype = part_of(t.dtype);
  Val re = op.apply(op.name(), op.args(), {t});
  give(op, {re, op.b.full(t.sizes, 0.0, t.dtype)});
}
void zero_written(Op& op) {
  Val x = op.val("self"), zero = op.b.full(x.sizes(), 0, part_of(x.dtype()));
  give(op, {zero, zero});
}
void fill(Op& op) {
  Val x = op.val("self");
  Parts v = operand(op, "value", part_of(x.dtype()));
  give(op, {expand(v.re, x.sizes()), expand(v.im, x.sizes())});
}

void window_written(Op& op) {
  Val src = expand(op.val("src"), op.ints("sizes"));
  op.result(0, complex_scatter(op.val("base"), src, op.integer("offset"), op.ints("strides")));
}

constexpr Row kRows[] = {
    {"prim::scatter", window_written},
    {"aten::complex", make},
    {"aten::add.Tensor", add},
    {"aten::add.Scalar", add},
    {"aten::sub.Tensor", sub},
    {"aten::sub.Scalar", sub},
    {"aten::rsub.Tensor", rsub},
    {"aten::rsub.Scalar", rsub},
    {"aten::mul.Tensor", of_two<product>},
    {"aten::mul.Scalar", of_two<product>},
    {"aten::div.Tensor", of_two<quotient>},
    {"aten::div.Scalar", of_two<quotient>},
    {"aten::div.Tensor_mode", div_mode},
    {"aten::div.Scalar_mode", div_mode},
    {"aten::square", of_one<square>},
    {"aten::reciprocal", of_one<reciprocal>},
    {"aten::sqrt", of_one<sqrt>},
    {"aten::rsqrt", of_one<rsqrt>},
    {"aten::exp", of_one<exp>},
    {"aten::exp2", of_one<exp2>},
    {"aten::expm1", of_one<expm1>},
    {"aten::log", of_one<log>},
    {"aten::log2", of_one<log_to<2>>},
    {"aten::log10", of_one<log_to<10>>},
    {"aten::log1p", of_one<log1p>},
    {"aten::sin", of_one<sin>},
    {"aten::cos", of_one<cos>},
    {"aten::tan", of_one<tan>},
    {"aten::sinh", of_one<sinh>},
    {"aten::cosh", of_one<cosh>},
    {"aten::tanh", of_one<tanh>},
    {"aten::asin", of_one<asin>},
    {"aten::acos", of_one<acos>},
    {"aten::atan", of_one<atan>},
    {"aten::asinh", of_one<asinh>},
    {"aten::acosh", of_one<acosh>},
    {"aten::atanh", of_one<atanh>},
    {"aten::sigmoid", of_one<sigmoid>},
    {"aten::pow.Tensor_Scalar", pow_rule},
    {"aten::pow.Tensor_Tensor", pow_rule},
    {"aten::pow.Scalar", pow_rule},
    {"aten::addcmul", add_scaled_pair<product>},
    {"aten::addcdiv", add_scaled_pair<quotient>},
    {"aten::lerp.Scalar", lerp},
    {"aten::lerp.Tensor", lerp},
    {"aten::sigmoid_backward", sigmoid_backward},
    {"aten::tanh_backward", tanh_backward},
    {"aten::sgn", sgn},
    {"aten::polar", polar},
    {"aten::neg", of_one<minus>},
    {"aten::conj_physical", of_one<conj>},
    {"aten::_conj_physical", of_one<conj>},
    {"aten::positive", copy_rule},
    {"aten::resolve_conj", copy_rule},
    {"aten::clone", copy_rule},
    {"aten::_to_copy", copy_rule},
    {"aten::copy", store},
    {"aten::abs", abs_rule},
    {"aten::angle", angle},
    {"aten::eq.Tensor", compare<true>},
    {"aten::eq.Scalar", compare<true>},
    {"aten::ne.Tensor", compare<false>},
    {"aten::ne.Scalar", compare<false>},
    {"aten::isnan", isnan_rule},
    {"aten::isinf", isinf_rule},
    {"aten::logical_not", of_truth},
    {"aten::logical_and", of_truth},
    {"aten::logical_or", of_truth},
    {"aten::logical_xor", of_truth},
    {"aten::any", of_truth},
    {"aten::any.dim", of_truth},
    {"aten::any.dims", of_truth},
    {"aten::all", of_truth},
    {"aten::all.dim", of_truth},
    {"aten::all.dims", of_truth},
    {"aten::count_nonzero", of_truth},
    {"aten::count_nonzero.dim_IntList", of_truth},
    {"aten::sum", sum_rule},
    {"aten::sum.dim_IntList", sum_rule},
    {"aten::mean", mean_rule},
    {"aten::mean.dim", mean_rule},
    {"aten::var.correction", variance<false, false>},
    {"aten::std.correction", variance<true, false>},
    {"aten::var_mean.correction", variance<false, true>},
    {"aten::std_mean.correction", variance<true, true>},
    {"aten::linalg_vector_norm", norm},
    {"aten::norm.ScalarOpt_dim", norm},
    {"aten::norm.Scalar", norm},
    {"aten::norm.ScalarOpt_dim_dtype", norm},
    {"aten::prod", prod},
    {"aten::prod.dim_int", prod},
    {"aten::cumprod", cumprod},
    {"aten::linalg_cross", cross},
    {"aten::mm", mm},
    {"aten::bmm", bmm},
    {"aten::mv", mv},
    {"aten::dot", dot},
    {"aten::vdot", vdot},
    {"aten::addmm", accumulate<kAddmm>},
    {"aten::baddbmm", accumulate<kBaddbmm>},
    {"aten::addmv", accumulate<kAddmv>},
    {"aten::where.self", where_rule},
    {"aten::where.ScalarSelf", where_rule},
    {"aten::where.ScalarOther", where_rule},
    {"aten::where.Scalar", where_rule},
    {"aten::masked_fill.Scalar", masked_fill},
    {"aten::masked_fill.Tensor", masked_fill},
    {"aten::zeros", zeros},
    {"aten::zeros_like", zeros},
    {"aten::new_zeros", zeros},
    {"aten::empty.memory_format", zeros},
    {"aten::empty_like", zeros},
    {"aten::empty_strided", zeros},
    {"aten::new_empty", zeros},
    {"aten::new_empty_strided", zeros},
    {"aten::_efficientzerotensor", zeros},
    {"aten::ones", ones},
    {"aten::ones_like", ones},
    {"aten::new_ones", ones},
    {"aten::full", full},
    {"aten::full_like", full},
    {"aten::new_full", full},
    {"aten::scalar_tensor", scalar},
    {"aten::eye", eye},
    {"aten::eye.m", eye},
    {"aten::zero", zero_written},
    {"aten::fill.Scalar", fill},
    {"aten::fill.Tensor", fill},
};

// Ops that move or add up elements.
constexpr std::string_view kByParts[] = {
    "aten::cat",
    "aten::block_diag",
    "aten::unfold_backward",
    "aten::stack",
    "aten::flip",
    "aten::roll",
    "aten::rot90",
    "aten::repeat",
    "aten::constant_pad_nd",
    "aten::gather",
    "aten::index_select",
    "aten::index.Tensor",
    "aten::_unsafe_index.Tensor",
    "aten::index_put",
    "aten::_index_put_impl",
    "aten::_unsafe_index_put",
    "aten::index_add",
    "aten::index_copy",
    "aten::index_fill.int_Scalar",
    "aten::index_fill.int_Tensor",
    "aten::scatter.src",
    "aten::scatter.value",
    "aten::scatter_add",
    "aten::take",
    "aten::put",
    "aten::masked_scatter",
    "aten::embedding",
    "aten::embedding_dense_backward",
    "aten::select_backward",
    "aten::slice_backward",
    "aten::diagonal_backward",
    "aten::select_scatter",
    "aten::slice_scatter",
    "aten::diagonal_scatter",
    "aten::tril",
    "aten::triu",
    "aten::trace",
    "aten::diag_embed",
    "aten::cumsum",
    "aten::im2col",
    "aten::col2im",
    "aten::pixel_shuffle",
    "aten::pixel_unshuffle",
    "aten::channel_shuffle",
    "aten::native_channel_shuffle",
    "aten::reflection_pad1d",
    "aten::reflection_pad2d",
    "aten::reflection_pad3d",
    "aten::replication_pad1d",
    "aten::replication_pad2d",
    "aten::replication_pad3d",
    "aten::reflection_pad1d_backward",
    "aten::reflection_pad2d_backward",
    "aten::reflection_pad3d_backward",
    "aten::replication_pad1d_backward",
    "aten::replication_pad2d_backward",
    "aten::replication_pad3d_backward",
};

}  // namespace

Rule find_complex_rule(std::string_view op) {
  for (const Row& r : kRows)
    if (r.op == op) return r.rule;
  if (std::ranges::find(kByParts, op) != std::end(kByParts)) return each_part;
  // Ops over lists ask again, for each entry.
  if (op.starts_with("aten::_foreach_")) return find_rule(op);
  return nullptr;
}

}  // namespace precast::passes
