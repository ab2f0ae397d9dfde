// Activations and their backwards, by eager's formulas; half types compute in f32 and round once.
#include <cmath>
#include <numbers>

#include "passes/rules.h"

namespace precast::passes {
namespace {

using ir::Dtype;

void require_float(Val x) {
  if (!ir::is_float(x.dtype())) decline("not defined for integers");
}

// y = f(x), and gx = f(g, x) with both operands of one dtype.
template <class F>
void forward(Op& op, F f) {
  Val x = op.val("self");
  require_float(x);
  op.result(0, in_f32(x, f));
}
template <class F>
void backward(Op& op, const char* input, F f) {
  Val g = op.val("grad_output"), x = op.val(input);
  require_float(x);
  if (g.dtype() != x.dtype()) decline("the gradient is of another dtype");
  Dtype c = compute_dtype(x.dtype());
  op.result(0, cast(f(cast(g, c), cast(x, c)), x.dtype()));
}

constexpr double kSqrtHalf = 1 / std::numbers::sqrt2;
const double kSqrtTwoOverPi = std::sqrt(2 / std::numbers::pi);
constexpr double kCubic = 0.044715;

Val cube(Val x) { return x * x * x; }
// Eager's in these kernels: 0, not a denormal number, from -89 down.
Val plain_sigmoid(Val x) { return 1.0 / (1.0 + exp(-x)); }

bool tanh_form(Op& op) { return op.given("approximate") && op.text("approximate") == "tanh"; }

void gelu(Op& op) {
  if (tanh_form(op))
    return forward(op, [](Val x) { return 0.5 * x * (1.0 + tanh(kSqrtTwoOverPi * (x + kCubic * cube(x)))); });
  forward(op, [](Val x) { return x * 0.5 * (1.0 + erf(x * kSqrtHalf)); });
}

void gelu_backward(Op& op) {
  if (tanh_form(op))
    return backward(op, "self", [](Val g, Val x) {
      Val t = tanh(kSqrtTwoOverPi * (x + kCubic * cube(x)));
      Val left = 0.5 * x, right = 1.0 + t;
      Val slope = kSqrtTwoOverPi * (1.0 + 3 * kCubic * (x * x));
      return g * (0.5 * right + left * (1.0 - t * t) * slope);
    });
  backward(op, "self", [](Val g, Val x) {
    Val cdf = 0.5 * (1.0 + erf(x * kSqrtHalf));
    Val pdf = exp(x * x * -0.5) * (kSqrtTwoOverPi * 0.5);
    return g * (cdf + x * pdf);
  });
}

void silu(Op& op) {
  forward(op, [](Val x) { return x / (1.0 + exp(-x)); });
}
void silu_backward(Op& op) {
  backward(op, "self", [](Val g, Val x) {
    Val s = plain_sigmoid(x);
    return g * s * (1.0 + x * (1.0 - s));
  });
}
void sigmoid_backward(Op& op) {
  backward(op, "output", [](Val g, Val y) { return g * (1.0 - y) * y; });
}
void tanh_backward(Op& op) {
  backward(op, "output", [](Val g, Val y) { return g * (1.0 - y * y); });
}

void mish(Op& op) {
  forward(op, [](Val x) { return x * tanh(log1p(exp(x))); });
}
void mish_backward(Op& op) {
  backward(op, "self", [](Val g, Val x) {
    Val t = tanh(log1p(exp(x)));
    return g * (t + x * plain_sigmoid(x) * (1.0 - t * t));
  });
}

void softplus(Op& op) {
  double beta = op.real("beta"), threshold = op.real("threshold");
  forward(op, [=](Val x) {
    Val z = x * beta;
    return where(gt(z, threshold), x, log1p(exp(z)) / beta);
  });
}
void softplus_backward(Op& op) {
  double beta = op.real("beta"), threshold = op.real("threshold");
  backward(op, "self", [=](Val g, Val x) {
    Val z = exp(x * beta);
    return where(gt(x * beta, threshold), g, g * z / (z + 1.0));
  });
}

void log_sigmoid(Op& op) {
  Val x = op.val("self");
  require_float(x);
  Val c = cast(x, compute_dtype(x.dtype())), z = exp(neg(abs(c)));
  op.result(0, cast(at_most(c, 0.0) - log1p(z), x.dtype()));
  op.result(1, cast(z, x.dtype()));
}
void log_sigmoid_backward(Op& op) {
  Val z = op.val("buffer");
  if (z.numel() == 0) decline("no buffer was saved");
  backward(op, "self", [&](Val g, Val x) {
    Val saved = cast(z, x.dtype()), negative = lt(x, 0.0), ratio = saved / (1.0 + saved);
    return g * where(negative, 1.0 - ratio, ratio);
  });
}

void threshold(Op& op) {
  Val x = op.val("self");
  op.result(0, where(le(x, op.number("threshold")), op.number("value"), x));
}
void threshold_backward(Op& op) {
  Val g = op.val("grad_output"), x = op.val("self");
  if (g.dtype() != x.dtype()) decline("the gradient is of another dtype");
  op.result(0, where(le(x, op.number("threshold")), 0, g));
}

void leaky_relu(Op& op) {
  Number slope = op.number("negative_slope");
  forward(op, [&](Val x) { return where(gt(x, 0.0), x, x * slope); });
}
void leaky_relu_backward(Op& op) {
  Number slope = op.number("negative_slope");
  backward(op, "self", [&](Val g, Val x) { return where(gt(x, 0.0), g, g * slope); });
}
void prelu(Op& op) {
  Val w = op.val("weight");
  forward(op, [&](Val x) { return where(gt(x, 0.0), x, cast(w, x.dtype()) * x); });
}
void prelu_backward(Op& op) {
  Val x = op.val("self"), g = op.val("grad_output"), w = op.val("weight");
  Dtype d = x.dtype(), c = compute_dtype(d);
  if (g.dtype() != d || w.dtype() != d) decline("operands are of several dtypes");
  Val cx = cast(x, c), cg = cast(g, c), positive = gt(cx, 0.0);
  op.result(0, cast(where(positive, cg, cast(w, c) * cg), d));
  op.result(1, cast(where(positive, 0.0, cx * cg), d));
}

void elu_like(Op& op, double alpha, double scale, double input_scale) {
  forward(op, [=](Val x) { return where(le(x, 0.0), expm1(x * input_scale) * (alpha * scale), x * scale); });
}
void elu(Op& op) { elu_like(op, op.real("alpha"), op.real("scale"), op.real("input_scale")); }
void celu(Op& op) { elu_like(op, op.real("alpha"), 1, 1 / op.real("alpha")); }
void elu_backward(Op& op) {
  double alpha = op.real("alpha"), scale = op.real("scale"), input_scale = op.real("input_scale");
  bool is_result = op.flag("is_result");
  backward(op, "self_or_result", [=](Val g, Val x) {
    Val slope = is_result ? (x + alpha * scale) * input_scale : exp(x * input_scale) * (input_scale * alpha * scale);
    return where(gt(x, 0.0), g * scale, g * slope);  // NaN: as eager's vectors, not as its tails
  });
}

void hardtanh(Op& op) {
  Val x = op.val("self");
  require_float(x);
  op.result(0, at_most(at_least(x, op.number("min_val")), op.number("max_val")));
}
void hardtanh_backward(Op& op) {
  Number low = op.number("min_val"), high = op.number("max_val");
  backward(op, "self", [&](Val g, Val x) { return where(logical_and(gt(x, low), lt(x, high)), g, 0.0); });
}
Val relu6_shifted(Val x) { return at_most(at_least(x + 3.0, 0.0), 6.0); }
void hardsigmoid(Op& op) {
  forward(op, [](Val x) { return relu6_shifted(x) / 6.0; });
}
void hardsigmoid_backward(Op& op) {
  constexpr double slope = 1.0f / 6.0f;  // a float in eager, for float64 too
  backward(op, "self", [](Val g, Val x) { return where(logical_and(gt(x, -3.0), lt(x, 3.0)), g * slope, 0.0); });
}
void hardswish(Op& op) {
  forward(op, [](Val x) { return x * relu6_shifted(x) / 6.0; });
}
void hardswish_backward(Op& op) {
  backward(op, "self", [](Val g, Val x) { return where(le(x, -3.0), 0.0, where(ge(x, 3.0), g, g * (x / 3.0 + 0.5))); });
}

Val within(Val x, double lambda) { return logical_and(ge(x, -lambda), le(x, lambda)); }
void hardshrink(Op& op) {
  double l = op.real("lambd");
  forward(op, [=](Val x) { return where(within(x, l), 0.0, x); });
}
void shrink_backward(Op& op, const char* grad) {
  double l = op.real("lambd");
  Val g = op.val(grad), x = op.val("self");
  require_float(x);
  if (g.dtype() != x.dtype()) decline("the gradient is of another dtype");
  op.result(0, where(logical_or(gt(x, l), lt(x, -l)), g, 0.0));
}
void hardshrink_backward(Op& op) { shrink_backward(op, "grad_out"); }
void softshrink_backward(Op& op) { shrink_backward(op, "grad_output"); }
void softshrink(Op& op) {
  double l = op.real("lambd");
  forward(op, [=](Val x) { return where(gt(x, l), x - l, where(lt(x, -l), x + l, where(isnan(x), x, 0.0))); });
}

void glu(Op& op) {
  Val x = op.val("self");
  require_float(x);
  int64_t d = wrap_dim(op.integer("dim"), x.dim()), n = x.size(d) / 2;
  Val a = slice(x, d, 0, n), b = slice(x, d, n, n);
  Dtype c = compute_dtype(x.dtype());
  op.result(0, cast(cast(a, c) * sigmoid(cast(b, c)), x.dtype()));
}
void glu_backward(Op& op) {
  Val x = op.val("self");
  require_float(x);
  int64_t d = wrap_dim(op.integer("dim"), x.dim()), n = x.size(d) / 2;
  Dtype c = compute_dtype(x.dtype());
  Val g = cast(op.val("grad_output"), c), a = cast(slice(x, d, 0, n), c);
  Val s = cast(cast(sigmoid(cast(slice(x, d, n, n), c)), x.dtype()), c);  // eager keeps it in x's dtype
  Val parts[] = {g * s, (1.0 - s) * s * a * g};
  op.result(0, cat({cast(parts[0], x.dtype()), cast(parts[1], x.dtype())}, d));
}

// Out of training, a leaky slope: the mean of both.
void rrelu(Op& op) {
  if (op.flag("training")) decline("random");
  double slope = (op.real("lower") + op.real("upper")) / 2;
  Val x = op.val("self");
  op.result(0, op.apply("aten::leaky_relu", {{"self", ir::Ref{x.id}}, {"negative_slope", slope}}));
  op.write("noise", op.val("noise"));
}
void rrelu_backward(Op& op) {
  Val g = op.val("grad_output"), x = op.val("self"), noise = op.val("noise");
  double lower = op.real("lower"), upper = op.real("upper");
  if (op.flag("training") && upper - lower > 1e-6)
    return op.result(0, op.apply("aten::mul.Tensor", {{"self", ir::Ref{noise.id}}, {"other", ir::Ref{g.id}}}));
  op.result(0, op.apply("aten::leaky_relu_backward", {{"grad_output", ir::Ref{g.id}},
                                                      {"self", ir::Ref{x.id}},
                                                      {"negative_slope", (lower + upper) / 2},
                                                      {"self_is_result", op.flag("self_is_result")}}));
}

constexpr Row kRows[] = {
    {"aten::rrelu_with_noise", rrelu},
    {"aten::rrelu_with_noise_backward", rrelu_backward},
    {"aten::gelu", gelu},
    {"aten::gelu_backward", gelu_backward},
    {"aten::silu", silu},
    {"aten::silu_backward", silu_backward},
    {"aten::sigmoid_backward", sigmoid_backward},
    {"aten::tanh_backward", tanh_backward},
    {"aten::mish", mish},
    {"aten::mish_backward", mish_backward},
    {"aten::softplus", softplus},
    {"aten::softplus_backward", softplus_backward},
    {"aten::log_sigmoid_forward", log_sigmoid},
    {"aten::log_sigmoid_backward", log_sigmoid_backward},
    {"aten::threshold", threshold},
    {"aten::threshold_backward", threshold_backward},
    {"aten::leaky_relu", leaky_relu},
    {"aten::leaky_relu_backward", leaky_relu_backward},
    {"aten::_prelu_kernel", prelu},
    {"aten::_prelu_kernel_backward", prelu_backward},
    {"aten::elu", elu},
    {"aten::celu", celu},
    {"aten::elu_backward", elu_backward},
    {"aten::hardtanh", hardtanh},
    {"aten::hardtanh_backward", hardtanh_backward},
    {"aten::hardsigmoid", hardsigmoid},
    {"aten::hardsigmoid_backward", hardsigmoid_backward},
    {"aten::hardswish", hardswish},
    {"aten::hardswish_backward", hardswish_backward},
    {"aten::hardshrink", hardshrink},
    {"aten::hardshrink_backward", hardshrink_backward},
    {"aten::softshrink", softshrink},
    {"aten::softshrink_backward", softshrink_backward},
    {"aten::glu", glu},
    {"aten::glu_backward", glu_backward},
};

}  // namespace

std::span<const Row> activation_rules() { return kRows; }

}  // namespace precast::passes
