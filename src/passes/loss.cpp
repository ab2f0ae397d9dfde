// Losses and their gradients.
#include "passes/loss.h"

#include "passes/rules.h"

namespace precast::passes {

Val reduced(Val loss, int64_t reduction) {
  if (reduction == kNone) return loss;
  return reduction == kMean ? mean(loss, all_dims(loss), false) : sum(loss, all_dims(loss), false);
}

namespace {

using ir::Dtype;

// loss(x, target), element by element, then reduced.
template <class F>
void forward(Op& op, F f) {
  Val x = op.val("self"), t = op.val("target");
  Dtype d = x.dtype();
  if (!ir::is_float(d) || t.dtype() != d) decline("operands are not of one float dtype");
  Dtype c = compute_dtype(d);
  op.result(0, cast(reduced(f(cast(x, c), cast(t, c)), op.integer("reduction")), d));
}

// The gradient for x where the loss is a mean carries 1/n.
template <class F>
void backward(Op& op, F f) {
  Val g = op.val("grad_output"), x = op.val("self"), t = op.val("target");
  Dtype d = x.dtype();
  if (!ir::is_float(d) || t.dtype() != d || g.dtype() != d) decline("operands are not of one float dtype");
  if (x.sizes() != t.sizes()) decline("the operands broadcast");
  const bool sized = x.numel().is_symbolic(), is_mean = op.integer("reduction") == kMean;
  double norm = is_mean && !sized ? 1.0 / static_cast<double>(x.numel()) : 1.0;
  Dtype c = compute_dtype(d);
  g = cast(g, c);
  if (is_mean && sized) g = g / as_real(x.numel());
  op.result(0, cast(f(g, cast(x, c), cast(t, c), norm), d));
}

void mse(Op& op) {
  forward(op, [](Val x, Val t) {
    Val e = x - t;
    return e * e;
  });
}
void mse_backward(Op& op) {
  backward(op, [](Val g, Val x, Val t, double norm) { return (x - t) * (2 * norm) * g; });
}

void smooth_l1(Op& op) {
  double beta = op.real("beta");
  forward(op, [=](Val x, Val t) {
    Val z = abs(x - t);
    return where(lt(z, beta), 0.5 * z * z / beta, z - 0.5 * beta);
  });
}
void smooth_l1_backward(Op& op) {
  double beta = op.real("beta");
  backward(op, [=](Val g, Val x, Val t, double norm) {
    Val e = x - t;
    return where(le(e, -beta), g * -norm, where(ge(e, beta), g * norm, e * norm * g / beta));
  });
}

void huber(Op& op) {
  double delta = op.real("delta");
  forward(op, [=](Val x, Val t) {
    Val z = abs(x - t);
    return where(le(z, delta), 0.5 * z * z, (z - 0.5 * delta) * delta);
  });
}
void huber_backward(Op& op) {
  double delta = op.real("delta");
  backward(op, [=](Val g, Val x, Val t, double norm) {
    Val e = x - t;
    return where(le(e, -delta), g * (-norm * delta), where(ge(e, delta), g * (norm * delta), e * norm * g));
  });
}

void bce(Op& op) {
  Val w = op.optional("weight");
  if (op.val("self").numel() == 0) decline("a loss of nothing");
  auto checked = [&](const char* arg, const std::string& name, Val c) {
    Val x = op.val(arg);
    Val inside = reduce("all.dims", logical_and(ge(x, 0.0), le(x, 1.0)), all_dims(x), false, Dtype::b8);
    return require(inside, "all elements of " + name + " should be between 0 and 1", c);
  };
  forward(op, [&](Val c, Val t) {
    c = checked("self", "input", c);
    t = checked("target", "target", t);
    Val loss = (t - 1.0) * at_least(log1p(neg(c)), -100.0) - t * at_least(log(c), -100.0);
    return w ? loss * cast(w, c.dtype()) : loss;
  });
}
void bce_backward(Op& op) {
  Val w = op.optional("weight");
  backward(op, [&](Val g, Val x, Val t, double norm) {
    Val r = g * (x - t) / at_least((1.0 - x) * x, 1e-12);
    if (w) r = r * cast(w, x.dtype());
    return norm == 1.0 ? r : r * norm;
  });
}

void bce_with_logits(Op& op) {
  Val w = op.optional("weight"), pos = op.optional("pos_weight");
  forward(op, [&](Val x, Val t) {
    Val log_sigmoid = at_most(x, 0.0) - log1p(exp(neg(abs(x))));
    if (pos) log_sigmoid = log_sigmoid * ((cast(pos, x.dtype()) - 1.0) * t + 1.0);
    Val loss = (1.0 - t) * x - log_sigmoid;
    return w ? loss * cast(w, x.dtype()) : loss;
  });
}

// Eager composes it of ops that round one by one.
void soft_margin(Op& op) {
  Val x = op.val("self"), t = op.val("target");
  if (!ir::is_float(x.dtype()) || t.dtype() != x.dtype()) decline("operands are not of one float dtype");
  Val losses = log1p(exp(neg(x) * t));
  op.result(0, in_f32(losses, [&](Val v) { return reduced(v, op.integer("reduction")); }));
}
void soft_margin_backward(Op& op) {
  Val g = op.val("grad_output"), x = op.val("self"), t = op.val("target");
  if (!ir::is_float(x.dtype()) || t.dtype() != x.dtype() || g.dtype() != x.dtype())
    decline("operands are not of one float dtype");
  const bool sized = x.numel().is_symbolic(), is_mean = op.integer("reduction") == kMean;
  double norm = is_mean && !sized ? 1.0 / static_cast<double>(x.numel()) : 1.0;
  Val z = exp(neg(t) * x);
  Val scaled = in_f32(t * z, [&](Val v) { return is_mean && sized ? neg(v) / as_real(x.numel()) : v * -norm; });
  op.result(0, scaled / (z + 1.0) * g);
}

// ---- negative log likelihood over classes: self [N, C, ...] or [C], target [N, ...] or []

struct Classes {
  Val x, target;  // with the leading batch dim
  Val weight;     // [C] or empty
  Val used;       // bool, like target: not the ignored index
};
Classes classes(Op& op) {
  Val x = op.val("self"), t = op.val("target"), w = op.optional("weight");
  if (!ir::is_float(x.dtype()) || t.dtype() != Dtype::i64) decline("classes are not i64");
  if (x.dim() == 1) x = unsqueeze(x, 0), t = reshape(t, {1});
  if (x.numel() == 0) decline("a loss of nothing");
  if (w && w.dtype() != x.dtype()) decline("the weight is of another dtype");
  return {x, t, w, ne(t, op.number("ignore_index"))};
}
// What a sample counts: its class's weight, or 1; 0 if ignored.
Val counts(const Classes& c, Val safe_target, Dtype d) {
  if (!c.weight) return cast(c.used, d);
  Val w = reshape(index_select(cast(c.weight, d), 0, reshape(safe_target, {safe_target.numel()})), safe_target.sizes());
  return where(c.used, w, 0.0);
}

void nll_loss(Op& op) {
  Classes c = classes(op);
  Dtype d = c.x.dtype(), f = compute_dtype(d);
  Val safe = where(c.used, c.target, 0);
  Val picked = squeeze(gather(c.x, 1, unsqueeze(safe, 1)), 1);
  Val n = counts(c, safe, f);
  Val losses = where(c.used, neg(cast(picked, f)) * n, 0.0);
  int64_t reduction = op.integer("reduction");
  if (reduction == kNone) {
    op.result(0, cast(reshape(losses, op.wanted(0).sizes), d));
    if (op.wants(1)) op.result(1, op.b.full(op.wanted(1).sizes, 0, d));
    return;
  }
  Val sum_losses = sum(losses, all_dims(losses), false), sum_n = sum(n, all_dims(n), false);
  op.result(0, cast(reduction == kMean ? sum_losses / sum_n : sum_losses, d));
  op.result(1, cast(sum_n, d));
}

// -weight * grad at the target's place, 0 elsewhere.
void nll_loss_backward(Op& op) {
  Classes c = classes(op);
  Dtype d = c.x.dtype(), f = compute_dtype(d);
  Val g = cast(op.val("grad_output"), f), safe = where(c.used, c.target, 0);
  // Gives each class back, and refuses one that is out of range, as eager does.
  safe = reshape(index_select(op.b.arange(c.x.size(1)), 0, reshape(safe, {safe.numel()})), safe.sizes());
  int64_t reduction = op.integer("reduction");
  if (reduction == kNone) g = reshape(g, c.target.sizes());
  if (reduction == kMean) g = g / cast(op.val("total_weight"), f);
  Val at_target = neg(counts(c, safe, f)) * g;
  at_target = where(c.used, at_target, 0.0);  // 0 * inf where everything is ignored
  Dims row(c.x.sizes().size(), 1);
  row[1] = c.x.size(1);
  Val chosen = binary("eq.Tensor", reshape(op.b.arange(c.x.size(1)), row), unsqueeze(safe, 1));
  Val gx = where(chosen, unsqueeze(at_target, 1), 0.0);
  op.result(0, cast(reshape(gx, op.val("self").sizes()), d));
}

constexpr Row kRows[] = {
    {"aten::mse_loss", mse},
    {"aten::mse_loss_backward", mse_backward},
    {"aten::smooth_l1_loss", smooth_l1},
    {"aten::smooth_l1_loss_backward", smooth_l1_backward},
    {"aten::huber_loss", huber},
    {"aten::huber_loss_backward", huber_backward},
    {"aten::binary_cross_entropy", bce},
    {"aten::binary_cross_entropy_backward", bce_backward},
    {"aten::binary_cross_entropy_with_logits", bce_with_logits},
    {"aten::soft_margin_loss", soft_margin},
    {"aten::soft_margin_loss_backward", soft_margin_backward},
    {"aten::nll_loss_forward", nll_loss},
    {"aten::nll_loss2d_forward", nll_loss},
    {"aten::nll_loss_backward", nll_loss_backward},
    {"aten::nll_loss2d_backward", nll_loss_backward},
};

}  // namespace

std::span<const Row> loss_rules() { return kRows; }

}  // namespace precast::passes
