// Rows of a table: embedding, bags of rows, and their gradients.
#include <cmath>

#include "passes/rules.h"

namespace precast::passes {
namespace {

using ir::Dtype;
using ir::Ref;

Val index_of(Op& op, const char* arg) {
  Val i = op.val(arg);
  if (i.dtype() != Dtype::i64 && i.dtype() != Dtype::i32) decline("the index is not an integer");
  return cast(i, Dtype::i64);
}

Val rows(Val weight, Val indices) {
  Dims sizes = indices.sizes();
  sizes.push_back(weight.size(1));
  return weight.b->emit("aten::embedding",
                        {{"weight", Ref{weight.id}},
                         {"indices", Ref{indices.id}},
                         {"padding_idx", int64_t{-1}},
                         {"scale_grad_by_freq", false},
                         {"sparse", false}},
                        ir::contiguous(weight.dtype(), sizes));
}
// n rows that hold what `grad` gives to each; the padding's get nothing.
Val rows_backward(Val grad, Val indices, int64_t n, int64_t padding) {
  return grad.b->emit("aten::embedding_dense_backward",
                      {{"grad_output", Ref{grad.id}},
                       {"indices", Ref{indices.id}},
                       {"num_weights", n},
                       {"padding_idx", padding},
                       {"scale_grad_by_freq", false}},
                      ir::contiguous(grad.dtype(), {n, grad.sizes().back()}));
}

void embedding(Op& op) { op.result(0, rows(op.val("weight"), index_of(op, "indices"))); }

void embedding_backward(Op& op) {
  Val g = op.val("grad_output"), i = index_of(op, "indices");
  int64_t n = op.integer("num_weights");
  if (op.flag("scale_grad_by_freq")) {
    Val flat = reshape(i, {i.numel()}), one = op.b.full(flat.sizes(), 1, Dtype::i64);
    Val uses = index(scatter_add(op.b.full({n}, 0, Dtype::i64), 0, flat, one), {i});
    g = g * unsqueeze(cast(1.0 / cast(uses, Dtype::f64), g.dtype()), i.dim());
  }
  op.result(0, rows_backward(g, i, n, op.integer("padding_idx")));
}

// Rows in use that are longer than max_norm become as long as it.
void embedding_renorm(Op& op) {
  Val w = op.val("self"), i = index_of(op, "indices");
  if (!ir::is_float(w.dtype()) || w.dim() != 2) decline("not a matrix of floats");
  double most = op.real("max_norm");
  Val used = rows(w, reshape(i, {i.numel()}));
  Val norm = op.apply(
      "aten::linalg_vector_norm",
      {{"self", Ref{used.id}}, {"ord", op.real("norm_type")}, {"dim", Dims{1}}, {"keepdim", true}, {"dtype", {}}});
  norm = cast(norm, Dtype::f64);
  Val scale = cast(most / (norm + 1e-7), compute_dtype(w.dtype()));
  Val scaled = in_f32(used, [&](Val v) { return v * scale; });
  op.result(0, index_put(w, {reshape(i, {i.numel()})}, where(gt(norm, most), scaled, used), false));
}

// ---- bags: rows are summed, averaged or compared by stretches of the indices

enum Mode { kSum = 0, kMean = 1, kMax = 2 };

struct Bags {
  Val indices, offsets;  // offsets: where each bag starts
  Val of_index;          // the bag of each index
  Val weights;           // of each index, or empty
  Val counted;           // of each index: not the padding; empty if all are
  int64_t n, count;      // indices, bags
};
Bags bags(Op& op, const char* weights) {
  Bags b;
  b.indices = index_of(op, "indices");
  b.offsets = index_of(op, "offsets");
  if (b.indices.dim() != 1 || b.offsets.dim() != 1) decline("indices are not a vector");
  b.n = b.indices.numel();
  b.count = b.offsets.numel() - (op.given("include_last_offset") && op.flag("include_last_offset") ? 1 : 0);
  if (b.n == 0 || b.count <= 0) decline("no bags");
  b.offsets = slice(b.offsets, 0, 0, b.count);
  Val found = op.apply("aten::searchsorted.Tensor", {{"sorted_sequence", Ref{b.offsets.id}},
                                                     {"self", Ref{op.b.arange(b.n).id}},
                                                     {"out_int32", false},
                                                     {"right", true},
                                                     {"side", {}},
                                                     {"sorter", {}}});
  b.of_index = found - 1;
  b.weights = weights ? op.optional(weights) : Val{};
  if (int64_t padding = op.integer("padding_idx"); padding >= 0) b.counted = ne(b.indices, padding);
  return b;
}

// How many indices count in each bag.
Val sizes_of(Op& op, const Bags& b) {
  Val one = b.counted ? cast(b.counted, Dtype::i64) : op.b.full({b.n}, 1, Dtype::i64);
  return index_add(op.b.full({b.count}, 0, Dtype::i64), 0, b.of_index, one);
}

// The largest of a bag, and the row that it stands in: the first of equals. A NaN counts only where it comes first.
void largest(Op& op, const Bags& b, Val weight) {
  Val each = rows(weight, b.indices);  // [n, features]
  Val position = reshape(op.b.arange(b.n), {b.n, 1});
  Val starts = unsqueeze(index_select(b.offsets, 0, b.of_index), 1);
  if (b.counted) {  // the first that is not padding
    Val counted = where(b.counted, op.b.arange(b.n), b.n);
    Val firsts = scatter_reduce(op.b.full({b.count}, b.n, Dtype::i64), 0, b.of_index, counted, "amin");
    starts = unsqueeze(index_select(firsts, 0, b.of_index), 1);
  }
  Val key = where(logical_and(isnan(each), binary("ne.Tensor", position, starts)), -HUGE_VAL, each);
  if (b.counted) key = where(unsqueeze(b.counted, 1), key, -HUGE_VAL);
  Val places = expand(unsqueeze(b.of_index, 1), each.sizes());
  Dims sizes{b.count, weight.size(1)};
  Val most = scatter_reduce(op.b.full(sizes, -HUGE_VAL, weight.dtype()), 0, places, key, "amax");
  Val mine = gather(most, 0, places);
  Val equal = logical_or(binary("eq.Tensor", key, mine), logical_and(isnan(key), isnan(mine)));
  if (b.counted) equal = logical_and(equal, unsqueeze(b.counted, 1));
  Val first = scatter_reduce(op.b.full(sizes, b.n, Dtype::i64), 0, places,
                             where(equal, expand(position, each.sizes()), b.n), "amin");
  Val empty = eq(first, b.n);
  op.result(0, where(empty, 0.0, most));
  if (op.wants(3)) op.result(3, where(empty, 0, index(b.indices, {at_most(first, b.n - 1)})));
}

void embedding_bag(Op& op) {
  Val weight = op.val("weight");
  int64_t mode = op.integer("mode");
  Dtype d = weight.dtype(), c = compute_dtype(d);
  Bags b = bags(op, "per_sample_weights");
  Val bag_sizes = sizes_of(op, b);
  if (mode == kMax) {
    largest(op, b, weight);
  } else {
    Val each = cast(rows(weight, b.indices), c);
    if (b.weights) each = each * unsqueeze(cast(b.weights, c), 1);
    if (b.counted) each = where(unsqueeze(b.counted, 1), each, 0.0);
    Val total = index_add(op.b.full({b.count, weight.size(1)}, 0, c), 0, b.of_index, each);
    if (mode == kMean) total = total / unsqueeze(cast(at_least(bag_sizes, 1), c), 1);
    op.result(0, cast(total, d));
  }
  // Of the other results eager fills in what the mode needs; sums need no sizes.
  auto give = [&](size_t out, Val v) {
    if (!op.wants(out)) return;
    const ir::Type& t = op.wanted(out);
    if (t.numel() == 0 || (mode == kSum && out > 1)) v = op.b.full(t.sizes, 0, t.dtype);
    if (t.sizes != v.sizes()) decline("a result of other sizes");
    op.result(out, cast(v, t.dtype));
  };
  give(1, b.of_index);
  give(2, bag_sizes);
  if (mode != kMax) give(3, bag_sizes);
}

void embedding_bag_backward(Op& op) {
  Val grad = op.val("grad");
  int64_t mode = op.integer("mode"), n = op.integer("num_weights");
  if (op.flag("scale_grad_by_freq") || op.flag("sparse")) decline("scaled by frequency, or sparse");
  if (mode == kMax) {
    Val i = index_of(op, "maximum_indices");
    return op.result(0, scatter_add(op.b.full({n, grad.size(1)}, 0, grad.dtype()), 0, i, grad));
  }
  Bags b = bags(op, "per_sample_weights");
  if (mode == kMean) grad = grad / unsqueeze(cast(at_least(index_of(op, "bag_size"), 1), grad.dtype()), 1);
  Val each = index_select(grad, 0, b.of_index);
  if (b.weights) each = each * unsqueeze(b.weights, 1);
  op.result(0, rows_backward(each, b.indices, n, op.integer("padding_idx")));
}

void embedding_bag_weights_backward(Op& op) {
  Val grad = op.val("grad");
  Bags b = bags(op, nullptr);
  const auto computed = [](Val v) { return cast(v, compute_dtype(v.dtype())); };
  Val terms = computed(index_select(grad, 0, b.of_index)) * computed(rows(op.val("weight"), b.indices));
  Val dots = cast(sum(terms, {1}, false), grad.dtype());
  op.result(0, b.counted ? where(b.counted, dots, 0.0) : dots);
}

constexpr Row kRows[] = {
    {"aten::embedding", embedding},
    {"aten::embedding_dense_backward", embedding_backward},
    {"aten::embedding_renorm", embedding_renorm},
    {"aten::_embedding_bag", embedding_bag},
    {"aten::_embedding_bag_forward_only", embedding_bag},
    {"aten::_embedding_bag_backward", embedding_bag_backward},
    {"aten::_embedding_bag_per_sample_weights_backward", embedding_bag_weights_backward},
};

}  // namespace

std::span<const Row> embedding_rules() { return kRows; }

}  // namespace precast::passes
