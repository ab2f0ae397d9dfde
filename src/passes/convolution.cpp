// Convolution and its gradients as contractions over windows of channels-last tensors: the input gets its border once,
// a view with overlapping strides shows the window of each result, and einsum sums over it. The gradient of the input
// is a convolution of the gradient with the kernel turned around; a stride splits it into phases, each with the taps
// that reach it. A transposed convolution is that gradient.
#include <algorithm>
#include <numeric>

#include "passes/rules.h"
#include "passes/windows.h"

namespace precast::passes {
namespace {

using ir::Dtype;

/// What a convolution is besides its operands; lists are of the spatial dims.
struct Geometry {
  Dims stride, padding, dilation;
  int64_t groups = 1;
  size_t rank() const { return stride.size(); }
};

Dims spatial(Val x) { return Dims(x.sizes().begin() + 2, x.sizes().end()); }
Val computed(Val v) { return cast(v, ir::is_float(v.dtype()) ? compute_dtype(v.dtype()) : Dtype::i64); }

// Letters of the equations: n images, g groups, o and c channels of result and input, places "dhw", taps "ijk".
std::string places(size_t rank) { return std::string("dhw").substr(3 - rank); }
std::string taps(size_t rank) { return std::string("ijk").substr(3 - rank); }

/// [N, S..., C] as [N, S..., groups, C / groups]: the last dim split.
Val grouped(Val x, int64_t groups) {
  Dims sizes = x.sizes();
  const int64_t channels = sizes.back();
  sizes.back() = groups;
  sizes.push_back(channels / groups);
  return reshape(x, sizes);
}
Val joined(Val x) {
  Dims sizes = x.sizes();
  const int64_t channels = sizes.back();
  sizes.pop_back();
  sizes.back() *= channels;
  return reshape(x, sizes);
}
/// A window view [..., C] as [..., groups, C / groups]; its strides overlap, so that reshape would not see it.
Val grouped_view(Val x, int64_t groups) {
  ir::Type t = x.type();
  const int64_t channels = t.sizes.back() / groups;
  t.sizes.back() = groups;
  t.sizes.push_back(channels);
  t.strides.back() = channels;
  t.strides.push_back(1);
  return x.b->view(x, std::move(t));
}

/// One filter a channel (or a few): a sum over the window, side by side over channels.
bool depthwise(Val weight, const Geometry& s) { return s.groups > 1 && weight.size(1) == 1; }

/// A weight [O, C, K...] as [K..., O...] in memory, for depthwise use: [K..., groups, O / groups].
Val taps_first(Val weight, int64_t groups) {
  Dims order = all_dims(weight);
  order.erase(order.begin(), order.begin() + 2);
  order.insert(order.end(), {0, 1});
  Val w = permute(weight, order);
  Dims sizes(w.sizes().begin(), w.sizes().end() - 2);
  sizes.insert(sizes.end(), {groups, weight.size(0) / groups});
  ir::Type t = w.type();
  const int64_t stride = t.strides[t.strides.size() - 2];
  t.sizes = sizes;
  t.strides.resize(sizes.size());
  t.strides[sizes.size() - 2] = stride * sizes.back(), t.strides.back() = stride;
  return in_order(w.b->view(w, std::move(t)));
}

/// Windows of the input [N, S..., C] under each place of a result of `count` places.
Val input_windows(Val x, const Dims& count, const Dims& size, const Geometry& s) {
  Windows w{{}, count, s.stride, size, s.dilation};
  for (const int64_t p : s.padding) w.start.push_back(-p);
  const Dims sizes(x.sizes().begin() + 1, x.sizes().end() - 1);
  const Border b = border(sizes, w);
  // What is never reached stays outside: the high border may be smaller than the padding.
  x = bordered(x, s.padding, b.high, 0);
  std::ranges::fill(w.start, 0);
  return windows(x, w);
}

/// x [N, S..., C] with weight [O, C / groups, K...]: [N, S..., O].
Val forward_convolution(Val x, Val weight, const Dims& count, const Geometry& s) {
  const size_t rank = s.rank();
  Val under = input_windows(x, count, spatial(weight), s);
  const std::string in_places = "n" + places(rank), in_taps = taps(rank);
  if (depthwise(weight, s)) {
    Val w = taps_first(weight, s.groups);
    Dims summed(rank);
    std::iota(summed.begin(), summed.end(), static_cast<int64_t>(rank) + 1);
    if (w.sizes().back() == 1) return sum(under * squeeze(w, w.dim() - 1), summed, false);
    return joined(sum(unsqueeze(under, under.dim()) * w, summed, false));
  }
  if (s.groups == 1) return einsum(in_places + in_taps + "c,oc" + in_taps + "->" + in_places + "o", under, weight);
  Dims sizes = weight.sizes();
  sizes[0] = sizes[0] / s.groups;
  sizes.insert(sizes.begin(), s.groups);
  return joined(einsum(in_places + in_taps + "gc,goc" + in_taps + "->" + in_places + "go",
                       grouped_view(under, s.groups), reshape(weight, sizes)));
}

/// One dim of the gradient of the input: places h with (h + padding) % stride == phase get their part from taps
/// first, first + step, ..., and the windows of those places lie in the gradient one behind the other.
struct Phase {
  int64_t places, first_place, taps, first_tap, tap_step, start, dilation;
};
Phase phase_of(int64_t phase, int64_t size, int64_t kernel, int64_t stride, int64_t padding, int64_t dilation) {
  const auto ceil_div = [](int64_t a, int64_t b) { return a >= 0 ? (a + b - 1) / b : -(-a / b); };
  Phase p{};
  const int64_t first = ceil_div(padding - phase, stride);  // h = stride * a + phase - padding
  p.first_place = stride * first + phase - padding;
  p.places = p.first_place < size ? (size - 1 - p.first_place) / stride + 1 : 0;
  p.tap_step = stride / std::gcd(stride, dilation), p.dilation = dilation / std::gcd(stride, dilation);
  p.first_tap = kernel;
  for (int64_t k = std::min(kernel, p.tap_step); k-- > 0;)
    if ((dilation * k - phase) % stride == 0) p.first_tap = k;
  if (p.first_tap < kernel) p.taps = (kernel - 1 - p.first_tap) / p.tap_step + 1;
  // Tap k of place a is at a - (dilation * k - phase) / stride; the last tap comes first.
  const int64_t last_tap = p.first_tap + (p.taps - 1) * p.tap_step;
  p.start = first - (dilation * last_tap - phase) / stride;
  return p;
}

/// The sum over windows of the gradient and the taps of one phase: [N, places..., C].
Val phase_gradient(Val g, Val weight, const std::vector<Phase>& phases, const Border& b, const Geometry& s) {
  const size_t rank = s.rank();
  Windows w;
  Dims flipped;
  for (size_t d = 0; d < rank; ++d) {
    const Phase& p = phases[d];
    w.start.push_back(p.start + b.low[d]), w.count.push_back(p.places), w.stride.push_back(1);
    w.size.push_back(p.taps), w.dilation.push_back(p.dilation);
    const auto dim = static_cast<int64_t>(d) + 2;
    weight = slice(weight, dim, p.first_tap, p.taps, p.tap_step);
    if (p.taps > 1) flipped.push_back(dim);
  }
  weight = flip(weight, flipped);
  Val under = windows(g, w);
  const std::string in_places = "n" + places(rank), in_taps = taps(rank);
  if (depthwise(weight, s)) {
    Val taps_last = taps_first(weight, s.groups), by_group = grouped_view(under, s.groups);
    Dims summed(rank);
    std::iota(summed.begin(), summed.end(), static_cast<int64_t>(rank) + 1);
    if (taps_last.sizes().back() == 1) return sum(under * squeeze(taps_last, taps_last.dim() - 1), summed, false);
    summed.push_back(by_group.dim() - 1);
    return sum(by_group * taps_last, summed, false);
  }
  if (s.groups == 1) return einsum(in_places + in_taps + "o,oc" + in_taps + "->" + in_places + "c", under, weight);
  Dims sizes = weight.sizes();
  sizes[0] = sizes[0] / s.groups;
  sizes.insert(sizes.begin(), s.groups);
  return joined(einsum(in_places + in_taps + "go,goc" + in_taps + "->" + in_places + "gc",
                       grouped_view(under, s.groups), reshape(weight, sizes)));
}

/// From the gradient g [N, S..., O] of the result that of the input, [N, sizes..., C].
Val input_gradient(Val g, Val weight, const Dims& sizes, const Geometry& s) {
  const size_t rank = s.rank();
  const Dims kernel = spatial(weight), from(g.sizes().begin() + 1, g.sizes().end() - 1);
  // All phases read one gradient with the border that any of them needs.
  std::vector<std::vector<Phase>> phases(rank);
  Border b{Dims(rank, 0), Dims(rank, 0)};
  for (size_t d = 0; d < rank; ++d)
    for (int64_t r = 0; r < s.stride[d]; ++r) {
      const Phase p = phase_of(r, sizes[d], kernel[d], s.stride[d], s.padding[d], s.dilation[d]);
      phases[d].push_back(p);
      if (p.taps == 0 || p.places == 0) continue;
      b.low[d] = std::max<int64_t>(b.low[d], -p.start);
      b.high[d] = std::max<int64_t>(b.high[d], p.start + p.places - 1 + (p.taps - 1) * p.dilation + 1 - from[d]);
    }
  g = bordered(g, b.low, b.high, 0);
  const bool one = std::ranges::all_of(s.stride, [](int64_t x) { return x == 1; });
  Dims result = {g.size(0)};
  result.insert(result.end(), sizes.begin(), sizes.end());
  result.push_back(weight.size(1) * s.groups);
  Val whole;
  if (!one) whole = g.b->full(result, 0, g.dtype());
  const int64_t count = std::accumulate(s.stride.begin(), s.stride.end(), int64_t{1}, std::multiplies<>());
  for (int64_t i = 0; i < count; ++i) {
    std::vector<Phase> own(rank);
    int64_t rest = i;
    bool empty = false;
    for (size_t d = rank; d-- > 0; rest /= s.stride[d]) {
      own[d] = phases[d][static_cast<size_t>(rest % s.stride[d])];
      empty |= own[d].taps == 0 || own[d].places == 0;
    }
    if (empty) continue;
    Val part = phase_gradient(g, weight, own, b, s);
    if (one) return part;
    Dims strides = whole.type().strides;
    int64_t offset = 0;
    for (size_t d = 0; d < rank; ++d) {
      offset += own[d].first_place * strides[d + 1];
      strides[d + 1] *= s.stride[d];
    }
    whole = scatter_window(whole, part, offset * ir::itemsize(whole.dtype()), strides);
  }
  return one ? g.b->full(result, 0, g.dtype()) : whole;
}

constexpr int64_t kChannelBlock = 32;

/// From x [N, S..., C] and the gradient g [N, S..., O] that of the weight, [O, C / groups, K...].
Val weight_gradient(Val x, Val g, const Dims& kernel, const Geometry& s) {
  const size_t rank = s.rank();
  const Dims count(g.sizes().begin() + 1, g.sizes().end() - 1);
  Val under = input_windows(x, count, kernel, s);
  const std::string in_places = "n" + places(rank), in_taps = taps(rank);
  const int64_t in = x.sizes().back(), out = g.sizes().back();
  // [K..., groups, C, O], then O first.
  Val w;
  if (s.groups > 1 && in == s.groups) {
    Val by_group = grouped(g, s.groups);
    for (size_t d = 0; d < rank; ++d) by_group = unsqueeze(by_group, static_cast<int64_t>(rank) + 1);
    Dims summed(rank + 1);
    std::iota(summed.begin(), summed.end(), 0);
    w = out == s.groups ? unsqueeze(sum(under * squeeze(by_group, by_group.dim() - 1), summed, false), rank + 1)
                        : sum(unsqueeze(under, under.dim()) * by_group, summed, false);
    w = unsqueeze(w, static_cast<int64_t>(rank) + 1);
  } else if (s.groups == 1 && in > kChannelBlock && in % kChannelBlock == 0) {
    // All taps of a few channels, then those of the next: they lie together in the weight.
    w = einsum(in_places + in_taps + "bc," + in_places + "o->b" + in_taps + "co",
               grouped_view(under, in / kChannelBlock), g);
    Dims order = {static_cast<int64_t>(rank) + 2, 0, static_cast<int64_t>(rank) + 1};
    for (size_t d = 0; d < rank; ++d) order.push_back(static_cast<int64_t>(d) + 1);
    Dims sizes = {out, in};
    sizes.insert(sizes.end(), kernel.begin(), kernel.end());
    return reshape(permute(w, order), sizes);
  } else if (s.groups == 1) {
    w = unsqueeze(einsum(in_places + in_taps + "c," + in_places + "o->" + in_taps + "co", under, g),
                  static_cast<int64_t>(rank));
  } else {
    w = einsum(in_places + in_taps + "gc," + in_places + "go->" + in_taps + "gco", grouped_view(under, s.groups),
               grouped(g, s.groups));
  }
  Dims order = {static_cast<int64_t>(rank), static_cast<int64_t>(rank) + 2, static_cast<int64_t>(rank) + 1}, sizes;
  for (size_t d = 0; d < rank; ++d) order.push_back(static_cast<int64_t>(d));
  sizes = {out, in / s.groups};
  sizes.insert(sizes.end(), kernel.begin(), kernel.end());
  return reshape(permute(w, order), sizes);
}

// ---- the ops

Geometry geometry(Op& op, Val weight, const char* groups) {
  Geometry s;
  const auto rank = static_cast<size_t>(weight.dim() - 2);
  if (weight.dim() < 3 || weight.dim() > 5) decline("not a convolution in 1, 2 or 3 dims");
  s.stride = for_each_dim(op.ints("stride"), rank);
  s.padding = for_each_dim(op.ints("padding"), rank);
  s.dilation = op.find("dilation") ? for_each_dim(op.ints("dilation"), rank) : Dims(rank, 1);
  s.groups = groups ? op.integer(groups) : 1;
  for (size_t d = 0; d < rank; ++d)
    if (s.stride[d] < 1 || s.dilation[d] < 1 || s.padding[d] < 0) decline("unusual geometry");
  return s;
}

Val input_of(Op& op, const char* arg, Val weight) {
  Val x = op.val(arg);
  if (x.dtype() == Dtype::b8 || x.dtype() != weight.dtype()) decline("operands are not of one dtype, or bools");
  if (x.dim() != weight.dim()) decline("no batch dim");
  if (x.numel() == 0 || weight.numel() == 0) decline("nothing to sum");
  return x;
}

void convolve(Op& op, const char* input, bool transposed, const char* groups) {
  Val weight = op.val("weight"), x = input_of(op, input, weight), bias = op.optional("bias");
  const Geometry s = geometry(op, weight, groups);
  Val y = channels_last(computed(x)), w = computed(weight);
  const Dims& wanted = op.wanted(0).sizes;
  if (wanted.size() != x.sizes().size()) decline("no batch dim");
  const Dims count(wanted.begin() + 2, wanted.end());
  y = transposed ? input_gradient(y, w, count, s) : forward_convolution(y, w, count, s);
  if (bias) y = y + computed(bias);
  op.result(0, channels_first(cast(y, x.dtype())));
}

void convolution(Op& op) { convolve(op, "input", op.flag("transposed"), "groups"); }
void mkldnn_convolution(Op& op) { convolve(op, "self", false, "groups"); }
void slow_convolution(Op& op) { convolve(op, "self", false, nullptr); }
void slow_transposed(Op& op) { convolve(op, "self", true, nullptr); }

void convolution_backward(Op& op) {
  Val weight = op.val("weight"), x = input_of(op, "input", weight), g = input_of(op, "grad_output", weight);
  const Geometry s = geometry(op, weight, "groups");
  const bool transposed = op.flag("transposed");
  Val gl = channels_last(computed(g)), xl = channels_last(computed(x)), w = computed(weight);
  if (op.wants(0)) {
    Val gx = transposed ? forward_convolution(gl, w, spatial(x), s) : input_gradient(gl, w, spatial(x), s);
    op.result(0, channels_first(cast(gx, x.dtype())));
  }
  if (op.wants(1)) {
    Val gw = transposed ? weight_gradient(gl, xl, spatial(weight), s) : weight_gradient(xl, gl, spatial(weight), s);
    op.result(1, cast(gw, weight.dtype()));
  }
  if (op.wants(2)) {
    Dims but_channels = all_dims(gl);
    but_channels.pop_back();
    op.result(2, cast(sum(gl, but_channels, false), weight.dtype()));
  }
}

constexpr Row kRows[] = {
    {"aten::convolution", convolution},
    {"aten::_convolution", convolution},
    {"aten::convolution_overrideable", convolution},
    {"aten::convolution_backward", convolution_backward},
    {"aten::mkldnn_convolution", mkldnn_convolution},
    {"aten::_slow_conv2d_forward", slow_convolution},
    {"aten::slow_conv3d_forward", slow_convolution},
    {"aten::slow_conv_dilated2d", slow_convolution},
    {"aten::slow_conv_dilated3d", slow_convolution},
    {"aten::slow_conv_transpose2d", slow_transposed},
    {"aten::slow_conv_transpose3d", slow_transposed},
};

}  // namespace

std::span<const Row> convolution_rules() { return kRows; }

}  // namespace precast::passes
