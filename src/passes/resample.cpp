// Interpolation, one axis after the other: an output element is a weighted sum of operand elements whose places and
// weights are computed by the same arithmetic as eager's.
#include "passes/resample.h"

#include <cmath>

namespace precast::passes {

using ir::Dtype;

namespace {

double rounded_ratio(double a, double b, Dtype d) {
  return d == Dtype::f64 ? a / b : static_cast<double>(static_cast<float>(a) / static_cast<float>(b));
}

Dtype arithmetic_of(Val x) { return x.dtype() == Dtype::f64 ? Dtype::f64 : Dtype::f32; }

}  // namespace

std::vector<Axis> axes(Op& op, Dtype arithmetic, const Dims& in) {
  Dims out = op.ints("output_size");
  size_t n = out.size();
  if (in.size() != n + 2) decline("sizes of another rank");
  std::vector<Axis> found;
  for (size_t i = n; i-- > 0;) {
    constexpr const char* kNames[] = {"scales_w", "scales_h", "scales_d"};
    const char* name = n == 1 ? "scales" : kNames[n - 1 - i];
    Axis a{static_cast<int64_t>(i) + 2, in[i + 2], out[i], 0, false, arithmetic, arithmetic};
    a.align_corners = op.given("align_corners") && op.flag("align_corners");
    auto wide = [](int64_t v) { return static_cast<double>(v); };
    if (a.align_corners)
      a.scale = a.out > 1 ? rounded_ratio(wide(a.in - 1), wide(a.out - 1), a.arithmetic) : 0;
    else if (double s = op.given(name) ? op.real(name) : 0; s > 0)
      a.scale = rounded(1 / s, a.arithmetic);
    else
      a.scale = rounded_ratio(wide(a.in), wide(a.out), a.arithmetic);
    found.push_back(a);
  }
  return found;
}

Val along(Val v, const Axis& a, Val x) {
  Dims sizes(x.sizes().size(), 1);
  sizes[static_cast<size_t>(a.d)] = v.numel();
  return reshape(v, sizes);
}

Val real_places(Builder& b, const Axis& a) {
  Val i = b.arange(a.out, a.arithmetic);
  return a.align_corners ? i * a.scale : (i + 0.5) * a.scale - 0.5;
}

namespace {

Val zeros(Val g, const Axis& a) {
  Dims sizes = g.sizes();
  sizes[static_cast<size_t>(a.d)] = a.in;
  return g.b->full(sizes, 0, g.dtype());
}

// ---- nearest: each output element is a copy

bool exact(Op& op) { return op.name().find("exact") != std::string::npos; }

// How many output elements each operand element gives, if all give as many side by side; else 0.
int64_t copies(const Axis& a, bool exact) {
  if (a.out == a.in && !exact) return 1;
  if (a.out % a.in) return 0;
  int64_t k = a.out / a.in;
  for (int64_t i = 0; i < a.out; ++i) {
    float place = (static_cast<float>(i) + (exact ? 0.5F : 0.0F)) * static_cast<float>(a.scale);
    if (std::min(static_cast<int64_t>(std::floor(place)), a.in - 1) != i / k) return 0;
  }
  return k;
}
Val nearest_places(Builder& b, const Axis& a, bool exact) {
  Val i = b.arange(a.out, Dtype::f32);
  if (exact) i = i + 0.5;
  return at_most(cast(unary("floor", i * a.scale), Dtype::i64), a.in - 1);
}

void nearest(Op& op) {
  Val x = op.val("self");
  bool is_exact = exact(op);
  for (Axis a : axes(op, arithmetic_of(x), x.sizes())) {
    a.scale = rounded(a.scale, Dtype::f32);
    if (int64_t k = copies(a, is_exact)) {
      if (k == 1) continue;
      Dims sizes = x.sizes();
      sizes[static_cast<size_t>(a.d)] = a.out;
      Val each = unsqueeze(x, a.d + 1);
      Dims wide = each.sizes();
      wide[static_cast<size_t>(a.d) + 1] = k;
      x = reshape(expand(each, wide), sizes);
    } else {
      x = index_select(x, a.d, nearest_places(op.b, a, is_exact));
    }
  }
  op.result(0, x);
}

void nearest_backward(Op& op) {
  Val g = op.val("grad_output");
  Dtype d = g.dtype();
  if (!ir::is_float(d)) decline("not defined for integers");
  bool is_exact = exact(op);
  std::vector<Axis> all = axes(op, arithmetic_of(g), op.ints("input_size"));
  g = cast(g, compute_dtype(d));
  for (size_t i = all.size(); i-- > 0;) {
    Axis a = all[i];
    a.scale = rounded(a.scale, Dtype::f32);
    if (int64_t k = copies(a, is_exact)) {
      if (k == 1) continue;
      Dims tiles = g.sizes();
      tiles[static_cast<size_t>(a.d)] = a.in;
      tiles.insert(tiles.begin() + a.d + 1, k);
      g = sum(reshape(g, tiles), {a.d + 1}, false);
    } else {
      g = index_add(zeros(g, a), a.d, nearest_places(op.b, a, is_exact), g);
    }
  }
  op.result(0, cast(g, d));
}

// ---- linear and cubic

struct Tap {
  Val place, weight;  // vectors over the output
};
using Taps = std::vector<Tap> (*)(Builder&, const Axis&);

Val rounded_weight(Val w, const Axis& a) { return cast(cast(w, a.weights), a.arithmetic); }

std::vector<Tap> linear_taps(Builder& b, const Axis& a) {
  Val real = at_least(real_places(b, a), 0.0);
  Val low = at_most(unary("floor", real), a.in - 1), place = cast(low, Dtype::i64);
  Val after = rounded_weight(at_most(at_least(real - low, 0.0), 1.0), a);
  return {{place, rounded_weight(1.0 - after, a)}, {at_most(place + 1, a.in - 1), after}};
}

std::vector<Tap> cubic_taps(Builder& b, const Axis& a) {
  constexpr double kA = -0.75;
  auto inner = [](Val t) { return ((kA + 2) * t - (kA + 3)) * t * t + 1.0; };
  auto outer = [](Val t) { return ((kA * t - 5 * kA) * t + 8 * kA) * t - 4 * kA; };
  Val real = real_places(b, a), low = unary("floor", real), place = cast(low, Dtype::i64);
  Val t = real - low, rest = 1.0 - t;
  Val weights[] = {outer(t + 1.0), inner(t), inner(rest), outer(rest + 1.0)};
  std::vector<Tap> taps;
  for (int k = 0; k < 4; ++k)
    taps.push_back({at_most(at_least(place + (k - 1), 0), a.in - 1), rounded_weight(weights[k], a)});
  return taps;
}

// Eager keeps weights in the operand's dtype, but for bilinear where it computes channel by channel.
bool rounds_weights(Op& op, Val x) {
  if (compute_dtype(x.dtype()) == x.dtype()) return false;
  if (op.name() != "aten::upsample_bilinear2d") return true;
  Dims out = op.ints("output_size");
  bool channels_last = x.type().strides[1] == 1 && x.size(1) > 3;
  return !channels_last && out[0] + out[1] > 128;
}

template <Taps taps>
void weighted(Op& op) {
  Val x = op.val("self");
  Dtype d = x.dtype();
  if (d == Dtype::u8) return resample_bytes(op, taps == cubic_taps);
  if (!ir::is_float(d)) decline("not defined for integers");
  std::vector<Axis> all = axes(op, arithmetic_of(x), x.sizes());
  bool rounds = rounds_weights(op, x);
  x = cast(x, compute_dtype(d));
  for (Axis& a : all) {
    if (rounds) a.weights = d;
    if (taps == linear_taps && a.in == a.out) {
      x = x + x * 0.0;  // its own place twice
      continue;
    }
    Val total;
    for (const Tap& t : taps(op.b, a)) {
      Val term = index_select(x, a.d, t.place) * along(t.weight, a, x);
      total = total ? total + term : term;
    }
    x = total;
  }
  op.result(0, cast(x, d));
}

template <Taps taps>
void weighted_backward(Op& op) {
  Val g = op.val("grad_output");
  Dtype d = g.dtype();
  if (!ir::is_float(d)) decline("not defined for integers");
  std::vector<Axis> all = axes(op, arithmetic_of(g), op.ints("input_size"));
  g = cast(g, compute_dtype(d));
  for (size_t i = all.size(); i-- > 0;) {
    if (taps == linear_taps && all[i].in == all[i].out) {
      g = g + g * 0.0;
      continue;
    }
    Val total = zeros(g, all[i]);
    for (const Tap& t : taps(op.b, all[i])) total = index_add(total, all[i].d, t.place, g * along(t.weight, all[i], g));
    g = total;
  }
  op.result(0, cast(g, d));
}

constexpr Row kRows[] = {
    {"aten::upsample_nearest1d", nearest},
    {"aten::upsample_nearest2d", nearest},
    {"aten::upsample_nearest3d", nearest},
    {"aten::_upsample_nearest_exact1d", nearest},
    {"aten::_upsample_nearest_exact2d", nearest},
    {"aten::_upsample_nearest_exact3d", nearest},
    {"aten::upsample_nearest1d_backward", nearest_backward},
    {"aten::upsample_nearest2d_backward", nearest_backward},
    {"aten::upsample_nearest3d_backward", nearest_backward},
    {"aten::_upsample_nearest_exact1d_backward", nearest_backward},
    {"aten::_upsample_nearest_exact2d_backward", nearest_backward},
    {"aten::_upsample_nearest_exact3d_backward", nearest_backward},
    {"aten::upsample_linear1d", weighted<linear_taps>},
    {"aten::upsample_bilinear2d", weighted<linear_taps>},
    {"aten::upsample_trilinear3d", weighted<linear_taps>},
    {"aten::upsample_bicubic2d", weighted<cubic_taps>},
    {"aten::upsample_linear1d_backward", weighted_backward<linear_taps>},
    {"aten::upsample_bilinear2d_backward", weighted_backward<linear_taps>},
    {"aten::upsample_trilinear3d_backward", weighted_backward<linear_taps>},
    {"aten::upsample_bicubic2d_backward", weighted_backward<cubic_taps>},
};

}  // namespace

std::span<const Row> resample_rules() { return kRows; }

}  // namespace precast::passes
