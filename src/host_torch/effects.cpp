#include "host_torch/effects.h"

#include <torch/csrc/autograd/functions/accumulate_grad.h>

#include <map>

#include "host_torch/host.h"
#include "host_torch/tensor_types.h"
#include "util/errors.h"

namespace precast::host_torch {

namespace {

using artifact::Result;

/// A view that shares the version counter of what it is a view of, as views in eager do.
at::Tensor view_of(const at::Tensor& base, const Result& result) {
  at::Tensor view = window(base, result.offset_bytes, result.type);
  if (!base.is_inference())
    view.unsafeGetTensorImpl()->set_version_counter(base.unsafeGetTensorImpl()->version_counter());
  return view;
}

void set_tensor(detail::ResultLeaf& leaf, at::Tensor t) {
  leaf.kind = detail::Kind::tensor;
  leaf.tensor = std::move(t);
}

}  // namespace

void mark_written(const artifact::Signature& s, SourceTensors sources) {
  for (const artifact::WriteBack& w : s.writes) {
    const at::Tensor& t = *sources[static_cast<size_t>(w.source)];
    if (!t.is_inference()) t.unsafeGetTensorImpl()->bump_version();
  }
}

std::vector<char> exclusive_gradients(const artifact::Signature& s) {
  std::map<int, int> uses;
  for (const artifact::Gradient& g : s.grads) ++uses[g.output];
  for (const Result& r : s.results)
    if (r.kind == Result::Kind::output || r.kind == Result::Kind::output_view) ++uses[r.index];
  std::vector<char> exclusive;
  for (const artifact::Gradient& g : s.grads) exclusive.push_back(uses[g.output] == 1);
  return exclusive;
}

void deliver_gradients(const artifact::Signature& s, const std::vector<char>& exclusive, SourceTensors sources,
                       const precast_tensor* outputs) {
  if (s.grads.empty() && s.cleared_grads.empty()) return;
  at::NoGradGuard no_grad;
  for (int source : s.cleared_grads) sources[static_cast<size_t>(source)]->mutable_grad().reset();
  for (size_t i = 0; i < s.grads.size(); ++i) {
    const artifact::Gradient& g = s.grads[i];
    const at::Tensor& variable = *sources[static_cast<size_t>(g.source)];
    at::Tensor& slot = variable.mutable_grad();
    if (!g.accumulate) slot.reset();
    // One reference is here, one in the call's own list.
    torch::autograd::AccumulateGrad::accumulateGrad(variable, slot, result_tensor(outputs[g.output]),
                                                    /*num_expected_refs=*/exclusive[i] ? 2 : 0,
                                                    [&](at::Tensor&& grad) { slot = std::move(grad); });
  }
}

void pack_results(const artifact::Signature& s, SourceTensors sources, const precast_tensor* outputs,
                  std::span<detail::ResultLeaf> leaves) {
  PRECAST_CHECK(leaves.size() == s.results.size(), "result structure and results differ in length");
  for (size_t i = 0; i < leaves.size(); ++i) {
    const Result& r = s.results[i];
    detail::ResultLeaf& leaf = leaves[i];
    const auto source = [&]() -> const at::Tensor& { return *sources[static_cast<size_t>(r.index)]; };
    switch (r.kind) {
      case Result::Kind::none:
        leaf.kind = detail::Kind::none;
        break;
      case Result::Kind::boolean:
        leaf.kind = detail::Kind::boolean;
        leaf.integer = std::get<bool>(r.value);
        break;
      case Result::Kind::integer:
        leaf.kind = detail::Kind::integer;
        leaf.integer = std::get<int64_t>(r.value);
        break;
      case Result::Kind::real:
        leaf.kind = detail::Kind::real;
        leaf.real = std::get<double>(r.value);
        break;
      case Result::Kind::string:
        leaf.kind = detail::Kind::string;
        leaf.text = std::get<std::string>(r.value);
        break;
      case Result::Kind::output:
        set_tensor(leaf, result_tensor(outputs[r.index]));
        break;
      case Result::Kind::output_view:
        set_tensor(leaf, view_of(result_tensor(outputs[r.index]), r));
        break;
      case Result::Kind::source:
        set_tensor(leaf, source());
        break;
      case Result::Kind::source_view:
        set_tensor(leaf, view_of(source(), r));
        break;
    }
  }
}

}  // namespace precast::host_torch
