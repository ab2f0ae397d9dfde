// Ops that move elements: windows, joins, borders, repeats.
#include "loops/lowering.h"

namespace precast::loops {

namespace {

using ir::Dtype;

size_t dim_of(int64_t d, int64_t rank) { return static_cast<size_t>(d < 0 ? d + rank : d); }

bool scatter_window(Lowering& l, const ir::Node& n) {
  const ir::ValueId base = tensor(n, "base"), src = tensor(n, "src"), out = result(n);
  const ir::Type type = l.type(out);
  if (l.type(src).dtype != type.dtype) return l.refuse("a window of another dtype");
  const auto sizes = integers(n, "sizes"), strides = integers(n, "strides");
  for (size_t d = 0; d < sizes.size(); ++d)
    if (strides[d] == 0 && sizes[d] > 1) return l.refuse("a window that overlaps itself");
  const BufferId b = l.make_buffer(out);
  const int copied =
      l.map(b, "copy", type.sizes, type.strides, 0, type.dtype, [&](const Indices& i) { return l.element(base, i); });
  const int64_t offset = integer(n, "offset") / ir::itemsize(type.dtype);
  const int written =
      l.map(b, "scatter", sizes, strides, offset, type.dtype, [&](const Indices& i) { return l.broadcast(src, i); });
  if (copied >= 0 && written >= 0) l.step(written).after.push_back(copied);
  return true;
}

/// Fills the box [low, high) of the buffer of `type`.
void fill_box(Lowering& l, BufferId b, const char* what, const ir::Type& type, const Dims& low, const Dims& high,
              const Element& f) {
  Dims sizes;
  Size offset = 0;
  for (size_t d = 0; d < low.size(); ++d) {
    const Size size = high[d] - low[d];
    if (size.upper() <= 0) return;
    if (size.lower() < 0) throw ir::Undecided{ir::to_string(size) + " < 0"};
    sizes.push_back(size);
    offset += low[d] * type.strides[d];
  }
  if (const int i = l.map(b, what, sizes, type.strides, offset, type.dtype, f); i >= 0) l.step(i).part = true;
}

bool cat(Lowering& l, const ir::Node& n) {
  const auto& tensors = std::get<std::vector<ir::Ref>>(*n.find("tensors"));
  const ir::ValueId out = result(n);
  const ir::Type type = l.type(out);
  const size_t dim = dim_of(integer(n, "dim"), type.dim());
  for (const ir::Ref& r : tensors)
    if (l.type(r.id).dtype != type.dtype) return l.refuse("operands of different dtypes");
  const BufferId b = l.make_buffer(out);
  Size start = 0;
  for (const ir::Ref& r : tensors) {
    const ir::Type& t = l.type(r.id);
    if (t.dim() == 1 && t.numel() == 0 && type.dim() != 1) continue;  // ATen skips these
    Dims low(type.sizes.size(), 0), high = type.sizes;
    low[dim] = start, high[dim] = start += t.sizes[dim];
    fill_box(l, b, "cat", type, low, high, [&](const Indices& i) { return l.element(r.id, i); });
  }
  return true;
}

bool pad(Lowering& l, const ir::Node& n) {
  const ir::ValueId self = tensor(n, "self"), out = result(n);
  const ir::Type type = l.type(out), from = l.type(self);
  const auto amounts = integers(n, "pad");
  const ir::Attr& attr = *n.find("value");
  if (std::holds_alternative<std::complex<double>>(attr)) return l.refuse("complex number");
  const ExprId value = ir::is_float(type.dtype) ? l.exprs().constant(type.dtype, number(n, "value"))
                                                : l.exprs().constant(type.dtype, integer(n, "value"));
  // The operand's box in the result; a negative amount crops.
  const size_t rank = type.sizes.size();
  Dims low(rank, 0), high = type.sizes, shift(rank, 0);
  for (size_t k = 0; 2 * k < amounts.size(); ++k) {
    const size_t d = rank - 1 - k;
    shift[d] = amounts[2 * k];
    low[d] = ir::max(shift[d], 0);
    high[d] = ir::min(type.sizes[d], shift[d] + from.sizes[d]);
  }
  const BufferId b = l.make_buffer(out);
  fill_box(l, b, "pad", type, low, high, [&](const Indices& i) {
    Indices source = i;
    for (size_t d = 0; d < rank; ++d) source[d] = i[d] + Index(low[d] - shift[d]);
    return l.element(self, source);
  });
  // The border, dim by dim: slabs that do not meet.
  Dims outer_low(rank, 0), outer_high = type.sizes;
  for (size_t d = 0; d < rank; ++d) {
    const Size inner_low = ir::min(low[d], type.sizes[d]), inner_high = ir::max(high[d], inner_low);
    for (const auto& [from_d, to_d] : {std::pair{Size(0), inner_low}, std::pair{inner_high, type.sizes[d]}}) {
      Dims a = outer_low, z = outer_high;
      a[d] = from_d, z[d] = to_d;
      fill_box(l, b, "pad", type, a, z, [&](const Indices&) { return value; });
    }
    outer_low[d] = inner_low, outer_high[d] = inner_high;
  }
  return true;
}

bool flip(Lowering& l, const ir::Node& n) {
  const ir::ValueId self = tensor(n, "self"), out = result(n);
  const ir::Type type = l.type(out);
  std::vector<bool> flipped(type.sizes.size());
  for (const int64_t d : integers(n, "dims"))
    if (type.dim() > 0) flipped[dim_of(d, type.dim())] = true;
  l.define(out, "flip", [&l, self, flipped, sizes = type.sizes](const Indices& i) {
    Indices source = i;
    for (size_t d = 0; d < i.size(); ++d)
      if (flipped[d]) source[d] = Index(sizes[d] - 1) - i[d];
    return l.element(self, source);
  });
  return true;
}

bool roll(Lowering& l, const ir::Node& n) {
  const ir::ValueId self = tensor(n, "self"), out = result(n);
  const ir::Type type = l.type(out);
  const auto shifts = integers(n, "shifts"), dims = integers(n, "dims");
  if (dims.size() != shifts.size()) return l.refuse("roll of the flattened tensor");
  const size_t rank = type.sizes.size();
  Dims shift(rank, 0);
  for (size_t k = 0; k < dims.size(); ++k) {
    const size_t d = dim_of(dims[k], type.dim());
    if (type.sizes[d] == 0) continue;
    shift[d] = ((shift[d] + shifts[k]) % type.sizes[d] + type.sizes[d]) % type.sizes[d];
  }
  const BufferId b = l.make_buffer(out);
  // Each rolled dim has a part that moves up and a part that wraps around.
  for (size_t corner = 0; corner < size_t{1} << rank; ++corner) {
    Dims low(rank), high(rank), move(rank);
    bool empty = false;
    for (size_t d = 0; d < rank; ++d) {
      const bool wraps = corner >> d & 1;
      low[d] = wraps ? Size(0) : shift[d];
      high[d] = wraps ? shift[d] : type.sizes[d];
      move[d] = wraps ? type.sizes[d] - shift[d] : Size(0);
      empty |= low[d] == high[d];
    }
    if (empty) continue;
    fill_box(l, b, "roll", type, low, high, [&](const Indices& i) {
      Indices source = i;
      for (size_t d = 0; d < rank; ++d) source[d] = i[d] + Index(move[d]);
      return l.element(self, source);
    });
  }
  return true;
}

bool repeat(Lowering& l, const ir::Node& n) {
  const ir::ValueId self = tensor(n, "self"), out = result(n);
  const ir::Type from = l.type(self);
  l.define(out, "repeat", [&l, self, from](const Indices& i) {
    const size_t shift = i.size() - from.sizes.size();
    Indices source(from.sizes.size());
    for (size_t d = 0; d < source.size(); ++d)
      if (from.sizes[d] != 1) source[d] = l.modulo(i[d + shift], from.sizes[d]);
    return l.element(self, source);
  });
  return true;
}

}  // namespace

void add_shape_rules(Rules& rules) {
  rules["prim::scatter"] = scatter_window;
  rules["aten::cat"] = cat;
  rules["aten::constant_pad_nd"] = pad;
  rules["aten::flip"] = flip;
  rules["aten::roll"] = roll;
  rules["aten::repeat"] = repeat;
}

}  // namespace precast::loops
