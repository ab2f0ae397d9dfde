#include "passes/windows.h"

#include <algorithm>

#include "util/errors.h"

namespace precast::passes {

Val channels_last(Val x) {
  Dims order = all_dims(x);
  order.erase(order.begin() + 1);
  order.push_back(1);
  return permute(x, order);
}

Val channels_first(Val x) {
  Dims order = all_dims(x);
  order.insert(order.begin() + 1, order.back());
  order.pop_back();
  return permute(x, order);
}

Val bordered(Val x, const Dims& low, const Dims& high, Number value) {
  Dims amounts = {0, 0};
  for (size_t d = low.size(); d-- > 0;) amounts.insert(amounts.end(), {low[d], high[d]});
  return std::ranges::all_of(amounts, [](const Size& a) { return a == 0; }) ? in_order(x) : pad(x, amounts, value);
}

Val windows(Val x, const Windows& w) {
  PRECAST_CHECK(x.type().is_contiguous(), "windows of a tensor that is not contiguous");
  const ir::Type& from = x.type();
  ir::Type t{.dtype = from.dtype, .sizes = {from.sizes[0]}, .strides = {from.strides[0]}};
  Size offset = 0;
  const auto add = [&](const Size& size, const Size& stride) { t.sizes.push_back(size), t.strides.push_back(stride); };
  for (size_t d = 0; d < w.count.size(); ++d) {
    add(w.count[d], from.strides[d + 1] * w.stride[d]);
    offset += from.strides[d + 1] * w.start[d];
  }
  for (size_t d = 0; d < w.count.size(); ++d) add(w.size[d], from.strides[d + 1] * w.dilation[d]);
  add(from.sizes.back(), from.strides.back());
  return x.b->view(x, std::move(t), offset * ir::itemsize(from.dtype));
}

Border border(const Dims& sizes, const Windows& w) {
  Border b;
  for (size_t d = 0; d < sizes.size(); ++d) {
    const Size end = w.start[d] + (w.count[d] - 1) * w.stride[d] + (w.size[d] - 1) * w.dilation[d] + 1;
    b.low.push_back(ir::max(-w.start[d], 0));
    b.high.push_back(ir::max(end - sizes[d], 0));
  }
  return b;
}

Dims for_each_dim(Dims list, size_t rank) {
  if (list.size() == 1) list.resize(rank, list[0]);
  if (list.size() != rank) decline("a list of another length than the spatial dims");
  return list;
}

}  // namespace precast::passes
