// Reads through indices, single writes, and gradients of windows.
#include <algorithm>

#include "passes/rules.h"

namespace precast::passes {
namespace {

using ir::Dtype;
using ir::Ref;
using ir::Type;

Val index_of(Op& op, const char* arg) {
  Val i = op.val(arg);
  if (i.dtype() != Dtype::i64 && i.dtype() != Dtype::i32) decline("the index is not an integer");
  return cast(i, Dtype::i64);
}
Val at_least_1d(Val x) { return x.dim() == 0 ? reshape(x, {1}) : x; }
Type like(Val x) { return ir::contiguous(x.dtype(), x.sizes()); }

void gather_rule(Op& op) {
  Val x = op.val("self"), i = index_of(op, "index");
  int64_t d = wrap_dim(op.integer("dim"), x.dim());
  op.result(0, reshape(gather(at_least_1d(x), d, at_least_1d(i)), i.sizes()));
}

void index_select_rule(Op& op) {
  Val x = op.val("self"), i = at_least_1d(index_of(op, "index"));
  if (x.dim() == 0) decline("a 0-dim operand");
  op.result(0, index_select(x, wrap_dim(op.integer("dim"), x.dim()), i));
}

// Masks choose a number of elements that depends on data.
std::vector<Ref> indices(Op& op) {
  std::vector<Ref> refs;
  for (Val i : op.vals("indices")) {
    if (i && i.dtype() != Dtype::i64 && i.dtype() != Dtype::i32) decline("data-dependent size");
    refs.push_back({i ? cast(i, Dtype::i64).id : ir::kNoValue});
  }
  return refs;
}

void index_rule(Op& op) {
  Val x = op.val("self");
  std::vector<Ref> refs = indices(op);
  if (!op.wants(0)) decline("the result has no recorded sizes");
  op.result(0, op.b.emit("aten::index.Tensor", {{"self", Ref{x.id}}, {"indices", refs}},
                         ir::contiguous(x.dtype(), op.wanted(0).sizes)));
}

// self[mask] = values that are the same wherever the mask holds: no index is needed.
bool mask_put(Op& op, Val x, Val values, bool accumulate) {
  auto list = op.vals("indices");
  if (list.size() != 1 || !list[0] || list[0].dtype() != Dtype::b8) return false;
  Dims sizes = list[0].sizes();
  if (!std::equal(sizes.begin(), sizes.end(), x.sizes().begin(),
                  x.sizes().begin() + std::min<int64_t>(x.dim(), list[0].dim())))
    decline("the mask has other sizes");
  if (x.dim() - list[0].dim() + 1 == values.dim()) {
    if (values.size(0) != 1) return false;
    values = squeeze(values, 0);
  }
  sizes.resize(x.sizes().size(), 1);
  op.result(0, where(reshape(list[0], sizes), accumulate ? x + values : values, x));
  return true;
}

void index_put(Op& op) {
  Val x = op.val("self"), values = op.val("values");
  if (values.dtype() != x.dtype()) decline("the values are of another dtype");
  bool accumulate = op.given("accumulate") && op.flag("accumulate");
  if (mask_put(op, x, values, accumulate)) return;
  std::vector<Ref> refs = indices(op);
  const bool counts = accumulate && x.dtype() == Dtype::b8;  // bools are added up as numbers
  if (counts) x = cast(x, Dtype::i64), values = cast(values, Dtype::i64);
  Val made = op.b.emit("aten::index_put",
                       {{"self", Ref{x.id}}, {"indices", refs}, {"values", Ref{values.id}}, {"accumulate", accumulate}},
                       like(x));
  op.result(0, counts ? ne(made, 0) : made);
}

// Places in the elements in their order; negative ones count from the end.
void take(Op& op) {
  Val x = op.val("self");
  op.result(0, index(reshape(x, {x.numel()}), {index_of(op, "index")}));
}
void put(Op& op) {
  Val x = op.val("self"), source = op.val("source"), i = index_of(op, "index");
  bool accumulate = op.flag("accumulate");
  if (source.dtype() != x.dtype()) decline("operands of other dtypes");
  const bool counts = accumulate && x.dtype() == Dtype::b8;
  if (counts) x = cast(x, Dtype::i64), source = cast(source, Dtype::i64);
  Val flat = index_put(reshape(x, {x.numel()}), {reshape(i, {i.numel()})}, reshape(source, {i.numel()}), accumulate);
  op.result(0, reshape(counts ? ne(flat, 0) : flat, x.sizes()));
}

// ---- windows: their gradients, and copies with a window replaced

// base with the elements that `window(base)` shows replaced.
template <class F>
Val replaced(Val base, Val src, F window) {
  // The view is a probe: its node stays unused, and its type and offset say where src goes.
  Val probe = window(base);
  Size offset = 0;
  if (probe.id != base.id) offset = *ir::as_size(*base.b->nodes.back().find("offset"));
  if (probe.sizes() != src.sizes()) decline("the source has other sizes");
  return scatter_window(base, src, offset, probe.type().strides);
}

struct Slice {
  int64_t d, start, length, step;
};
Slice slice_of(Op& op, const Dims& sizes) {
  int64_t d = wrap_dim(op.integer("dim"), static_cast<int64_t>(sizes.size())), n = sizes.at(static_cast<size_t>(d));
  auto bound = [&](const char* arg, int64_t otherwise) {
    int64_t v = op.given(arg) ? op.integer(arg) : otherwise;
    return std::clamp<int64_t>(v < 0 ? v + n : v, 0, n);
  };
  int64_t start = bound("start", 0), end = std::max(bound("end", n), start), step = op.integer("step");
  return {d, start, (end - start + step - 1) / step, step};
}
Val zeros(Op& op, Val like) { return op.b.full(op.ints("input_sizes"), 0, like.dtype()); }

Val replace_selected(Op& op, Val base, Val src) {
  int64_t d = wrap_dim(op.integer("dim"), base.dim()), i = op.integer("index");
  if (base.dim() == 0) decline("a 0-dim operand");
  if (i < 0) i += base.size(d);
  return replaced(base, src, [&](Val v) { return select(v, d, i); });
}
Val replace_slice(Op& op, Val base, Val src) {
  Slice s = slice_of(op, base.sizes());
  return replaced(base, src, [&](Val v) { return slice(v, s.d, s.start, s.length, s.step); });
}
Val replace_diagonal(Op& op, Val base, Val src) {
  int64_t d1 = wrap_dim(op.integer("dim1"), base.dim()), d2 = wrap_dim(op.integer("dim2"), base.dim());
  int64_t offset = op.integer("offset");
  int64_t n = std::max<int64_t>(
      offset >= 0 ? std::min(base.size(d1), base.size(d2) - offset) : std::min(base.size(d1) + offset, base.size(d2)),
      0);
  if (n == 0) return base;
  return replaced(base, src, [&](Val v) {
    Type t = v.type();
    int64_t s1 = t.strides[static_cast<size_t>(d1)], s2 = t.strides[static_cast<size_t>(d2)];
    int64_t start = offset >= 0 ? offset * s2 : -offset * s1;
    for (int64_t d : {std::max(d1, d2), std::min(d1, d2)}) {
      t.sizes.erase(t.sizes.begin() + d);
      t.strides.erase(t.strides.begin() + d);
    }
    t.sizes.push_back(n);
    t.strides.push_back(s1 + s2);
    return v.b->view(v, std::move(t), start * ir::itemsize(v.dtype()));
  });
}

// Each element of a window is added where it came from, window by window.
void unfold_backward(Op& op) {
  Val g = op.val("grad_in");
  const Dims sizes = op.ints("input_sizes");
  const auto rank = static_cast<int64_t>(sizes.size());
  if (rank == 0 || g.numel() == 0) decline("no windows");
  const int64_t d = wrap_dim(op.integer("dim"), rank), size = op.integer("size"), step = op.integer("step");
  const int64_t windows = g.size(d);
  Dims order = all_dims(g), parts = sizes, outer{1}, inner{1};
  order.pop_back();
  order.insert(order.begin() + d + 1, rank);  // each window beside its place
  for (int64_t i = 0; i < rank; ++i)
    if (i != d) (i < d ? outer : inner)[0] *= sizes[static_cast<size_t>(i)];
  Val at = reshape(reshape(op.b.arange(windows) * step, {windows, 1}) + op.b.arange(size), {windows * size});
  Val rows = reshape(permute(g, order), {outer[0], windows * size, inner[0]});
  Val zeros = op.b.full({outer[0], sizes[static_cast<size_t>(d)], inner[0]}, 0, g.dtype());
  op.result(0, reshape(index_add(zeros, 1, at, rows), sizes));
}

using Replace = Val (*)(Op&, Val, Val);
template <Replace replace>
void window_backward(Op& op) {
  Val g = op.val("grad_output");
  op.result(0, replace(op, zeros(op, g), g));
}
template <Replace replace>
void window_scatter(Op& op) {
  Val x = op.val("self");
  if (op.val("src").dtype() != x.dtype()) decline("the source is of another dtype");
  op.result(0, replace(op, contiguous(x), op.val("src")));
}

void assertion(Op& op) { op.result(0, require(op.val("self"), op.text("assert_msg"), op.val("dep_token"))); }

constexpr Row kRows[] = {
    {"aten::gather", gather_rule},
    {"aten::index_select", index_select_rule},
    {"aten::take", take},
    {"aten::put", put},
    {"aten::index.Tensor", index_rule},
    {"aten::_unsafe_index.Tensor", index_rule},
    {"aten::index_put", index_put},
    {"aten::_index_put_impl", index_put},
    {"aten::_unsafe_index_put", index_put},
    {"aten::unfold_backward", unfold_backward},
    {"aten::select_backward", window_backward<replace_selected>},
    {"aten::slice_backward", window_backward<replace_slice>},
    {"aten::diagonal_backward", window_backward<replace_diagonal>},
    {"aten::select_scatter", window_scatter<replace_selected>},
    {"aten::slice_scatter", window_scatter<replace_slice>},
    {"aten::diagonal_scatter", window_scatter<replace_diagonal>},
    {"aten::_functional_assert_async.msg", assertion},
};

}  // namespace

std::span<const Row> index_rules() { return kRows; }

}  // namespace precast::passes
