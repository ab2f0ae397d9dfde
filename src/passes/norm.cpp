// Batch, layer and group norm, forward and backward. Statistics in two passes; in f32 for half types, and in f64 for
// batch norm, as eager on the CPU.
#include "passes/rules.h"

namespace precast::passes {
namespace {

using ir::Dtype;

// x summed over dims; over none it is itself.
Val total(Val x, const Dims& dims, bool keepdim) { return dims.empty() ? x : sum(x, dims, keepdim); }

Val computed(Val v) { return v ? cast(v, compute_dtype(v.dtype())) : v; }
Val wide(Val v) { return cast(v, Dtype::f64); }

// Result `out` in its recorded dtype and sizes, if it is wanted.
void give(Op& op, size_t out, Val v) {
  if (op.wants(out)) op.result(out, cast(reshape(v, op.wanted(out).sizes), op.wanted(out).dtype));
}

struct Statistics {
  Val mean, centered, squares, rstd;  // squares: their sum; all keep their dims
};
// `saved`: the dtype that the mean is rounded to before it is used.
Statistics statistics(Val x, const Dims& dims, double eps, Dtype saved) {
  Val m = cast(cast(mean(x, dims, true), saved), x.dtype()), c = x - m, squares = sum(c * c, dims, true);
  return {m, c, squares, 1.0 / sqrt(squares / count(x, dims) + eps)};
}

void require_float(Val x) {
  if (!ir::is_float(x.dtype())) decline("not defined for integers");
  if (x.numel() == 0) decline("statistics of nothing");
}

// ---- batch norm

// A value per channel, as [1, C, 1, ...].
Val per_channel(Val v, Val x) {
  if (!v) return v;
  Dims sizes(x.sizes().size(), 1);
  sizes[1] = x.size(1);
  return reshape(computed(v), sizes);
}

Dims but_channels(Val x) {
  Dims dims = all_dims(x);
  dims.erase(dims.begin() + 1);
  return dims;
}

Size elements(Val x, const Dims& dims) {
  Size n = 1;
  for (int64_t d : dims) n *= x.size(d);
  return n;
}

bool in_some_format(Val v) {
  for (int64_t format : {0, 2, 3}) {  // contiguous, channels last of 2-d and 3-d images
    auto strides = format_strides(v.type(), format);
    if (strides && same_layout(v.sizes(), v.type().strides, *strides)) return true;
  }
  return false;
}
// Whether eager takes its kernel for operands without gaps.
bool without_gaps(Op& op) {
  if (!in_some_format(op.val("input"))) return false;
  for (const char* arg : {"weight", "bias", "running_mean", "running_var"})
    if (Val v = op.given(arg) ? op.val(arg) : Val{}; v && !v.type().is_contiguous()) return false;
  return true;
}

// As eager: one multiplication and one addition per element.
Val scaled(Val x, Val mean, Val rstd, Val weight, Val bias) {
  Val alpha = weight ? rstd * weight : rstd;
  Val beta = bias ? bias - mean * alpha : neg(mean * alpha);
  return x * alpha + beta;
}
// Eager's other kernel: step by step, each rounded to half types where the statistics are of them. It adds a bias of 0
// where there is none, which makes 0 of -0.
Val stepwise(Val x, Val mean, Val rstd, Val weight, Val bias, Dtype d) {
  Val y = (cast(x, d) - cast(mean, d)) * cast(rstd, d);
  if (weight) y = y * cast(weight, d);
  return bias ? y + cast(bias, d) : y + 0.0;
}

void batch_norm(Op& op, bool training) {
  Val input = op.val("input");
  require_float(input);
  if (input.dim() < 2) decline("fewer than two dims");
  Val x = computed(input), weight = per_channel(op.optional("weight"), x), bias = per_channel(op.optional("bias"), x);
  Val old_mean = op.optional("running_mean"), old_var = op.optional("running_var");
  if (!training) {
    if (!old_mean || !old_var) decline("no running statistics");
    const bool dense = without_gaps(op);
    const Dtype d = dense ? x.dtype() : old_var.dtype();
    Val rstd = 1.0 / sqrt(cast(per_channel(old_var, x), d) + op.number("eps")), old = per_channel(old_mean, x);
    Val y = dense ? scaled(x, old, rstd, weight, bias) : stepwise(x, old, rstd, weight, bias, d);
    op.result(0, cast(y, input.dtype()));
    for (size_t out : {1, 2})
      if (op.wants(out)) op.result(out, op.b.full(op.wanted(out).sizes, 0, op.wanted(out).dtype));
    for (const char* arg : {"running_mean", "running_var"}) op.write(arg, op.val(arg));
    return;
  }
  Statistics s = statistics(wide(x), but_channels(x), op.real("eps"), Dtype::f64);
  // Eager reads the statistics back from where it saved them, in that dtype.
  Dtype saved = op.wants(1) ? op.wanted(1).dtype : x.dtype();
  Val mean = cast(cast(s.mean, saved), x.dtype()), rstd = cast(cast(s.rstd, saved), x.dtype());
  Val y = without_gaps(op) ? scaled(x, mean, rstd, weight, bias) : stepwise(x, mean, rstd, weight, bias, saved);
  op.result(0, cast(y, input.dtype()));
  give(op, 1, mean);
  give(op, 2, rstd);
  const double momentum = op.real("momentum");
  auto update = [&](const char* arg, Val old, Val now) {
    if (!old) return;
    op.write(arg, cast(reshape(now, old.sizes()) * momentum + wide(old) * (1 - momentum), old.dtype()));
  };
  update("running_mean", old_mean, s.mean);
  update("running_var", old_var, s.squares / as_real(elements(x, but_channels(x)) - 1));
}
void native_batch_norm(Op& op) { batch_norm(op, op.flag("training")); }
void batch_norm_no_training(Op& op) { batch_norm(op, false); }

void batch_norm_backward(Op& op) {
  Val grad = op.val("grad_out"), input = op.val("input");
  require_float(input);
  if (grad.dtype() != input.dtype()) decline("the gradient is of another dtype");
  Val g = computed(grad), x = computed(input), weight = per_channel(op.optional("weight"), x);
  bool train = op.flag("train");
  Val mean = per_channel(op.val(train ? "save_mean" : "running_mean"), x);
  Val rstd = train ? per_channel(op.val("save_invstd"), x)
                   : 1.0 / sqrt(per_channel(op.val("running_var"), x) + op.number("eps"));
  Dims dims = but_channels(x);
  const Number n = count(x, dims);
  Val dot = sum(wide(g) * (wide(x) - wide(mean)), dims, true), total_g = sum(wide(g), dims, true);
  Val scale = weight ? rstd * weight : rstd;
  auto narrow = [&](Val v) { return cast(v, x.dtype()); };
  Val gx =
      train ? (g - narrow(total_g / n) - (x - mean) * narrow(dot * wide(rstd) * wide(rstd) / n)) * scale : g * scale;
  op.result(0, cast(gx, input.dtype()));
  Val gw = dot * wide(rstd);
  if (x.numel().is_symbolic())  // of nothing: 0, and not what the statistics of nothing are
    gw = where(eq(op.b.number(Number(elements(x, dims)), Dtype::f64), 0.0), 0.0, gw);
  give(op, 1, gw);
  give(op, 2, total_g);
}

// ---- layer norm

struct LayerDims {
  Dims leading, normalized;
};
LayerDims layer_dims(Op& op, Val x) {
  size_t k = op.ints("normalized_shape").size();
  if (k == 0 || k > x.sizes().size()) decline("no normalized dims");
  Dims all = all_dims(x);
  auto split = all.end() - static_cast<int64_t>(k);
  return {Dims(all.begin(), split), Dims(split, all.end())};
}

void layer_norm(Op& op) {
  Val input = op.val("input");
  require_float(input);
  Val x = computed(input), weight = computed(op.optional("weight")), bias = computed(op.optional("bias"));
  Statistics s = statistics(x, layer_dims(op, x).normalized, op.real("eps"), x.dtype());
  Val y = s.centered * s.rstd;
  if (weight) y = y * weight;
  if (bias) y = y + bias;
  op.result(0, cast(y, input.dtype()));
  give(op, 1, s.mean);
  give(op, 2, s.rstd);
}

// The gradient through y = (x - mean) * rstd, for gy; both normalized over dims.
Val through_normalization(Val gy, Val y, Val rstd, const Dims& dims) {
  return (gy - mean(gy, dims, true) - y * mean(gy * y, dims, true)) * rstd;
}

void layer_norm_backward(Op& op) {
  Val grad = op.val("grad_out"), input = op.val("input");
  require_float(input);
  if (grad.dtype() != input.dtype()) decline("the gradient is of another dtype");
  Val g = computed(grad), x = computed(input), weight = computed(op.optional("weight"));
  LayerDims dims = layer_dims(op, x);
  Val rstd = computed(op.val("rstd")), y = (x - computed(op.val("mean"))) * rstd;
  op.result(0, cast(through_normalization(weight ? g * weight : g, y, rstd, dims.normalized), input.dtype()));
  give(op, 1, total(g * y, dims.leading, false));
  give(op, 2, total(g, dims.leading, false));
}

// ---- group norm

struct Groups {
  Size n;
  int64_t c;
  Size hw;
  int64_t groups;
  Dims by_group() const { return {n, groups, c / groups * hw}; }
  Dims by_channel() const { return {n, c, hw}; }
};
Groups groups(Op& op) { return {op.size("N"), op.integer("C"), op.size("HxW"), op.integer("group")}; }

Val channel_row(Val v, const Groups& s) { return v ? reshape(computed(v), {1, s.c, 1}) : v; }

void group_norm(Op& op) {
  Val input = op.val("input");
  require_float(input);
  Groups s = groups(op);
  Val weight = channel_row(op.optional("weight"), s), bias = channel_row(op.optional("bias"), s);
  Val x = reshape(computed(input), s.by_group());
  Statistics st = statistics(x, {2}, op.real("eps"), x.dtype());
  Val y = st.centered * st.rstd;
  if (weight || bias) {
    // As eager: one multiplication and one addition per element, with numbers of its channel.
    auto by_channel = [&](Val v) { return reshape(expand(v, {s.n, s.groups, s.c / s.groups}), {s.n, s.c, 1}); };
    y = scaled(reshape(x, s.by_channel()), by_channel(st.mean), by_channel(st.rstd), weight, bias);
  }
  op.result(0, cast(reshape(y, input.sizes()), input.dtype()));
  give(op, 1, st.mean);
  give(op, 2, st.rstd);
}

void group_norm_backward(Op& op) {
  Val grad = op.val("grad_out"), input = op.val("input");
  require_float(input);
  if (grad.dtype() != input.dtype()) decline("the gradient is of another dtype");
  Groups s = groups(op);
  Val g = reshape(computed(grad), s.by_channel()), weight = channel_row(op.optional("weight"), s);
  auto stat = [&](const char* arg) { return reshape(computed(op.val(arg)), {s.n, s.groups, 1}); };
  Val rstd = stat("rstd"), y = (reshape(computed(input), s.by_group()) - stat("mean")) * rstd;
  Val gy = reshape(weight ? g * weight : g, s.by_group());
  op.result(0, cast(reshape(through_normalization(gy, y, rstd, {2}), input.sizes()), input.dtype()));
  give(op, 1, sum(g * reshape(y, s.by_channel()), {0, 2}, false));
  give(op, 2, sum(g, {0, 2}, false));
}

constexpr Row kRows[] = {
    {"aten::native_batch_norm", native_batch_norm},
    {"aten::_native_batch_norm_legit", native_batch_norm},
    {"aten::_native_batch_norm_legit.no_stats", native_batch_norm},
    {"aten::_native_batch_norm_legit_no_training", batch_norm_no_training},
    {"aten::native_batch_norm_backward", batch_norm_backward},
    {"aten::native_layer_norm", layer_norm},
    {"aten::native_layer_norm_backward", layer_norm_backward},
    {"aten::native_group_norm", group_norm},
    {"aten::native_group_norm_backward", group_norm_backward},
};

}  // namespace

std::span<const Row> norm_rules() { return kRows; }

}  // namespace precast::passes
