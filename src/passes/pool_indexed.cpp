// Pooling whose windows lie where numbers say, and its way back: reads and writes through indices.
#include <cmath>
#include <numeric>

#include "passes/rules.h"
#include "passes/windows.h"

namespace precast::passes {
namespace {

using ir::Dtype;

/// [N, C, sizes...], with a batch dim, and all of its sizes.
struct Planes {
  Val x;
  Dims sizes;  // spatial
  bool batched;
  int64_t planes() const { return x.size(0) * x.size(1); }
  int64_t area() const { return std::accumulate(sizes.begin(), sizes.end(), int64_t{1}, std::multiplies<>()); }
  Val flat() const { return reshape(x, {x.size(0), x.size(1), area()}); }
};
Planes planes(Val x, size_t rank) {
  const bool batched = x.sizes().size() == rank + 2;
  if (!batched) x = unsqueeze(x, 0);
  if (x.sizes().size() != rank + 2 || x.numel() == 0) decline("nothing to pool");
  return {x, Dims(x.sizes().begin() + 2, x.sizes().end()), batched};
}
// [N, C, area] as planes of these sizes.
Val restored(const Planes& p, Val v, const Dims& sizes) {
  Dims all{p.x.size(0), p.x.size(1)};
  all.insert(all.end(), sizes.begin(), sizes.end());
  v = reshape(v, all);
  return p.batched ? v : squeeze(v, 0);
}

// Each element goes to the place that its maximum came from.
template <size_t rank>
void max_unpool(Op& op) {
  const Planes in = planes(op.val("self"), rank), at = planes(op.val("indices"), rank);
  const Dims out = op.ints("output_size");
  const int64_t area = std::accumulate(out.begin(), out.end(), int64_t{1}, std::multiplies<>());
  Val zeros = op.b.full({in.x.size(0), in.x.size(1), area}, 0, in.x.dtype());
  op.result(0, restored(in, scatter(zeros, 2, at.flat(), in.flat()), out));
}

// Where the windows of one dim begin, [N, C, 1]-wise from the samples: evenly, by steps that are no whole numbers.
Val starts(Builder& b, Val sample, int64_t in, int64_t out, int64_t kernel) {
  Val last = b.full({1, 1, 1}, in - kernel, Dtype::i64);
  if (out == 1) return last;
  const double alpha = rounded(
      rounded(static_cast<double>(in - kernel), sample.dtype()) / rounded(static_cast<double>(out - 1), sample.dtype()),
      sample.dtype());
  const auto whole = [&](Val v) { return cast(v * alpha, Dtype::i64); };
  Val i = reshape(b.arange(out - 1, sample.dtype()), {1, 1, out - 1});
  Val first = whole(i + sample) - whole(sample);
  Dims sizes = first.sizes();
  sizes[2] = 1;
  return cat({first, expand(last, sizes)}, 2);
}

template <size_t rank>
void fractional_max_pool(Op& op) {
  const Planes in = planes(op.val("self"), rank);
  const Dims kernel = for_each_dim(op.ints("kernel_size"), rank), out = for_each_dim(op.ints("output_size"), rank);
  Val samples = op.val("random_samples");
  const Dtype d = in.x.dtype();
  if ((d != Dtype::f32 && d != Dtype::f64) || samples.dtype() != d) decline("not of f32 or f64");
  Val position;  // [N, C, out..., kernel...]
  int64_t below = 1;
  for (size_t k = rank; k-- > 0; below *= in.sizes[k]) {
    const auto own_sample = static_cast<int64_t>(rank == 2 ? 1 - k : k);  // in the plane the width comes first
    Val sample = unsqueeze(select(samples, 2, own_sample), 2);
    Val begin = starts(op.b, sample, in.sizes[k], out[k], kernel[k]);
    begin = expand(begin, {in.x.size(0), in.x.size(1), out[k]});
    Dims places{in.x.size(0), in.x.size(1)}, taps(2 * rank + 2, 1);
    places.resize(2 * rank + 2, 1);
    places[k + 2] = out[k], taps[k + rank + 2] = kernel[k];
    Val own = (reshape(begin, places) + reshape(op.b.arange(kernel[k]), taps)) * below;
    position = position ? position + own : own;
  }
  const int64_t windows = std::accumulate(out.begin(), out.end(), int64_t{1}, std::multiplies<>());
  const int64_t size = position.numel() / in.planes() / windows;
  Val at = reshape(position, {in.x.size(0), in.x.size(1), windows * size});
  Dims shape{in.x.size(0), in.x.size(1), windows, size};
  Val v = reshape(gather(in.flat(), 2, at), shape), best = reduce("amax", v, {3}, true, d);
  at = reshape(at, shape);
  // The first of the largest, or the last NaN.
  constexpr int64_t kNowhere = int64_t{1} << 62;
  Val first = reduce("amin", where(binary("eq.Tensor", v, best), at, kNowhere), {3}, false, Dtype::i64);
  Val last_nan = reduce("amax", where(isnan(v), at, -1), {3}, false, Dtype::i64);
  op.result(0, restored(in, squeeze(best, 3), out));
  op.result(1, restored(in, where(ge(last_nan, 0), last_nan, first), out));
}

template <size_t rank>
void fractional_max_pool_backward(Op& op) {
  const Planes in = planes(op.val("self"), rank), g = planes(op.val("grad_output"), rank),
               at = planes(op.val("indices"), rank);
  const Dtype d = in.x.dtype();
  if ((d != Dtype::f32 && d != Dtype::f64) || g.x.dtype() != d) decline("not of f32 or f64");
  if (!at.x.type().is_contiguous()) decline("eager reads the indices as they lie in memory");
  Val zeros = op.b.full(in.flat().sizes(), 0, d);
  op.result(0, restored(in, scatter_add(zeros, 2, at.flat(), g.flat()), in.sizes));
}

constexpr Row kRows[] = {
    {"aten::max_unpool2d", max_unpool<2>},
    {"aten::max_unpool3d", max_unpool<3>},
    {"aten::fractional_max_pool2d", fractional_max_pool<2>},
    {"aten::fractional_max_pool3d", fractional_max_pool<3>},
    {"aten::fractional_max_pool2d_backward", fractional_max_pool_backward<2>},
    {"aten::fractional_max_pool3d_backward", fractional_max_pool_backward<3>},
};

}  // namespace

std::span<const Row> pool_indexed_rules() { return kRows; }

}  // namespace precast::passes
