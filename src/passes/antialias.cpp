// Interpolation that smooths what it shrinks, and that of bytes: each output element is a sum over a few neighbours,
// whose weights depend on sizes alone, one axis after the other. Bytes are multiplied by whole numbers and shifted.
#include <algorithm>
#include <cmath>
#include <numbers>

#include "passes/resample.h"

namespace precast::passes {
namespace {

using ir::Dtype;

/// How much an element at a distance counts. `at` and `of` are the same function.
struct Filter {
  double reach;  // beyond, nothing counts
  double (*at)(double);
  Val (*of)(Val);
};

// ---- filters

double triangle(double x) { return std::max(1 - std::fabs(x), 0.0); }
Val triangle(Val x) {
  x = abs(x);
  return where(lt(x, 1.0), 1.0 - x, 0.0);
}

template <int hundredths>
double cubic(double x) {
  constexpr double a = hundredths / 100.0;
  x = std::fabs(x);
  if (x < 1) return ((a + 2) * x - (a + 3)) * x * x + 1;
  return x < 2 ? (((x - 5) * x + 8) * x - 4) * a : 0;
}
template <int hundredths>
Val cubic(Val x) {
  constexpr double a = hundredths / 100.0;
  x = abs(x);
  Val inner = ((a + 2) * x - (a + 3)) * x * x + 1.0, outer = (((x - 5.0) * x + 8.0) * x - 4.0) * a;
  return where(lt(x, 1.0), inner, where(lt(x, 2.0), outer, 0.0));
}

double sinc(double x) { return x == 0 ? 1 : std::sin(x * std::numbers::pi) / (x * std::numbers::pi); }
double lanczos(double x) { return -3 <= x && x < 3 ? sinc(x) * sinc(x / 3) : 0; }
Val sinc(Val x) {
  Val turn = x * std::numbers::pi;
  return where(eq(x, 0.0), 1.0, unary("sin", turn) / turn);
}
Val lanczos(Val x) { return where(logical_and(ge(x, -3.0), lt(x, 3.0)), sinc(x) * sinc(x / 3.0), 0.0); }

constexpr Filter kTriangle{1, triangle, triangle}, kCubic{2, cubic<-50>, cubic<-50>}, kLanczos{3, lanczos, lanczos},
    kSharpCubic{2, cubic<-75>, cubic<-75>};

// ---- windows: the elements that an output element is made of

struct Window {
  Val place, weight, valid;  // [out, taps]
  double largest;            // weight
};

// Of as many elements as the filter covers, stretched over what becomes one element; weights sum up to 1.
Window smooth(Builder& b, const Axis& a, const Filter& f) {
  const double stretch = std::max(a.scale, 1.0), reach = rounded(f.reach * stretch, a.arithmetic);
  const double inverse = rounded(a.scale >= 1 ? 1 / a.scale : 1, a.arithmetic);
  const auto most = static_cast<int64_t>(std::ceil(reach)) * 2 + 1;
  Val center = unsqueeze((b.arange(a.out, a.arithmetic) + 0.5) * a.scale, 1);
  const auto edge = [&](Val v) { return cast(v + 0.5, Dtype::i64); };
  Val first = at_least(edge(center - reach), 0);
  Val count = at_most(at_least(at_most(edge(center + reach), a.in) - first, 0), most);
  Val j = unsqueeze(b.arange(most), 0), place = first + j;
  Val weight = f.of((cast(place, a.arithmetic) - center + 0.5) * inverse);
  Val valid = binary("lt.Tensor", j, count);
  weight = where(valid, weight, 0.0);
  Val total = sum(weight, {1}, true);
  weight = where(eq(total, 0.0), weight, weight / total);
  double largest = 0;
  for (int64_t i = 0; i < a.out; ++i) {
    const double c = a.scale * (static_cast<double>(i) + 0.5);
    const auto low = std::max<int64_t>(static_cast<int64_t>(c - reach + 0.5), 0);
    const auto high = std::min<int64_t>(static_cast<int64_t>(c + reach + 0.5), a.in);
    double all = 0, top = 0;
    for (int64_t k = low; k < std::min(high, low + most); ++k) {
      const double w = f.at((static_cast<double>(k) - c + 0.5) * inverse);
      all += w, top = std::max(top, w);
    }
    largest = std::max(largest, all != 0 ? top / all : top);
  }
  return {at_most(place, a.in - 1), weight, valid, largest};
}

// Of two or four elements; what lies outside counts for the border's.
Window sharp(Builder& b, const Axis& a, bool is_cubic) {
  const Filter& f = is_cubic ? kSharpCubic : kTriangle;
  const auto side = static_cast<int64_t>(f.reach);
  Val real = real_places(b, a);
  if (!is_cubic && !a.align_corners) real = at_least(real, 0.0);
  Val low = at_most(cast(unary("floor", real), Dtype::i64), a.in - 1);
  Val after = at_most(at_least(real - cast(low, a.arithmetic), 0.0), 1.0);
  Val begin = low + (1 - side), first = at_least(begin, 0);
  std::vector<Val> places, weights;
  for (int64_t k = 0; k < 2 * side; ++k) {
    Val mine;
    for (int64_t j = 0; j < 2 * side; ++j) {
      Val w = f.of(static_cast<double>(j + 1 - side) - after), at = at_most(at_least(begin + j, 0), a.in - 1);
      w = where(binary("eq.Tensor", at, first + k), w, 0.0);
      mine = mine ? mine + w : w;
    }
    places.push_back(unsqueeze(at_most(first + k, a.in - 1), 1)), weights.push_back(unsqueeze(mine, 1));
  }
  double largest = 0;
  for (int64_t i = 0; i < a.out; ++i) {
    double r = a.align_corners ? static_cast<double>(i) * a.scale : (static_cast<double>(i) + 0.5) * a.scale - 0.5;
    if (!is_cubic && !a.align_corners) r = std::max(r, 0.0);
    const int64_t base = std::min(static_cast<int64_t>(std::floor(r)), a.in - 1);
    const double rest = std::clamp(r - static_cast<double>(base), 0.0, 1.0);
    std::vector<double> at(static_cast<size_t>(a.in), 0.0);
    for (int64_t j = 0; j < 2 * side; ++j) {
      double& w = at[static_cast<size_t>(std::clamp<int64_t>(base + 1 - side + j, 0, a.in - 1))];
      w += f.at(static_cast<double>(j + 1 - side) - rest);
      largest = std::max(largest, w);
    }
  }
  return {cat(places, 1), cat(weights, 1), {}, largest};
}

// x with the window's elements side by side: the axis, then the taps.
Val under(Val x, const Axis& a, Val place) {
  Dims sizes = x.sizes();
  sizes[static_cast<size_t>(a.d)] = place.size(0);
  sizes.insert(sizes.begin() + a.d + 1, place.size(1));
  return reshape(index_select(x, a.d, reshape(place, {place.numel()})), sizes);
}
Val for_taps(Val w, const Axis& a, Val x) {  // [out, taps] among the dims of what lies under
  Dims sizes(x.sizes().size() + 1, 1);
  sizes[static_cast<size_t>(a.d)] = w.size(0), sizes[static_cast<size_t>(a.d) + 1] = w.size(1);
  return reshape(w, sizes);
}

// As many bits as the largest weight leaves in 16.
Val bytes_along(Val x, const Axis& a, const Window& w) {
  int64_t bits = 0;
  while (bits < 22 && static_cast<int64_t>(0.5 + w.largest * static_cast<double>(int64_t{1} << (bits + 1))) < (1 << 15))
    ++bits;
  Val scaled = w.weight * static_cast<double>(int64_t{1} << bits);
  Val whole = cast(where(lt(scaled, 0.0), scaled - 0.5, scaled + 0.5), Dtype::i32);  // half away from 0
  Val total = sum(cast(under(x, a, w.place), Dtype::i32) * for_taps(whole, a, x), {a.d + 1}, false);
  total = binary_number("bitwise_right_shift.Tensor_Scalar", total + (int64_t{1} << (bits - 1)), bits);
  return cast(at_most(at_least(total, 0), 255), Dtype::u8);
}

// An axis that keeps its size is left alone, whatever its scale.
bool is_kept(const Axis& a) { return a.in == a.out; }

template <const Filter& f>
void resample(Op& op) {
  Val x = op.val("self");
  const bool bytes = x.dtype() == Dtype::u8;
  if (!bytes && x.dtype() != Dtype::f32 && x.dtype() != Dtype::f64) decline("not of f32, f64 or u8");
  for (const Axis& a : axes(op, bytes ? Dtype::f64 : x.dtype(), x.sizes())) {
    if (is_kept(a)) continue;
    const Window w = smooth(op.b, a, f);
    if (bytes) {
      x = bytes_along(x, a, w);
      continue;
    }
    Val terms = under(x, a, w.place) * for_taps(w.weight, a, x);
    x = sum(where(for_taps(w.valid, a, x), terms, 0.0), {a.d + 1}, false);
  }
  op.result(0, x);
}

template <const Filter& f>
void resample_backward(Op& op) {
  Val g = op.val("grad_output");
  if (g.dtype() != Dtype::f32 && g.dtype() != Dtype::f64) decline("not of f32 or f64");
  std::vector<Axis> all = axes(op, g.dtype(), op.ints("input_size"));
  for (size_t i = all.size(); i-- > 0;) {
    const Axis& a = all[i];
    const Window w = smooth(op.b, a, f);
    Dims sizes = g.sizes(), taps = sizes;
    sizes[static_cast<size_t>(a.d)] = a.in;
    taps[static_cast<size_t>(a.d)] = w.place.numel();
    Val terms = where(for_taps(w.valid, a, g), unsqueeze(g, a.d + 1) * for_taps(w.weight, a, g), 0.0);
    Val parts = reshape(terms, taps);
    g = index_add(op.b.full(sizes, 0, g.dtype()), a.d, reshape(w.place, {w.place.numel()}), parts);
  }
  op.result(0, g);
}

constexpr Row kRows[] = {
    {"aten::_upsample_bilinear2d_aa", resample<kTriangle>},
    {"aten::_upsample_bicubic2d_aa", resample<kCubic>},
    {"aten::_upsample_lanczos2d_aa", resample<kLanczos>},
    {"aten::_upsample_bilinear2d_aa_backward", resample_backward<kTriangle>},
    {"aten::_upsample_bicubic2d_aa_backward", resample_backward<kCubic>},
    {"aten::_upsample_lanczos2d_aa_backward", resample_backward<kLanczos>},
};

}  // namespace

void resample_bytes(Op& op, bool cubic) {
  Val x = op.val("self");
  for (const Axis& a : axes(op, Dtype::f64, x.sizes()))
    if (!is_kept(a)) x = bytes_along(x, a, sharp(op.b, a, cubic));
  op.result(0, x);
}

std::span<const Row> antialias_rules() { return kRows; }

}  // namespace precast::passes
