// Fused optimizers, parameter by parameter. What they compute in, the f32 of a half parameter included, is eager's.
#include "passes/rules.h"

namespace precast::passes {
namespace {

using ir::Dtype;

struct Entry {
  Val param, grad;
  Dtype dtype;
};
Entry entry_of(Op& op, size_t i) {
  Val p = op.vals("self").at(i), g = op.vals("grads").at(i);
  if (g.dtype() != p.dtype() || !ir::is_float(p.dtype())) decline("parameters and gradients of several dtypes");
  Dtype c = compute_dtype(p.dtype());
  g = cast(g, c);
  return {cast(p, c), op.flag("maximize") ? neg(g) : g, p.dtype()};
}
// In f64, a number or a tensor of one.
Val rate_of(Op& op) { return op.as("lr", Dtype::f64); }
void require_unscaled(Op& op) {
  if (op.given("grad_scale") || op.given("found_inf")) decline("scaled gradients");
}
void store(Op& op, const char* list, size_t i, Val v, Dtype d) { op.write(list, cast(v, d), static_cast<int>(i)); }
void keep(Op& op, const char* list) {  // declared as written, and not changed
  std::vector<Val> values = op.vals(list);
  for (size_t i = 0; i < values.size(); ++i) op.write(list, values[i], static_cast<int>(i));
}

void fused_sgd(Op& op) {
  require_unscaled(op);
  double decay = op.real("weight_decay"), momentum = op.real("momentum"), dampening = op.real("dampening");
  Val lr = rate_of(op);
  for (size_t i = 0; i < op.vals("self").size(); ++i) {
    auto [p, g, d] = entry_of(op, i);
    if (p.dtype() != d) decline("eager's vectors of half types hold undefined numbers");
    if (decay != 0) g = g + p * decay;
    if (momentum != 0) {
      Val buffer = op.vals("momentum_buffer_list").at(i);
      Val m = op.flag("is_first_step") ? g : cast(buffer, p.dtype()) * momentum + g * (1 - dampening);
      store(op, "momentum_buffer_list", i, m, buffer.dtype());
      g = op.flag("nesterov") ? g + m * momentum : m;
    }
    store(op, "self", i, p - g * cast(lr, p.dtype()), d);
  }
  keep(op, "grads");
  if (momentum == 0) keep(op, "momentum_buffer_list");
}

void fused_adam(Op& op, bool decoupled) {
  require_unscaled(op);
  double decay = op.real("weight_decay"), eps = op.real("eps");
  Val lr = rate_of(op);
  double beta1 = op.real("beta1"), beta2 = op.real("beta2");
  bool amsgrad = op.flag("amsgrad");
  for (size_t i = 0; i < op.vals("self").size(); ++i) {
    auto [p, g, d] = entry_of(op, i);
    Val step = cast(op.vals("state_steps").at(i), Dtype::f64);
    Val m0 = op.vals("exp_avgs").at(i), v0 = op.vals("exp_avg_sqs").at(i);
    if (decay != 0) {
      if (decoupled)
        p = p - p * cast(lr * decay, p.dtype());
      else
        g = g + p * decay;
    }
    Val m = cast(m0, p.dtype()), v = cast(v0, p.dtype());
    m = m + (g - m) * (1 - beta1);
    v = v * beta2 + g * g * (1 - beta2);
    auto correction = [&](double beta) {
      return 1.0 - binary("pow.Tensor_Tensor", op.b.number(beta, Dtype::f64), step);
    };
    Val step_size = cast(lr / correction(beta1), p.dtype());
    Val root = cast(sqrt(correction(beta2)), p.dtype());
    Val largest = v;
    if (amsgrad) {
      Val before = op.vals("max_exp_avg_sqs").at(i);
      largest = binary("maximum", cast(before, p.dtype()), v);
      store(op, "max_exp_avg_sqs", i, largest, before.dtype());
    }
    store(op, "self", i, p - step_size * m / (sqrt(largest) / root + eps), d);
    store(op, "exp_avgs", i, m, m0.dtype());
    store(op, "exp_avg_sqs", i, v, v0.dtype());
  }
  keep(op, "grads");
  if (!amsgrad) keep(op, "max_exp_avg_sqs");
}
void fused_adam_coupled(Op& op) { fused_adam(op, false); }
void fused_adamw(Op& op) { fused_adam(op, true); }

void fused_adagrad(Op& op) {
  require_unscaled(op);
  double decay = op.real("weight_decay"), lr_decay = op.real("lr_decay"), eps = op.real("eps");
  Val lr = rate_of(op);
  for (size_t i = 0; i < op.vals("self").size(); ++i) {
    auto [p, g, d] = entry_of(op, i);
    Val step = cast(op.vals("state_steps").at(i), Dtype::f64), sum = op.vals("state_sums").at(i);
    if (decay != 0) g = g + p * decay;
    Val squares = cast(sum, p.dtype()) + g * g;
    Val rate = cast(lr / ((step - 1.0) * lr_decay + 1.0), p.dtype());
    store(op, "state_sums", i, squares, sum.dtype());
    store(op, "self", i, p - rate * g / (sqrt(squares) + eps), d);
  }
  keep(op, "grads");
}

constexpr Row kRows[] = {
    {"aten::_fused_sgd_", fused_sgd},           {"aten::_fused_sgd_.tensor_lr", fused_sgd},
    {"aten::_fused_adam_", fused_adam_coupled}, {"aten::_fused_adam_.tensor_lr", fused_adam_coupled},
    {"aten::_fused_adamw_", fused_adamw},       {"aten::_fused_adamw_.tensor_lr", fused_adamw},
    {"aten::_fused_adagrad_", fused_adagrad},   {"aten::_fused_adagrad_.tensor_lr", fused_adagrad},
};

}  // namespace

std::span<const Row> optimizer_rules() { return kRows; }

}  // namespace precast::passes
