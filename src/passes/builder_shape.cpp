// Windows, copies and index reads.
#include <algorithm>

#include "passes/builder.h"
#include "util/errors.h"

namespace precast::passes {

using ir::Ref;
using ir::Type;

namespace {

Ref ref(Val v) { return {v.id}; }
Size bytes(Val v, const Size& elements) { return elements * ir::itemsize(v.dtype()); }

}  // namespace

Val contiguous(Val x) { return x.type().is_contiguous() ? x : copy(x, ir::contiguous_strides(x.sizes())); }

Val reshape(Val x, const Dims& sizes) {
  if (sizes == x.sizes()) return x;
  Type t = x.type();
  t.sizes = sizes;
  if (t.numel() != x.numel()) decline("sizes that do not hold as many elements");
  auto strides = reshaped_strides(x.type(), sizes);
  if (!strides) {
    x = contiguous(x);
    strides = ir::contiguous_strides(sizes);
  }
  t.strides = *strides;
  return x.b->view(x, std::move(t));
}

Val expand(Val x, const Dims& sizes) {
  if (sizes == x.sizes()) return x;
  Type t = x.type();
  size_t old = t.sizes.size();
  if (old > sizes.size()) decline("a value does not broadcast to fewer dims");
  t.sizes = sizes;
  t.strides.assign(sizes.size(), 0);
  for (size_t i = 0; i < old; ++i) {
    size_t d = sizes.size() - old + i;
    if (x.sizes()[i] == sizes[d])
      t.strides[d] = x.type().strides[i];
    else if (x.sizes()[i] != 1)
      decline("a value does not broadcast to the size it is written to");
  }
  return x.b->view(x, std::move(t));
}

Val permute(Val x, const Dims& dims) {
  Type t = x.type();
  for (size_t i = 0; i < dims.size(); ++i) {
    t.sizes[i] = x.sizes()[static_cast<size_t>(dims[i])];
    t.strides[i] = x.type().strides[static_cast<size_t>(dims[i])];
  }
  return x.b->view(x, std::move(t));
}

Val transpose(Val x, int64_t d0, int64_t d1) {
  Dims dims = all_dims(x);
  std::swap(dims[static_cast<size_t>(d0)], dims[static_cast<size_t>(d1)]);
  return permute(x, dims);
}

Val unsqueeze(Val x, int64_t d) {
  Type t = x.type();
  Size stride = d < x.dim() ? t.sizes[static_cast<size_t>(d)] * t.strides[static_cast<size_t>(d)] : Size(1);
  t.sizes.insert(t.sizes.begin() + d, 1);
  t.strides.insert(t.strides.begin() + d, stride);
  return x.b->view(x, std::move(t));
}

Val squeeze(Val x, int64_t d) { return select(x, d, 0); }

Val select(Val x, int64_t d, const Size& index) {
  Type t = x.type();
  Size offset = index * t.strides[static_cast<size_t>(d)];
  t.sizes.erase(t.sizes.begin() + d);
  t.strides.erase(t.strides.begin() + d);
  return x.b->view(x, std::move(t), bytes(x, offset));
}

Val slice(Val x, int64_t d, const Size& start, const Size& length, int64_t step) {
  Type t = x.type();
  Size& stride = t.strides[static_cast<size_t>(d)];
  Size offset = length != 0 ? start * stride : Size(0);
  stride *= step;
  t.sizes[static_cast<size_t>(d)] = length;
  return x.b->view(x, std::move(t), bytes(x, offset));
}

Val scatter_window(Val base, Val src, const Size& offset, const Dims& strides) {
  PRECAST_CHECK(src.dtype() == base.dtype(), "a window takes its base's dtype");
  return base.b->emit(
      "prim::scatter",
      {{"base", ref(base)}, {"src", ref(src)}, {"offset", offset}, {"sizes", src.sizes()}, {"strides", strides}},
      base.type());
}

Val in_order(Val x) {
  if (x.type().is_contiguous()) return x;
  constexpr int64_t kContiguousFormat = 0;
  return x.b->emit("aten::clone", {{"self", ref(x)}, {"memory_format", kContiguousFormat}},
                   ir::contiguous(x.dtype(), x.sizes()));
}

Val pad(Val x, const Dims& amounts, Number value) {
  Dims sizes = x.sizes();
  for (size_t i = 0; i < amounts.size() / 2; ++i) {
    Size& s = sizes.at(sizes.size() - 1 - i);
    s += amounts[2 * i] + amounts[2 * i + 1];
    if (!ir::always_at_least(s, 0)) decline("a size that may be negative");
  }
  return x.b->emit("aten::constant_pad_nd", {{"self", ref(x)}, {"pad", amounts}, {"value", value.in(x.dtype())}},
                   ir::contiguous(x.dtype(), sizes));
}

Val flip(Val x, const Dims& dims) {
  if (x.dim() == 0 || dims.empty()) return x;
  return x.b->emit("aten::flip", {{"self", ref(x)}, {"dims", dims}}, ir::contiguous(x.dtype(), x.sizes()));
}

Val cat(const std::vector<Val>& parts, int64_t d) {
  Type t = ir::contiguous(parts[0].dtype(), parts[0].sizes());
  std::vector<Ref> refs;
  Size total = 0;
  for (Val p : parts) {
    PRECAST_CHECK(p.dtype() == t.dtype, "parts of cat have two dtypes");
    refs.push_back(ref(p));
    total += p.size(d);
  }
  t.sizes[static_cast<size_t>(d)] = total;
  return parts[0].b->emit("aten::cat", {{"tensors", refs}, {"dim", d}}, ir::contiguous(t.dtype, t.sizes));
}

Val flip(Val x, int64_t d) {
  if (x.size(d) <= 1) return x;
  return x.b->emit("aten::flip", {{"self", ref(x)}, {"dims", Dims{d}}}, ir::contiguous(x.dtype(), x.sizes()));
}

Val pad(Val x, int64_t d, const Size& before, const Size& after, Number value) {
  if (before == 0 && after == 0) return x;
  Dims sizes = x.sizes(), amounts(static_cast<size_t>(2 * (x.dim() - d)));
  sizes[static_cast<size_t>(d)] += before + after;
  amounts[amounts.size() - 2] = before;
  amounts[amounts.size() - 1] = after;
  return x.b->emit("aten::constant_pad_nd", {{"self", ref(x)}, {"pad", amounts}, {"value", value.in(x.dtype())}},
                   ir::contiguous(x.dtype(), sizes));
}

Val require(Val condition, const std::string& message, Val passed) {
  return passed.b->emit("aten::_functional_assert_async.msg",
                        {{"self", ref(condition)}, {"assert_msg", message}, {"dep_token", ref(passed)}}, passed.type());
}

int64_t wrap_dim(int64_t d, int64_t rank) {
  rank = std::max<int64_t>(rank, 1);
  if (d < -rank || d >= rank) decline("a dim is out of range");
  return d < 0 ? d + rank : d;
}

}  // namespace precast::passes
