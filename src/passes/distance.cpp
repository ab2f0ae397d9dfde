// Distances between the rows of two matrices, and their gradients.
#include <cmath>

#include "passes/rules.h"

namespace precast::passes {
namespace {

using ir::Dtype;

bool is_plain(Dtype d) { return d == Dtype::f32 || d == Dtype::f64; }

struct Pairs {
  Val x, y;  // [..., P, 1, M], [..., 1, R, M]
};
Pairs pairs(Op& op) {
  Val x = op.val("x1"), y = op.val("x2");
  if (!is_plain(x.dtype()) || y.dtype() != x.dtype()) decline("not of f32 or f64");
  if (x.dim() < 2 || y.dim() < 2 || x.numel() == 0 || y.numel() == 0) decline("rows of nothing");
  return {unsqueeze(x, x.dim() - 1), unsqueeze(y, y.dim() - 2)};
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

// Both of the batch that theirs broadcast to.
std::pair<Val, Val> in_one_batch(Val x, Val y) {
  const auto batch_of = [](Val v) {
    ir::Type t = v.type();
    t.sizes.resize(t.sizes.size() - 2), t.strides.resize(t.sizes.size());
    return t;
  };
  const ir::Type xb = batch_of(x), yb = batch_of(y);
  const auto batch = broadcast_sizes({&xb, &yb});
  if (!batch) decline("batches that do not broadcast");
  const auto expanded = [&](Val v) {
    Dims sizes = *batch;
    sizes.insert(sizes.end(), v.sizes().end() - 2, v.sizes().end());
    return expand(v, sizes);
  };
  return {expanded(x), expanded(y)};
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

// Of differences, over the last dim.
Val distance_of(Val d, double p) {
  int64_t last = d.dim() - 1;
  if (p == 0) return sum(at_most(unary("ceil", abs(d)), 1.0), {last}, false);
  if (p == 1) return sum(abs(d), {last}, false);
  if (p == 2) return sqrt(sum(d * d, {last}, false));
  if (std::isinf(p)) return reduce("amax", abs(d), {last}, false, d.dtype());
  Val powers = sum(binary_number("pow.Tensor_Scalar", abs(d), p), {last}, false);
  return binary_number("pow.Tensor_Scalar", powers, 1 / p);
}

// What each difference has of the gradient g of its distance; both with a last dim of one.
Val part_of_gradient(Val d, Val g, Val distance, double p) {
  auto power = [](Val v, double e) { return binary_number("pow.Tensor_Scalar", v, e); };
  if (p == 0) return d.b->full(d.sizes(), 0, d.dtype());
  if (p == 1) return g * sign(d);
  if (std::isinf(p)) return g * sign(d) * (1.0 - at_most(unary("ceil", abs(abs(d) - distance)), 1.0));
  Val part;
  if (p == 2)
    part = g * d / distance;
  else if (p < 2)
    part = sign(d) * power(abs(d), p - 1) * g / power(distance, p - 1);
  else
    part = d * power(abs(d), p - 2) * g / power(distance, p - 1);
  Val none = eq(distance, 0.0);
  if (p < 1) none = logical_or(none, eq(d, 0.0));
  return where(none, 0.0, part);
}

void cdist(Op& op) {
  constexpr int64_t kAsUsual = 0, kProduct = 1, kFew = 25;
  int64_t mode = op.given("compute_mode") ? op.integer("compute_mode") : kAsUsual;
  Val x = op.val("x1"), y = op.val("x2");
  const double p = op.real("p");
  if (x.dim() < 2 || y.dim() < 2 || x.numel() == 0 || y.numel() == 0) decline("rows of nothing");
  bool many = x.size(x.dim() - 2) > kFew || y.size(y.dim() - 2) > kFew;
  if (p == 2 && (mode == kProduct || (mode == kAsUsual && many))) {
    const auto [left, right] = in_one_batch(x, y);
    return op.result(0, euclidean(left, right));
  }
  Pairs s = pairs(op);
  Val d = s.x - s.y;
  if (std::isinf(p)) d = where(isnan(d), 0.0, d);  // this maximum passes over NaN
  op.result(0, distance_of(d, p));
}

// What cdist of many rows calls where it wants no gradient.
void euclidean_dist(Op& op) {
  const auto [x, y] = in_one_batch(op.val("x1"), op.val("x2"));
  op.result(0, euclidean(x, y));
}

// The gradient of x1, which is expanded to the batch of both.
void cdist_backward(Op& op) {
  Pairs s = pairs(op);
  Val d = s.x - s.y, g = op.val("grad"), distance = op.val("cdist");
  if (g.dtype() != d.dtype() || distance.dtype() != d.dtype()) decline("operands of several dtypes");
  g = unsqueeze(g, g.dim()), distance = unsqueeze(distance, distance.dim());
  Val part = part_of_gradient(d, g, distance, op.real("p"));
  op.result(0, sum(part, {part.dim() - 2}, false));  // over the rows of x2
}

// ---- each row with each that comes after it

struct Both {
  Val first, second;  // numbers of rows
};
Both pairs_of_rows(Builder& b, int64_t n) {
  const Val p = triangle_places(b, n, n, 1, false);
  return {select(p, 0, 0), select(p, 0, 1)};
}
Val rows_to_compare(Op& op) {
  Val x = op.val("self");
  if (!is_plain(x.dtype()) || x.dim() != 2 || x.size(0) < 2 || x.size(1) == 0) decline("nothing to compare");
  return x;
}
void pdist(Op& op) {
  Val x = rows_to_compare(op);
  const Both rows = pairs_of_rows(op.b, x.size(0));
  op.result(0, distance_of(index_select(x, 0, rows.first) - index_select(x, 0, rows.second), op.real("p")));
}
void pdist_backward(Op& op) {
  Val x = rows_to_compare(op), g = op.val("grad"), distance = op.val("pdist");
  if (g.dtype() != x.dtype() || distance.dtype() != x.dtype()) decline("operands of several dtypes");
  const Both rows = pairs_of_rows(op.b, x.size(0));
  Val d = index_select(x, 0, rows.first) - index_select(x, 0, rows.second);
  Val part = part_of_gradient(d, unsqueeze(g, 1), unsqueeze(distance, 1), op.real("p"));
  Val all = index_add(op.b.full(x.sizes(), 0, x.dtype()), 0, rows.first, part);
  op.result(0, index_add(all, 0, rows.second, neg(part)));
}

constexpr Row kRows[] = {
    {"aten::_cdist_forward", cdist},           {"aten::_cdist_backward", cdist_backward},
    {"aten::_euclidean_dist", euclidean_dist}, {"aten::_pdist_forward", pdist},
    {"aten::_pdist_backward", pdist_backward},
};

}  // namespace

std::span<const Row> distance_rules() { return kRows; }

}  // namespace precast::passes
