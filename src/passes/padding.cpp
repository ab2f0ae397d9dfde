// Reflected and repeated borders and their gradients, one dim after the other: parts of the operand, joined.
#include "passes/rules.h"

namespace precast::passes {
namespace {

using ir::Dtype;

struct Border {
  int64_t d, before, after;  // elements added; fewer than 0 crop
};

// `pad` counts from the last dim on.
std::vector<Border> borders(Op& op, Val x) {
  Dims pad = op.ints("padding");
  std::vector<Border> found;
  for (size_t i = 0; i < pad.size() / 2; ++i) {
    Border b{x.dim() - 1 - static_cast<int64_t>(i), pad[2 * i], pad[2 * i + 1]};
    if (b.d < 0 || x.size(b.d) + std::min<int64_t>(b.before, 0) + std::min<int64_t>(b.after, 0) <= 0)
      decline("nothing is left to pad");
    found.push_back(b);
  }
  return found;
}

int64_t more(int64_t amount) { return std::max<int64_t>(amount, 0); }

// What `b` leaves of the operand itself.
Val cropped(Val x, const Border& b) {
  int64_t start = more(-b.before), end = x.size(b.d) - more(-b.after);
  return end - start == x.size(b.d) ? x : slice(x, b.d, start, end - start);
}

Val joined(std::vector<Val> parts, int64_t d) { return parts.size() == 1 ? parts[0] : cat(parts, d); }

Val reflected(Val x, const Border& b) {
  int64_t n = x.size(b.d);
  if (b.before >= n || b.after >= n) decline("a border as wide as the operand");
  std::vector<Val> parts;
  if (b.before > 0) parts.push_back(flip(slice(x, b.d, 1, b.before), b.d));
  parts.push_back(cropped(x, b));
  if (b.after > 0) parts.push_back(flip(slice(x, b.d, n - 1 - b.after, b.after), b.d));
  return joined(std::move(parts), b.d);
}

Val repeated(Val x, const Border& b) {
  auto copies = [&](int64_t at, int64_t n) {
    Dims sizes = x.sizes();
    sizes[static_cast<size_t>(b.d)] = n;
    return expand(slice(x, b.d, at, 1), sizes);
  };
  std::vector<Val> parts;
  if (b.before > 0) parts.push_back(copies(0, b.before));
  parts.push_back(cropped(x, b));
  if (b.after > 0) parts.push_back(copies(x.size(b.d) - 1, b.after));
  return joined(std::move(parts), b.d);
}

// The gradient for n elements: the middle of g, and what the borders' elements were copied from.
Val middle(Val g, int64_t n, const Border& b) {
  int64_t start = more(-b.before), length = n - start - more(-b.after);
  return pad(slice(g, b.d, more(b.before), length), b.d, start, n - start - length, 0);
}
Val first(Val g, const Border& b) { return slice(g, b.d, 0, b.before); }
Val last(Val g, const Border& b) { return slice(g, b.d, g.size(b.d) - b.after, b.after); }

Val reflected_backward(Val g, int64_t n, const Border& b) {
  Val sum = middle(g, n, b);
  if (b.before > 0) sum = sum + pad(flip(first(g, b), b.d), b.d, 1, n - 1 - b.before, 0);
  if (b.after > 0) sum = sum + pad(flip(last(g, b), b.d), b.d, n - 1 - b.after, 1, 0);
  return sum;
}

Val repeated_backward(Val g, int64_t n, const Border& b) {
  Val all = middle(g, n, b);
  if (b.before > 0) all = all + pad(sum(first(g, b), {b.d}, true), b.d, 0, n - 1, 0);
  if (b.after > 0) all = all + pad(sum(last(g, b), {b.d}, true), b.d, n - 1, 0, 0);
  return all;
}

template <Val one_dim(Val, const Border&)>
void forward(Op& op) {
  Val x = op.val("self");
  if (x.dtype() == Dtype::b8) decline("not defined for bool");
  for (const Border& b : borders(op, x)) x = one_dim(x, b);
  op.result(0, x);
}

// Which operand element each element of g is a copy of.
Val reflected_places(Builder& b, int64_t n, const Border& border) {
  Val i = b.arange(n + border.before + border.after) - border.before;
  return (n - 1) - abs((n - 1) - abs(i));
}
Val repeated_places(Builder& b, int64_t n, const Border& border) {
  return at_most(at_least(b.arange(n + border.before + border.after) - border.before, 0), n - 1);
}

struct Backward {
  Val (*one_dim)(Val, int64_t, const Border&);
  Val (*places)(Builder&, int64_t, const Border&);
};
constexpr Backward kReflected{reflected_backward, reflected_places}, kRepeated{repeated_backward, repeated_places};

template <const Backward& way>
void backward(Op& op) {
  Val x = op.val("self"), g = op.val("grad_output");
  if (!ir::is_float(x.dtype()) || g.dtype() != x.dtype()) decline("operands are not of one float dtype");
  std::vector<Border> all = borders(op, x);
  if (g.dtype() == Dtype::f32 || g.dtype() == Dtype::f64) {
    for (size_t i = all.size(); i-- > 0;) g = way.one_dim(g, x.size(all[i].d), all[i]);
    return op.result(0, g);
  }
  // Eager adds one element after the other, each sum rounded.
  std::vector<Val> indices(x.sizes().size());
  for (const Border& b : all) {
    Dims sizes(static_cast<size_t>(x.dim() - b.d), 1);
    sizes[0] = g.size(b.d);
    indices[static_cast<size_t>(b.d)] = reshape(way.places(op.b, x.size(b.d), b), sizes);
  }
  op.result(0, index_put(op.b.full(x.sizes(), 0, x.dtype()), indices, g, true));
}

constexpr Row kRows[] = {
    {"aten::reflection_pad1d", forward<reflected>},
    {"aten::reflection_pad2d", forward<reflected>},
    {"aten::reflection_pad3d", forward<reflected>},
    {"aten::replication_pad1d", forward<repeated>},
    {"aten::replication_pad2d", forward<repeated>},
    {"aten::replication_pad3d", forward<repeated>},
    {"aten::reflection_pad1d_backward", backward<kReflected>},
    {"aten::reflection_pad2d_backward", backward<kReflected>},
    {"aten::reflection_pad3d_backward", backward<kReflected>},
    {"aten::replication_pad1d_backward", backward<kRepeated>},
    {"aten::replication_pad2d_backward", backward<kRepeated>},
    {"aten::replication_pad3d_backward", backward<kRepeated>},
};

}  // namespace

std::span<const Row> padding_rules() { return kRows; }

}  // namespace precast::passes
