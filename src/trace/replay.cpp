#include "trace/replay.h"

#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/allclose.h>
#include <ATen/ops/equal.h>

#include <algorithm>

#include "host_torch/graph_executor.h"
#include "host_torch/tensor_types.h"
#include "util/checks.h"

namespace precast::trace {

namespace {

/// Same bytes element by element; -0 and 0 differ, NaN equals the same NaN.
bool same_bits(const at::Tensor& a, const at::Tensor& b) {
  const auto as_bytes = [](const at::Tensor& t) {
    const at::Tensor c = t.resolve_conj().resolve_neg().contiguous();
    return c.as_strided({c.numel()}, {1}).view(at::kByte);  // one element may have any stride
  };
  return a.numel() == 0 || at::equal(as_bytes(a), as_bytes(b));
}

bool nearly_same(const at::Tensor& a, const at::Tensor& b) {
  if (!at::isFloatingType(a.scalar_type()) && !at::isComplexType(a.scalar_type())) return false;
  const bool half = a.scalar_type() == at::kHalf || a.scalar_type() == at::kBFloat16;
  return at::allclose(a, b, half ? 1e-2 : 1e-5, half ? 1e-3 : 1e-6, /*equal_nan=*/true);
}

std::string largest_difference(const at::Tensor& a, const at::Tensor& b) {
  if (at::isComplexType(a.scalar_type())) return "";
  const auto d = (a.to(at::kDouble) - b.to(at::kDouble)).abs().max();
  return ", largest difference " + std::to_string(d.item<double>());
}

}  // namespace

Replay::Replay(const Inputs& inputs, const Outcome& outcome) : expected_(outcome.expected) {
  for (const GraphInputs::One& one : outcome.graph_inputs)
    args_.push_back(inputs.original(inputs.groups()[static_cast<size_t>(one.group)], one.window));
}

LaterReplay::LaterReplay(ir::Graph graph, const Inputs& inputs, const Outcome& outcome)
    : graph_(std::move(graph)), replay_(inputs, outcome) {
  const auto watch = [&](const at::Tensor& t) {
    if (!t.defined()) return;
    watched_ = watched_ && !t.is_inference();
    if (watched_) versions_.emplace_back(t, t._version());
  };
  for (const Inputs::Entry& e : inputs.entries()) watch(e.source->tensor);
  for (const Outcome::Expected& e : outcome.expected) watch(e.real), watch(e.added_to);
}

bool LaterReplay::is_untouched() const {
  return watched_ && std::ranges::all_of(versions_, [](const auto& v) { return v.first._version() == v.second; });
}

bool LaterReplay::verifies() const {
  if (!is_untouched()) return false;
  try {
    replay_.verify(graph_, nullptr);
  } catch (const PrecompileError&) {
    return false;
  }
  return is_untouched();
}

void Replay::verify(const ir::Graph& graph, RandomState* random) const {
  at::NoGradGuard no_grad;
  at::AutoDispatchBelowADInplaceOrView below_autograd;
  const at::Tensor end = random ? random->state() : at::Tensor();
  if (random) random->set_state(random->start());
  std::vector<at::Tensor> outputs;
  std::string failure;
  try {
    outputs = host_torch::GraphExecutor(graph).run(args_);
  } catch (const std::exception& e) {
    failure = e.what();
  }
  const bool same_random = !random || at::equal(random->state(), end);
  if (random) random->set_state(end);
  const std::string advice =
      ". Something inside the function has an effect that no operation shows (a value read or written through "
      "data_ptr, "
      "accessor or another library), or an operation gives other results when it runs again";
  if (!failure.empty())
    refuse(Check::verify_runs,
           "verification: the recorded graph does not run again on the same inputs: " + failure + advice);
  if (!same_random)
    refuse(Check::verify_random,
           "verification: the recorded graph does not draw the random numbers that the call drew" + advice);
  for (size_t i = 0; i < outputs.size(); ++i) {
    const Outcome::Expected& e = expected_[i];
    if (!e.real.defined()) continue;
    const at::Tensor again = e.added_to.defined() ? e.added_to + outputs[i] : outputs[i], real = e.real.detach();
    if (same_bits(again, real)) continue;
    // Kernels round otherwise for other alignments of their operands, and a sum of gradients for another order.
    if (nearly_same(again, real)) continue;
    refuse(Check::verify_values, "verification: " + e.what +
                                     " differs when the recorded graph runs again on the same inputs" +
                                     largest_difference(again, real) + advice);
  }
}

}  // namespace precast::trace
