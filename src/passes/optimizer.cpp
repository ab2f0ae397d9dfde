// Optimizer steps over lists: each entry becomes the op on one tensor.
#include <algorithm>

#include "passes/rules.h"

namespace precast::passes {
namespace {

using ir::Arg;
using ir::Dtype;
using ir::Ref;

// ---- _foreach_*: the op of the same name on each entry

// Argument names of the foreach op and of the op on one tensor. Lists give one entry each.
struct Renamed {
  std::string_view list_name, name;
};
constexpr Renamed kArguments[] = {
    {"self", "self"},       {"other", "other"},     {"scalar", "other"}, {"scalars", "other"}, {"alpha", "alpha"},
    {"tensor1", "tensor1"}, {"tensor2", "tensor2"}, {"value", "value"},  {"tensors1", "end"},  {"weights", "weight"},
    {"weight", "weight"},   {"exponent", "other"},  {"src", "src"},      {"ord", "ord"},       {"dtype", "dtype"},
};

ir::Attr entry(const ir::Attr& a, size_t i) {
  if (auto* refs = std::get_if<std::vector<Ref>>(&a)) return refs->at(i);
  if (auto* reals = std::get_if<std::vector<double>>(&a)) return reals->at(i);
  if (auto* ints = std::get_if<Dims>(&a)) return ints->at(i);
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
void each_add(Op& op) { each(op, "aten::" + each_name(op.name()) + ".Tensor", "other", {{"alpha", int64_t{1}}}); }
void each_extremum(Op& op) {
  bool max = each_name(op.name()) == "maximum" || each_name(op.name()) == "clamp_min";
  each(op, max ? "aten::maximum" : "aten::minimum");
}
void each_pow(Op& op) { each(op, "aten::pow.Tensor_Tensor", "exponent"); }
void each_ternary(Op& op) { each(op, "aten::" + each_name(op.name()), "value"); }
void each_lerp(Op& op) { each(op, "aten::lerp.Tensor", "weight"); }
void each_norm(Op& op) {
  each(op, "aten::linalg_vector_norm", "other", {{"ord", int64_t{2}}, {"dim", {}}, {"keepdim", false}});
}

// ---- fused optimizers; what they compute in, the f32 of a half parameter included, is eager's

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
  double decay = op.real("weight_decay"), momentum = op.real("momentum"), lr = op.real("lr");
  double dampening = op.real("dampening");
  for (size_t i = 0; i < op.vals("self").size(); ++i) {
    auto [p, g, d] = entry_of(op, i);
    if (decay != 0) g = g + p * decay;
    if (momentum != 0) {
      Val buffer = op.vals("momentum_buffer_list").at(i);
      Val m = op.flag("is_first_step") ? g : cast(buffer, p.dtype()) * momentum + g * (1 - dampening);
      store(op, "momentum_buffer_list", i, m, buffer.dtype());
      g = op.flag("nesterov") ? g + m * momentum : m;
    }
    store(op, "self", i, p - g * lr, d);
  }
  keep(op, "grads");
  if (momentum == 0) keep(op, "momentum_buffer_list");
}

void fused_adam(Op& op, bool decoupled) {
  require_unscaled(op);
  if (op.flag("amsgrad")) decline("amsgrad");
  double decay = op.real("weight_decay"), lr = op.real("lr"), eps = op.real("eps");
  double beta1 = op.real("beta1"), beta2 = op.real("beta2");
  for (size_t i = 0; i < op.vals("self").size(); ++i) {
    auto [p, g, d] = entry_of(op, i);
    Val step = cast(op.vals("state_steps").at(i), Dtype::f64);
    Val m0 = op.vals("exp_avgs").at(i), v0 = op.vals("exp_avg_sqs").at(i);
    if (decay != 0) {
      if (decoupled)
        p = p - p * (lr * decay);
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
    store(op, "self", i, p - step_size * m / (sqrt(v) / root + eps), d);
    store(op, "exp_avgs", i, m, m0.dtype());
    store(op, "exp_avg_sqs", i, v, v0.dtype());
  }
  keep(op, "grads");
  keep(op, "max_exp_avg_sqs");
}
void fused_adam_coupled(Op& op) { fused_adam(op, false); }
void fused_adamw(Op& op) { fused_adam(op, true); }

constexpr Row kRows[] = {
    {"aten::_foreach_abs", each_unary},
    {"aten::_foreach_abs_", each_unary},
    {"aten::_foreach_neg", each_unary},
    {"aten::_foreach_neg_", each_unary},
    {"aten::_foreach_sqrt", each_unary},
    {"aten::_foreach_sqrt_", each_unary},
    {"aten::_foreach_exp", each_unary},
    {"aten::_foreach_exp_", each_unary},
    {"aten::_foreach_log", each_unary},
    {"aten::_foreach_log_", each_unary},
    {"aten::_foreach_reciprocal", each_unary},
    {"aten::_foreach_reciprocal_", each_unary},
    {"aten::_foreach_sign", each_unary},
    {"aten::_foreach_sign_", each_unary},
    {"aten::_foreach_zero_", each_unary},
    {"aten::_foreach_copy_", each_unary},
    {"aten::_foreach_add.Scalar", each_add},
    {"aten::_foreach_add_.Scalar", each_add},
    {"aten::_foreach_add.List", each_add},
    {"aten::_foreach_add_.List", each_add},
    {"aten::_foreach_add.ScalarList", each_add},
    {"aten::_foreach_add_.ScalarList", each_add},
    {"aten::_foreach_add.Tensor", each_add},
    {"aten::_foreach_add_.Tensor", each_add},
    {"aten::_foreach_sub.Scalar", each_add},
    {"aten::_foreach_sub_.Scalar", each_add},
    {"aten::_foreach_sub.List", each_add},
    {"aten::_foreach_sub_.List", each_add},
    {"aten::_foreach_sub.ScalarList", each_add},
    {"aten::_foreach_sub_.ScalarList", each_add},
    {"aten::_foreach_mul.Scalar", each_binary},
    {"aten::_foreach_mul_.Scalar", each_binary},
    {"aten::_foreach_mul.List", each_binary},
    {"aten::_foreach_mul_.List", each_binary},
    {"aten::_foreach_mul.ScalarList", each_binary},
    {"aten::_foreach_mul_.ScalarList", each_binary},
    {"aten::_foreach_mul.Tensor", each_binary},
    {"aten::_foreach_mul_.Tensor", each_binary},
    {"aten::_foreach_div.Scalar", each_binary},
    {"aten::_foreach_div_.Scalar", each_binary},
    {"aten::_foreach_div.List", each_binary},
    {"aten::_foreach_div_.List", each_binary},
    {"aten::_foreach_div.ScalarList", each_binary},
    {"aten::_foreach_div_.ScalarList", each_binary},
    {"aten::_foreach_maximum.List", each_extremum},
    {"aten::_foreach_maximum_.List", each_extremum},
    {"aten::_foreach_minimum.List", each_extremum},
    {"aten::_foreach_minimum_.List", each_extremum},
    {"aten::_foreach_pow.Scalar", each_pow},
    {"aten::_foreach_pow_.Scalar", each_pow},
    {"aten::_foreach_addcmul.Scalar", each_ternary},
    {"aten::_foreach_addcmul_.Scalar", each_ternary},
    {"aten::_foreach_addcmul.ScalarList", each_ternary},
    {"aten::_foreach_addcmul_.ScalarList", each_ternary},
    {"aten::_foreach_addcdiv.Scalar", each_ternary},
    {"aten::_foreach_addcdiv_.Scalar", each_ternary},
    {"aten::_foreach_addcdiv.ScalarList", each_ternary},
    {"aten::_foreach_addcdiv_.ScalarList", each_ternary},
    {"aten::_foreach_lerp.Scalar", each_lerp},
    {"aten::_foreach_lerp_.Scalar", each_lerp},
    {"aten::_foreach_lerp.List", each_lerp},
    {"aten::_foreach_lerp_.List", each_lerp},
    {"aten::_foreach_norm.Scalar", each_norm},
    {"aten::_fused_sgd_", fused_sgd},
    {"aten::_fused_adam_", fused_adam_coupled},
    {"aten::_fused_adamw_", fused_adamw},
};

}  // namespace

std::span<const Row> optimizer_rules() { return kRows; }

}  // namespace precast::passes
