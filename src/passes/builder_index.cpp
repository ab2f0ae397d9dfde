// Reads and writes through indices.
#include <algorithm>

#include "passes/builder.h"

namespace precast::passes {

using ir::Ref;

namespace {

Ref ref(Val v) { return {v.id}; }
ir::Type like(Val x) { return ir::contiguous(x.dtype(), x.sizes()); }
std::vector<Ref> refs(const std::vector<Val>& values) {
  std::vector<Ref> r;
  for (Val v : values) r.push_back(ref(v));
  return r;
}

}  // namespace

Val gather(Val x, int64_t d, Val index) {
  return x.b->emit("aten::gather", {{"self", ref(x)}, {"dim", d}, {"index", ref(index)}, {"sparse_grad", false}},
                   ir::contiguous(x.dtype(), index.sizes()));
}

Val index_select(Val x, int64_t d, Val index) {
  Dims sizes = x.sizes();
  sizes[static_cast<size_t>(d)] = index.numel();
  return x.b->emit("aten::index_select", {{"self", ref(x)}, {"dim", d}, {"index", ref(index)}},
                   ir::contiguous(x.dtype(), sizes));
}

Val index_add(Val base, int64_t d, Val index, Val source) {
  return base.b->emit(
      "aten::index_add",
      {{"self", ref(base)}, {"dim", d}, {"index", ref(index)}, {"source", ref(source)}, {"alpha", int64_t{1}}},
      like(base));
}

Val scatter(Val base, int64_t d, Val index, Val source) {
  return base.b->emit("aten::scatter.src",
                      {{"self", ref(base)}, {"dim", d}, {"index", ref(index)}, {"src", ref(source)}}, like(base));
}

Val scatter(Val base, int64_t d, Val index, Number value) {
  return base.b->emit("aten::scatter.value",
                      {{"self", ref(base)}, {"dim", d}, {"index", ref(index)}, {"value", value.in(base.dtype())}},
                      like(base));
}

Val scatter_add(Val base, int64_t d, Val index, Val source) {
  return base.b->emit("aten::scatter_add",
                      {{"self", ref(base)}, {"dim", d}, {"index", ref(index)}, {"src", ref(source)}}, like(base));
}

Val scatter_reduce(Val base, int64_t d, Val index, Val source, const char* reduce) {
  return base.b->emit("aten::scatter_reduce.two",
                      {{"self", ref(base)},
                       {"dim", d},
                       {"index", ref(index)},
                       {"src", ref(source)},
                       {"reduce", std::string(reduce)},
                       {"include_self", true}},
                      like(base));
}

Val index(Val x, const std::vector<Val>& indices) {
  Dims sizes, shape;
  size_t at = 0;
  std::vector<const ir::Type*> types;
  for (Val i : indices)
    if (i) types.push_back(&i.type());
  auto broadcast = broadcast_sizes(types);
  if (!broadcast) decline("indices do not broadcast");
  bool placed = false;
  for (int64_t d = 0; d < x.dim(); ++d) {
    bool indexed = d < static_cast<int64_t>(indices.size()) && indices[static_cast<size_t>(d)];
    if (!indexed) sizes.push_back(x.size(d));
    if (indexed && !placed) {
      placed = true;
      at = sizes.size();
    }
  }
  sizes.insert(sizes.begin() + static_cast<std::ptrdiff_t>(at), broadcast->begin(), broadcast->end());
  return x.b->emit("aten::index.Tensor", {{"self", ref(x)}, {"indices", refs(indices)}},
                   ir::contiguous(x.dtype(), sizes));
}

Val index_put(Val x, const std::vector<Val>& indices, Val values, bool accumulate) {
  return x.b->emit("aten::index_put",
                   {{"self", ref(x)}, {"indices", refs(indices)}, {"values", ref(values)}, {"accumulate", accumulate}},
                   like(x));
}

Val triangle_places(Builder& b, int64_t rows, int64_t columns, int64_t diagonal, bool lower) {
  // Row r has `count` places, from column `first` on; those of all rows before it are `start`.
  const auto bounded = [&](int64_t v) { return std::clamp<int64_t>(v, 0, columns); };
  int64_t total = 0;
  for (int64_t r = 0; r < rows; ++r) total += lower ? bounded(r + diagonal + 1) : columns - bounded(r + diagonal);
  if (total == 0) return b.full({2, 0}, 0, ir::Dtype::i64);
  Val edge = at_most(at_least(b.arange(rows) + (lower ? diagonal + 1 : diagonal), 0), columns);
  Val count = lower ? edge : Number(columns) - edge, ends = cumsum(count, 0);
  Val place = b.arange(total);
  Val row = b.emit("aten::searchsorted.Tensor",
                   {{"sorted_sequence", ref(ends)},
                    {"self", ref(place)},
                    {"out_int32", false},
                    {"right", true},
                    {"side", {}},
                    {"sorter", {}}},
                   like(place));
  const auto of_row = [&](Val v) { return index_select(v, 0, row); };
  Val column = place - of_row(ends - count);
  if (!lower) column = column + of_row(edge);
  return cat({unsqueeze(row, 0), unsqueeze(column, 0)}, 0);
}

}  // namespace precast::passes
