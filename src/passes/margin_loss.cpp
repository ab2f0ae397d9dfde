// Losses by margins, of classes and of labels, and their gradients.
#include <cmath>

#include "passes/loss.h"
#include "passes/rules.h"

namespace precast::passes {
namespace {

using ir::Dtype;

bool real(Dtype d) { return d == Dtype::f32 || d == Dtype::f64; }

// Of samples [N], or of one sample without a batch.
Val reduced(Op& op, Val losses) {
  Val all = passes::reduced(losses, op.integer("reduction"));
  return op.wants(0) ? reshape(all, op.wanted(0).sizes) : all;
}

// The gradient that each sample gets, [N, 1].
Val for_samples(Op& op, int64_t n, int64_t dim, Dtype d) {
  Val g = op.val("grad_output");
  if (g.dtype() != d) decline("operands are not of one float dtype");
  int64_t reduction = op.integer("reduction");
  double count = static_cast<double>(reduction == kMean ? n * dim : dim);
  g = g.numel() == n && reduction == kNone ? reshape(g, {n, 1}) : reshape(g, {1, 1});
  return g * (1.0 / count);
}

Val places(Val x) { return reshape(x.b->arange(x.size(1)), {1, x.size(1)}); }

// ---- one class a sample

struct Margins {
  Val x, target;  // [N, C], [N, 1]
  Val z;          // by how much each other class comes too near; not positive: it does not
  Val weight;     // of the target, [N, 1], or empty
  Val is_target;
  double p;
};
Margins margins(Op& op) {
  Margins m;
  m.x = op.val("self");
  if (!real(m.x.dtype()) || op.val("target").dtype() != Dtype::i64) decline("not of f32 or f64 and classes in i64");
  if (m.x.dim() == 1) m.x = unsqueeze(m.x, 0);
  if (m.x.dim() != 2 || m.x.numel() == 0) decline("a loss of nothing");
  m.target = reshape(op.val("target"), {m.x.size(0), 1});
  m.p = op.real("p");
  m.is_target = binary("eq.Tensor", expand(m.target, m.x.sizes()), expand(places(m.x), m.x.sizes()));
  Val z = op.real("margin") - gather(m.x, 1, m.target) + m.x;
  m.z = where(m.is_target, 0.0, z);
  if (Val w = op.optional("weight"))
    m.weight = reshape(index_select(w, 0, reshape(m.target, {m.x.size(0)})), m.target.sizes());
  return m;
}
void multi_margin(Op& op) {
  Margins m = margins(op);
  Val h = m.p == 1 ? m.z : m.z * m.z;
  if (m.weight) h = h * m.weight;
  Val losses = sum(where(gt(m.z, 0.0), h, 0.0), {1}, false) / static_cast<double>(m.x.size(1));
  op.result(0, reduced(op, losses));
}
void multi_margin_backward(Op& op) {
  Margins m = margins(op);
  Val h = m.p == 1 ? m.x.b->full(m.x.sizes(), 1.0, m.x.dtype()) : 2.0 * m.z;
  if (m.weight) h = h * m.weight;
  h = where(gt(m.z, 0.0), h, 0.0);
  Val gx = where(m.is_target, neg(sum(h, {1}, true)), h) * for_samples(op, m.x.size(0), m.x.size(1), m.x.dtype());
  op.result(0, reshape(gx, op.val("self").sizes()));
}

// ---- several labels a sample: those before the first -1

struct Labels {
  Val x, target;       // [N, C]
  Val used, is_label;  // [N, C] bools: entries of target that count, classes that they name
};
Labels labels(Op& op) {
  Labels l{op.val("self"), op.val("target"), {}, {}};
  if (!real(l.x.dtype()) || l.target.dtype() != Dtype::i64) decline("not of f32 or f64 and labels in i64");
  if (l.x.dim() == 1) l.x = unsqueeze(l.x, 0);
  if (l.x.dim() != 2 || l.x.numel() == 0) decline("a loss of nothing");
  l.target = reshape(l.target, l.x.sizes());
  l.used = eq(cumsum(cast(lt(l.target, 0), Dtype::i64), 1), 0);
  l.target = where(l.used, l.target, 0);
  // Gives each label back, and refuses one that is out of range, as eager does.
  Val flat = reshape(l.target, {l.x.numel()});
  l.target = reshape(index_select(op.b.arange(l.x.size(1)), 0, flat), l.x.sizes());
  Val counts = scatter_add(op.b.full(l.x.sizes(), 0, Dtype::i64), 1, l.target, cast(l.used, Dtype::i64));
  l.is_label = gt(counts, 0);
  return l;
}
// How near each class (last) comes to each label: [N, labels, classes]; 0 where neither counts.
Val nearness(const Labels& l) {
  Val z = (1.0 - unsqueeze(gather(l.x, 1, l.target), 2)) + unsqueeze(l.x, 1);
  Val counts = logical_and(unsqueeze(l.used, 2), logical_not(unsqueeze(l.is_label, 1)));
  return where(logical_and(counts, gt(z, 0.0)), z, 0.0);
}
void multilabel_margin(Op& op) {
  Labels l = labels(op);
  Val losses = sum(nearness(l), {1, 2}, false) / static_cast<double>(l.x.size(1));
  op.result(0, reduced(op, losses));
  op.result(1, reshape(cast(l.is_label, l.x.dtype()), op.val("target").sizes()));
}
void multilabel_margin_backward(Op& op) {
  Labels l = labels(op);
  l.is_label = ne(reshape(op.val("is_target"), l.x.sizes()), 0);
  Val near = cast(gt(nearness(l), 0.0), l.x.dtype());
  Val to_labels = scatter_add(op.b.full(l.x.sizes(), 0, l.x.dtype()), 1, l.target, sum(near, {2}, false));
  Val gx = (sum(near, {1}, false) - to_labels) * for_samples(op, l.x.size(0), l.x.size(1), l.x.dtype());
  op.result(0, reshape(gx, op.val("self").sizes()));
}

constexpr Row kRows[] = {
    {"aten::multi_margin_loss", multi_margin},
    {"aten::multi_margin_loss_backward", multi_margin_backward},
    {"aten::multilabel_margin_loss_forward", multilabel_margin},
    {"aten::multilabel_margin_loss_backward", multilabel_margin_backward},
};

}  // namespace

std::span<const Row> margin_loss_rules() { return kRows; }

}  // namespace precast::passes
