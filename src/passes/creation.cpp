// Values that depend on no tensor's contents. Their dtype and layout are the recorded ones.
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

// From both ends, as eager counts: the first half from `start`, the second from `end`.
template <class T>
void linspace_of(Op& op, Dtype dtype) {
  const int64_t steps = op.integer("steps"), half = steps / 2;
  const T start = static_cast<T>(op.real("start")), end = static_cast<T>(op.real("end"));
  if (steps < 2) return op.result(0, filled(op, double(start)));
  const double step = static_cast<T>((end - start) / static_cast<T>(steps - 1));
  Val i = op.b.arange(steps);
  Val rising = cast(i, dtype) * step + double(start);
  Val falling = double(end) - cast(Number(steps - 1) - i, dtype) * step;
  op.result(0, where(lt(i, half), rising, falling));
}
void linspace(Op& op) {
  if (!op.wants(0)) decline("the result has no recorded type");
  const Dtype dtype = op.wanted(0).dtype;
  if (dtype == Dtype::f32)
    linspace_of<float>(op, dtype);
  else if (dtype == Dtype::f64)
    linspace_of<double>(op, dtype);
  else
    decline("not of f32 or f64");
}

void eye(Op& op) {
  const ir::Type t = op.wanted(0);
  int64_t n = t.sizes[0], m = t.sizes[1];
  Val diagonal = binary("eq.Tensor", reshape(op.b.arange(n), {n, 1}), reshape(op.b.arange(m), {1, m}));
  op.result(0, cast(diagonal, t.dtype));
}

constexpr Row kRows[] = {
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
    {"aten::eye", eye},
    {"aten::eye.m", eye},
};

}  // namespace

std::span<const Row> creation_rules() { return kRows; }

}  // namespace precast::passes
