// Sampling at the places of a grid, and its gradients. Places and weights are computed by eager's arithmetic, which is
// not the same in the plane (vectors, NaN becomes 0) and in space (one by one, NaN lies outside).
#include <cmath>

#include "passes/rules.h"

namespace precast::passes {
namespace {

using ir::Dtype;

enum Mode { kBilinear = 0, kNearest = 1, kBicubic = 2 };
enum Padding { kZeros = 0, kBorder = 1, kReflection = 2 };

struct Sampler {
  Val x, grid;  // [N, C, sizes...], [N, places..., axes]
  int64_t mode, padding;
  bool aligned, in_space;
  int64_t rank, n, channels, places;
};
Sampler sampler(Op& op, int64_t rank) {
  Sampler s{op.val("input"),
            op.val("grid"),
            op.integer("interpolation_mode"),
            op.integer("padding_mode"),
            op.flag("align_corners"),
            rank == 3,
            rank,
            0,
            0,
            0};
  if (!ir::is_float(s.x.dtype()) || s.grid.dtype() != s.x.dtype()) decline("operands are not floats of one dtype");
  if (compute_dtype(s.x.dtype()) != s.x.dtype()) {
    if (s.in_space || op.find("output_mask"))
      decline("half types are rounded step by step, in an order of eager's own");
    if (s.x.numel() >= 1 << 15) decline("places of half types in more than 16 bits");
  }
  if (s.x.dim() != rank + 2 || s.x.numel() == 0 || s.grid.numel() == 0) decline("nothing to sample");
  if (s.mode == kBicubic && s.in_space) decline("eager has no bicubic sampling in space");
  s.n = s.x.size(0), s.channels = s.x.size(1);
  s.places = s.grid.numel() / s.n / rank;
  return s;
}
int64_t size_of(const Sampler& s, int64_t axis) { return s.x.size(s.rank + 1 - axis); }  // axis 0 is the last dim

// ---- from the grid's numbers to places

struct Place {
  Val at;     // [N, 1, places], in elements
  Val slope;  // its derivative
};

double scale_of(const Sampler& s, int64_t size) { return static_cast<double>(s.aligned ? size - 1 : size) / 2; }

Val unnormalized(const Sampler& s, Val g, int64_t size) {
  auto n = static_cast<double>(size);
  if (!s.in_space) return s.aligned ? (g + 1.0) * ((n - 1) / 2) : (g + 1.0) * (n / 2) - 0.5;
  return s.aligned ? (g + 1.0) / 2.0 * (n - 1) : ((g + 1.0) * n - 1.0) / 2.0;
}

// min(max(v, 0), last); where NaN goes depends.
Val clipped(const Sampler& s, Val v, int64_t size, bool for_gradient) {
  auto last = static_cast<double>(size - 1);
  if (!s.in_space) return at_most(where(gt(v, 0.0), v, 0.0), last);
  v = at_least(v, 0.0);
  return for_gradient ? at_most(v, last) : where(lt(v, last), v, last);
}

// The place mirrored at the borders, times the sign that its derivative has.
Place reflected(const Sampler& s, Val v, int64_t size) {
  auto span = static_cast<double>(s.aligned ? size - 1 : size);
  double low = s.aligned ? 0 : -0.5;
  if (span == 0) return {v.b->full(v.sizes(), 0, v.dtype()), v.b->full(v.sizes(), 0, v.dtype())};
  Val from_low = low == 0 ? v : v - low, size_from = abs(from_low);
  Val sign = where(lt(from_low, 0.0), -1.0, v.b->full(v.sizes(), 1.0, v.dtype()));
  Val once, turned;
  if (s.in_space) {
    Val extra = binary_number("fmod.Scalar", size_from, span);
    Val flips = cast(unary("floor", size_from / span), Dtype::i32);
    turned = ne(binary_number("bitwise_and.Scalar", flips, 1), 0);
    once = where(turned, span - extra, extra);
  } else {
    Val extra = size_from - unary("trunc", size_from / (2 * span)) * (2 * span), other = 2 * span - extra;
    turned = binary("gt.Tensor", extra, other);
    once = where(isnan(extra), extra, where(turned, other, extra));
  }
  return {low == 0 ? once : once + low, where(turned, neg(sign), sign)};
}

// As eager turns places that no integer holds into one outside.
Val downgraded(const Sampler& s, Val v) {
  if (!s.in_space) return v;
  Val far = logical_or(gt(v, 2147483646.0), lt(v, -2147483648.0));
  return where(logical_or(far, isnan(v)), -100.0, v);
}

Val padded(const Sampler& s, Val v, int64_t size, bool for_gradient = false) {
  if (s.padding == kReflection) v = reflected(s, v, size).at;
  if (s.padding != kZeros) v = clipped(s, v, size, for_gradient);
  return downgraded(s, v);
}

Val numbers(const Sampler& s, int64_t axis) {
  return reshape(select(s.grid, s.grid.dim() - 1, axis), {s.n, 1, s.places});
}
Place place(const Sampler& s, int64_t axis) {
  int64_t size = size_of(s, axis);
  auto last = static_cast<double>(size - 1);
  Val v = unnormalized(s, numbers(s, axis), size);
  Val slope = v.b->full({}, scale_of(s, size), v.dtype());
  if (s.padding == kZeros) return {downgraded(s, v), slope};
  if (s.padding == kReflection) {
    Place r = reflected(s, v, size);
    v = r.at, slope = r.slope * slope;
  }
  Val inside = logical_not(logical_or(le(v, 0.0), ge(v, last)));
  Val held = s.in_space ? slope * cast(inside, v.dtype()) : where(inside, slope, 0.0);
  return {downgraded(s, clipped(s, v, size, true)), held};
}

// ---- taps: elements beside a place, with weights

// Eager's vectors have the places of half types in 16 bits; those that no 32 bits hold become 0.
Val whole(Val v) {
  if (compute_dtype(v.dtype()) == v.dtype()) return cast(v, Dtype::i64);
  Val wide = cast(v, Dtype::f32), near = where(lt(abs(wide), 0x1p31), wide, 0.0);
  return cast(cast(cast(near, Dtype::i64), Dtype::i16), Dtype::i64);
}

struct Tap {
  Val index, weight, slope;  // index i64; slope: the weight's derivative by the place
};
std::vector<Tap> taps(const Sampler& s, Val at, Val raw, int64_t axis) {
  int64_t size = size_of(s, axis);
  Val one = at.b->full({}, 1.0, at.dtype());
  if (s.mode == kNearest) return {{whole(unary("round", at)), one, {}}};
  if (s.mode == kBilinear) {
    Val low = unary("floor", at), after = at - low, before = s.in_space ? (low + 1.0) - at : 1.0 - after;
    Val index = whole(low);
    return {{index, before, neg(one)}, {index + 1, after, one}};
  }
  constexpr double kA = -0.75;
  auto inner = [](Val t) { return ((kA + 2) * t - (kA + 3)) * t * t + 1.0; };
  auto outer = [](Val t) { return ((kA * t - 5 * kA) * t + 8 * kA) * t - 4 * kA; };
  Val low = unary("floor", raw), t = raw - low, rest = 1.0 - t;
  Val weights[] = {outer(t + 1.0), inner(t), inner(rest), outer(rest + 1.0)};
  Val x0 = -1.0 - t, x1 = neg(t), x2 = 1.0 - t, x3 = 2.0 - t;
  Val slopes[] = {(-3 * kA * x0 - 10 * kA) * x0 - 8 * kA, (-3 * (kA + 2) * x1 - 2 * (kA + 3)) * x1,
                  (3 * (kA + 2) * x2 - 2 * (kA + 3)) * x2, (3 * kA * x3 - 10 * kA) * x3 + 8 * kA};
  std::vector<Tap> found;
  for (int k = 0; k < 4; ++k) found.push_back({whole(padded(s, low + (k - 1.0), size)), weights[k], neg(slopes[k])});
  return found;
}

// All combinations of one tap an axis, the last dim's fastest.
struct Corner {
  Val index, inside;  // in the flattened sizes; whether there is such an element
  std::vector<Tap> by_axis;
};
std::vector<Corner> corners(const Sampler& s, const std::vector<std::vector<Tap>>& all) {
  std::vector<Corner> made{{}};
  for (int64_t axis = s.rank; axis-- > 0;) {
    int64_t size = size_of(s, axis);
    std::vector<Corner> next;
    for (const Corner& c : made)
      for (const Tap& t : all[static_cast<size_t>(axis)]) {
        Val inside = logical_and(ge(t.index, 0), lt(t.index, size)), index = at_most(at_least(t.index, 0), size - 1);
        Corner n{c.index ? c.index * size + index : index, c.inside ? logical_and(c.inside, inside) : inside,
                 c.by_axis};
        n.by_axis.insert(n.by_axis.begin(), t);
        next.push_back(n);
      }
    made = next;
  }
  return made;
}
Val weight(const Corner& c) {
  Val w;
  for (const Tap& t : c.by_axis) w = w ? w * t.weight : t.weight;
  return w;
}
Val everywhere(const Sampler& s, Val index) { return expand(index, {s.n, s.channels, s.places}); }
Val flat(const Sampler& s) { return reshape(s.x, {s.n, s.channels, s.x.numel() / s.n / s.channels}); }
Val value(const Sampler& s, const Corner& c) {
  return where(c.inside, gather(flat(s), 2, everywhere(s, c.index)), 0.0);
}

std::vector<Val> raw_places(const Sampler& s) {
  std::vector<Val> raw;
  for (int64_t a = 0; a < s.rank; ++a) raw.push_back(unnormalized(s, numbers(s, a), size_of(s, a)));
  return raw;
}

template <int rank>
void sample(Op& op) {
  Sampler s = sampler(op, rank);
  std::vector<Val> raw = raw_places(s);
  std::vector<std::vector<Tap>> all;
  for (int64_t a = 0; a < rank; ++a) {
    Val r = raw[static_cast<size_t>(a)];
    all.push_back(taps(s, s.mode == kBicubic ? r : padded(s, r, size_of(s, a)), r, a));
  }
  Val total, row;
  size_t i = 0;
  for (const Corner& c : corners(s, all)) {
    Val v = value(s, c);
    if (s.mode == kNearest) {
      total = v;
    } else if (s.mode == kBilinear) {
      total = total ? total + v * weight(c) : v * weight(c);
    } else {  // row by row
      row = row ? row + v * c.by_axis[0].weight : v * c.by_axis[0].weight;
      if (++i % 4) continue;
      total = total ? total + row * c.by_axis[1].weight : row * c.by_axis[1].weight;
      row = {};
    }
  }
  Dims sizes{s.n, s.channels};
  for (int64_t d = 1; d <= rank; ++d) sizes.push_back(s.grid.size(d));
  op.result(0, reshape(total, sizes));
}

template <int rank>
void sample_backward(Op& op) {
  Sampler s = sampler(op, rank);
  Val g = reshape(op.val("grad_output"), {s.n, s.channels, s.places});
  std::vector<Val> raw = raw_places(s), slopes;
  std::vector<std::vector<Tap>> all;
  for (int64_t a = 0; a < rank; ++a) {
    Place p = place(s, a);
    slopes.push_back(s.mode == kBicubic ? p.at.b->full({}, scale_of(s, size_of(s, a)), g.dtype()) : p.slope);
    all.push_back(taps(s, p.at, raw[static_cast<size_t>(a)], a));
  }
  std::vector<Corner> found = corners(s, all);
  if (op.wants(0)) {
    Val gx = op.b.full(flat(s).sizes(), 0, g.dtype());
    for (const Corner& c : found)
      gx = scatter_add(gx, 2, everywhere(s, c.index), where(c.inside, s.mode == kNearest ? g : g * weight(c), 0.0));
    op.result(0, reshape(gx, s.x.sizes()));
  }
  if (!op.wants(1)) return;
  if (s.mode == kNearest) return op.result(1, op.b.full(s.grid.sizes(), 0, g.dtype()));
  std::vector<Val> by_axis;
  for (size_t a = 0; a < rank; ++a) {
    Val total;
    for (const Corner& c : found) {
      Val v = value(s, c);
      for (size_t k = 0; k < rank; ++k) v = v * (k == a ? c.by_axis[k].slope : c.by_axis[k].weight);
      total = total ? total + v : v;
    }
    by_axis.push_back(unsqueeze(sum(total * g, {1}, true) * slopes[a], 3));
  }
  op.result(1, reshape(cat(by_axis, 3), s.grid.sizes()));
}

constexpr Row kRows[] = {
    {"aten::grid_sampler_2d", sample<2>},
    {"aten::grid_sampler_3d", sample<3>},
    {"aten::grid_sampler_2d_backward", sample_backward<2>},
    {"aten::grid_sampler_3d_backward", sample_backward<3>},
};

}  // namespace

std::span<const Row> grid_rules() { return kRows; }

}  // namespace precast::passes
