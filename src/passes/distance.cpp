// Distances between the rows of two matrices, and their gradients.
#include <cmath>

#include "passes/rules.h"

namespace precast::passes {
namespace {

using ir::Dtype;

struct Pairs {
  Val x, y;  // [..., P, 1, M], [..., 1, R, M]
  double p;
};
Pairs pairs(Op& op, double p) {
  Val x = op.val("x1"), y = op.val("x2");
  if ((x.dtype() != Dtype::f32 && x.dtype() != Dtype::f64) || y.dtype() != x.dtype()) decline("not of f32 or f64");
  if (x.dim() < 2 || y.dim() < 2 || x.numel() == 0 || y.numel() == 0) decline("rows of nothing");
  return {unsqueeze(x, x.dim() - 1), unsqueeze(y, y.dim() - 2), p};
}

Val product(Val x, Val y) {  // [..., n, k] x [..., m, k] transposed, both of the same batch
  Dims sizes = x.sizes();
  int64_t n = x.size(x.dim() - 2), m = y.size(y.dim() - 2), k = x.sizes().back();
  sizes.back() = m;
  Val yt = transpose(y, y.dim() - 2, y.dim() - 1);
  if (x.dim() == 2) return mm(x, yt);
  int64_t batch = x.numel() / (n * k);
  return reshape(bmm(reshape(x, {batch, n, k}), reshape(yt, {batch, k, m})), sizes);
}

// Many rows, of equal batches: |x|^2 - 2 x y + |y|^2 as one product.
Val euclidean(Val x, Val y) {
  int64_t last = x.dim() - 1;
  auto square = [&](Val v) { return sum(v * v, {last}, true); };
  auto ones = [&](Val v) {
    Dims sizes = v.sizes();
    sizes.back() = 1;
    return v.b->full(sizes, 1.0, v.dtype());
  };
  Val left = cat({x * -2.0, square(x), ones(x)}, last), right = cat({y, ones(y), square(y)}, last);
  return sqrt(at_least(product(left, right), 0.0));
}

void cdist(Op& op) {
  Pairs s = pairs(op, op.real("p"));
  constexpr int64_t kAsUsual = 0, kProduct = 1, kFew = 25;
  int64_t mode = op.given("compute_mode") ? op.integer("compute_mode") : kAsUsual;
  Val x = op.val("x1"), y = op.val("x2");
  bool many = x.size(x.dim() - 2) > kFew || y.size(y.dim() - 2) > kFew;
  if (s.p == 2 && (mode == kProduct || (mode == kAsUsual && many))) {
    while (x.dim() < y.dim()) x = unsqueeze(x, 0);
    while (y.dim() < x.dim()) y = unsqueeze(y, 0);
    Dims xb(x.sizes().begin(), x.sizes().end() - 2), yb(y.sizes().begin(), y.sizes().end() - 2);
    if (xb != yb) decline("batches that broadcast");
    return op.result(0, euclidean(x, y));
  }
  Val d = s.x - s.y, distance;
  int64_t last = d.dim() - 1;
  if (s.p == 0) {
    distance = sum(cast(ne(d, 0.0), d.dtype()), {last}, false);
  } else if (s.p == 1) {
    distance = sum(abs(d), {last}, false);
  } else if (s.p == 2) {
    distance = sqrt(sum(d * d, {last}, false));
  } else if (std::isinf(s.p)) {
    distance = reduce("amax", abs(d), {last}, false, d.dtype());
  } else {
    Val powers = sum(binary_number("pow.Tensor_Scalar", abs(d), s.p), {last}, false);
    distance = binary_number("pow.Tensor_Scalar", powers, 1 / s.p);
  }
  op.result(0, distance);
}

// What cdist of many rows calls where it wants no gradient.
void euclidean_dist(Op& op) {
  pairs(op, 2);
  Val x = op.val("x1"), y = op.val("x2");
  if (Dims(x.sizes().begin(), x.sizes().end() - 2) != Dims(y.sizes().begin(), y.sizes().end() - 2))
    decline("batches that broadcast");
  op.result(0, euclidean(x, y));
}

// Each pair's part of the gradient of x1.
void cdist_backward(Op& op) {
  Pairs s = pairs(op, op.real("p"));
  Val d = s.x - s.y, g = op.val("grad"), distance = op.val("cdist");
  if (g.dtype() != d.dtype() || distance.dtype() != d.dtype()) decline("operands of several dtypes");
  g = unsqueeze(g, g.dim()), distance = unsqueeze(distance, distance.dim());
  auto power = [](Val v, double e) { return binary_number("pow.Tensor_Scalar", v, e); };
  Val part;
  if (s.p == 0) {
    part = d.b->full(d.sizes(), 0, d.dtype());
  } else if (s.p == 1) {
    part = g * sign(d);
  } else if (std::isinf(s.p)) {
    part = g * sign(d) * (1.0 - at_most(unary("ceil", abs(abs(d) - distance)), 1.0));
  } else {
    if (s.p == 2)
      part = g * d / distance;
    else if (s.p < 2)
      part = sign(d) * power(abs(d), s.p - 1) * g / power(distance, s.p - 1);
    else
      part = d * power(abs(d), s.p - 2) * g / power(distance, s.p - 1);
    Val none = eq(distance, 0.0);
    if (s.p < 1) none = logical_or(none, eq(d, 0.0));
    part = where(none, 0.0, part);
  }
  Val all = sum(part, {part.dim() - 2}, false);  // over the rows of x2
  if (!op.wants(0) || all.sizes() != op.wanted(0).sizes) decline("batches that broadcast");
  op.result(0, all);
}

constexpr Row kRows[] = {
    {"aten::_cdist_forward", cdist},
    {"aten::_cdist_backward", cdist_backward},
    {"aten::_euclidean_dist", euclidean_dist},
};

}  // namespace

std::span<const Row> distance_rules() { return kRows; }

}  // namespace precast::passes
