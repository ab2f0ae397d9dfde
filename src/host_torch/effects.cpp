#include "host_torch/effects.h"

#include <ATen/MemoryOverlap.h>
#include <torch/csrc/autograd/functions/accumulate_grad.h>

#include <map>

#include "host_torch/host.h"
#include "host_torch/tensor_types.h"
#include "precast/error.h"
#include "util/checks.h"
#include "util/errors.h"

namespace precast::host_torch {

namespace {

using artifact::Result;

/// A view that shares the version counter of what it is a view of, as views in eager do.
at::Tensor view_of(const at::Tensor& base, const ir::Size& offset_bytes, const ir::Type& type, const Values& values) {
  at::Tensor view = window(base, offset_bytes.value(values).value(), ir::substitute(type, values));
  if (!base.is_inference())
    view.unsafeGetTensorImpl()->set_version_counter(base.unsafeGetTensorImpl()->version_counter());
  return view;
}

std::string argument_name(const artifact::Signature& s, size_t source) {
  size_t next = s.params.size() + s.buffers.size();
  for (const artifact::UserLeaf& leaf : s.leaves)
    if (leaf.kind == artifact::UserLeaf::Kind::tensor && next++ == source) return leaf.where;
  return "an argument";
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
                       const precast_tensor* outputs, const Values& values) {
  if (s.grads.empty() && s.cleared_grads.empty() && s.zeroed_grads.empty()) return;
  at::NoGradGuard no_grad;
  for (int source : s.cleared_grads) sources[static_cast<size_t>(source)]->mutable_grad().reset();
  for (int source : s.zeroed_grads)
    if (at::Tensor& slot = sources[static_cast<size_t>(source)]->mutable_grad(); slot.defined()) slot.zero_();
  for (size_t i = 0; i < s.grads.size(); ++i) {
    const artifact::Gradient& g = s.grads[i];
    const at::Tensor& variable = *sources[static_cast<size_t>(g.source)];
    at::Tensor& slot = variable.mutable_grad();
    at::Tensor value = result_tensor(outputs[g.output]);
    if (!g.in_place && g.accumulate && slot.defined())
      slot = slot + value;
    else if (!g.in_place && !g.accumulate)
      slot = g.part ? view_of(value, g.part->offset_bytes, g.part->type, values) : std::move(value);
    else if (!g.accumulate && slot.defined())
      slot.copy_(value);
    else  // One reference is here, one in the call's own list.
      torch::autograd::AccumulateGrad::accumulateGrad(variable, slot, std::move(value),
                                                      /*num_expected_refs=*/exclusive[i] ? 2 : 0,
                                                      [&](at::Tensor&& grad) { slot = std::move(grad); });
  }
}

void check_gradients(const artifact::Signature& s, SourceTensors sources) {
  const size_t n_bound = s.params.size() + s.buffers.size();
  const auto check = [&](int source, bool in_place) {
    const at::Tensor& t = *sources[static_cast<size_t>(source)];
    const at::Tensor& grad = t.mutable_grad();
    if (!grad.defined()) return;
    const auto name = [&] {
      return "the gradient of parameter '" + s.params.at(static_cast<size_t>(source)).name + "'";
    };
    if (!grad.sizes().equals(t.sizes()) || grad.scalar_type() != t.scalar_type() || grad.device() != t.device())
      refuse(Check::call_gradient_type, name() + ": expected " + ir::to_string(type_of(t)) +
                                            " as the parameter is, found " + c10::str(grad.toString(), grad.sizes()) +
                                            "; the call changes it, so clear it first");
    if (!in_place || grad.layout() != at::kStrided) return;
    if (at::has_internal_overlap(grad) == at::MemOverlap::Yes)
      refuse(Check::call_gradient_overlap,
             name() +
                 ": expected a tensor that can be written, found one whose elements share memory "
                 "(expanded); the call changes it, so clone it or clear it first");
    for (size_t i = n_bound; i < sources.size(); ++i)
      if (sources[i]->defined() && sources[i]->has_storage() && sources[i]->is_alias_of(grad))
        refuse(Check::call_gradient_shared, name() + ": expected memory of its own, found that of " +
                                                argument_name(s, i) +
                                                "; the call changes the gradient, so pass a copy (.clone())");
  };
  for (const artifact::Gradient& g : s.grads)
    if (g.in_place || g.accumulate) check(g.source, g.in_place);
  for (int source : s.zeroed_grads) check(source, true);
}

void pack_results(const artifact::Signature& s, SourceTensors sources, const precast_tensor* outputs,
                  const Values& values, std::span<detail::ResultLeaf> leaves) {
  PRECAST_CHECK(leaves.size() == s.results.size(), "result structure and results differ in length");
  for (size_t i = 0; i < leaves.size(); ++i) {
    const Result& r = s.results[i];
    detail::ResultLeaf& leaf = leaves[i];
    if (r.same_as >= 0) {
      set_tensor(leaf, leaves[static_cast<size_t>(r.same_as)].tensor);
      continue;
    }
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
        set_tensor(leaf, view_of(result_tensor(outputs[r.index]), r.offset_bytes, r.type, values));
        break;
      case Result::Kind::source:
        set_tensor(leaf, source());
        break;
      case Result::Kind::source_view:
        set_tensor(leaf, view_of(source(), r.offset_bytes, r.type, values));
        break;
    }
  }
}

}  // namespace precast::host_torch
