// Values that depend on no tensor's contents, and the places of a grid. Their dtype and layout are the recorded ones.
#include <cmath>

#include "passes/rules.h"

namespace precast::passes {
namespace {

using ir::Dtype;

Val filled(Op& op, Number n) {
  if (!op.wants(0)) decline("the result has no recorded type");
  return op.b.full(op.wanted(0).sizes, n, op.wanted(0).dtype);
}
void zeros(Op& op) { op.result(0, filled(op, 0)); }  // `empty` too: what it holds does not count
void ones(Op& op) { op.result(0, filled(op, 1)); }
void full(Op& op) { op.result(0, filled(op, op.number("fill_value"))); }
void scalar(Op& op) { op.result(0, filled(op, op.number("s"))); }

void arange(Op& op) {
  const ir::Type& t = op.wanted(0);
  Number start = op.given("start") ? op.number("start") : Number(0), end = op.number("end");
  Number step = op.given("step") ? op.number("step") : Number(1);
  op.result(0, op.b.emit("aten::arange.start_step",
                         {{"start", start.in(t.dtype)},
                          {"end", end.in(t.dtype)},
                          {"step", step.in(t.dtype)},
                          {"dtype", t.dtype},
                          {"layout", {}},
                          {"device", ir::Device{}},
                          {"pin_memory", {}}},
                         t));
}

// From both ends, as eager counts: the first half from `start`, the second from `end`. Integers go by steps in f64.
Val evenly(Builder& b, double first, double last, int64_t steps, Dtype dtype) {
  const bool whole = !ir::is_float(dtype);
  if (dtype == Dtype::b8) decline("not defined for bool");
  const Dtype d = whole ? Dtype::f64 : dtype;
  const auto held = [&](double v) { return whole ? std::trunc(v) : rounded(v, dtype); };
  const double start = held(first), end = held(last);
  if (steps < 2) return b.full({steps}, start, dtype);
  const double step = rounded(rounded(end - start, d) / rounded(static_cast<double>(steps - 1), d), d);
  Val i = b.arange(steps);
  Val rising = cast(i, d) * step + start;
  Val falling = end - cast(Number(steps - 1) - i, d) * step;
  return cast(where(lt(i, steps / 2), rising, falling), dtype);
}
void linspace(Op& op) {
  if (!op.wants(0)) decline("the result has no recorded type");
  op.result(0, evenly(op.b, op.real("start"), op.real("end"), op.integer("steps"), op.wanted(0).dtype));
}

// Where an affine map, [N, rank, rank + 1], takes the places of an image from -1 to 1: [N, sizes..., rank].
void affine_grid(Op& op) {
  Val theta = op.val("theta");
  const Dtype dtype = theta.dtype(), wide = compute_dtype(dtype);
  if (!ir::is_float(dtype)) decline("not defined for integers");
  const Dims size = op.ints("size");
  const auto rank = static_cast<int64_t>(size.size()) - 2;
  if (theta.sizes() != Dims{size[0], rank, rank + 1}) decline("not a map of this many dims");
  const auto column = [&](int64_t c) {  // [N, 1..., rank]
    Dims sizes(static_cast<size_t>(rank) + 2, 1);
    sizes.front() = size[0], sizes.back() = rank;
    return reshape(contiguous(cast(select(theta, 2, c), wide)), sizes);
  };
  Val grid;
  for (int64_t d = 0; d < rank; ++d) {  // x is the last dim
    const int64_t n = size[static_cast<size_t>(rank + 1 - d)];
    Val at = n > 1 ? evenly(op.b, -1, 1, n, dtype) : op.b.full({n}, 0, dtype);
    if (!op.flag("align_corners") && n > 1) at = at * double(n - 1) / double(n);
    at = cast(at, wide);
    Dims sizes(static_cast<size_t>(rank) + 2, 1);
    sizes[static_cast<size_t>(rank - d)] = n;
    Val part = reshape(at, sizes) * column(d);
    grid = grid ? grid + part : part;
  }
  op.result(0, cast(grid + column(rank), dtype));
}

void eye(Op& op) {
  const ir::Type t = op.wanted(0);
  int64_t n = t.sizes[0], m = t.sizes[1];
  Val diagonal = binary("eq.Tensor", reshape(op.b.arange(n), {n, 1}), reshape(op.b.arange(m), {1, m}));
  op.result(0, cast(diagonal, t.dtype));
}

// Places of a triangle, as a table of indices.
template <bool lower>
void triangle_indices(Op& op) {
  if (!op.wants(0)) decline("the result has no recorded type");
  Val places = triangle_places(op.b, op.integer("row"), op.integer("col"), op.integer("offset"), lower);
  op.result(0, cast(places, op.wanted(0).dtype));
}

constexpr Row kRows[] = {
    {"aten::tril_indices", triangle_indices<true>},
    {"aten::triu_indices", triangle_indices<false>},
    {"aten::zeros", zeros},
    {"aten::zeros_like", zeros},
    {"aten::new_zeros", zeros},
    {"aten::empty.memory_format", zeros},
    {"aten::empty_like", zeros},
    {"aten::empty_strided", zeros},
    {"aten::new_empty", zeros},
    {"aten::new_empty_strided", zeros},
    {"aten::_efficientzerotensor", zeros},
    {"aten::ones", ones},
    {"aten::ones_like", ones},
    {"aten::new_ones", ones},
    {"aten::full", full},
    {"aten::full_like", full},
    {"aten::new_full", full},
    {"aten::scalar_tensor", scalar},
    {"aten::arange", arange},
    {"aten::arange.start", arange},
    {"aten::arange.start_step", arange},
    {"aten::linspace", linspace},
    {"aten::affine_grid_generator", affine_grid},
    {"aten::eye", eye},
    {"aten::eye.m", eye},
};

}  // namespace

std::span<const Row> creation_rules() { return kRows; }

}  // namespace precast::passes
