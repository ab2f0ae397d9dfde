#include "jit/model.h"

#include <algorithm>

#include "api/call_arguments.h"
#include "host_torch/module_state.h"

namespace precast::jit {
namespace {

std::vector<at::Tensor> tensors_of(const detail::Arguments& a) {
  const api::CallArguments call(a);
  std::vector<at::Tensor> tensors;
  for (const auto* list : {&call.sources().params, &call.sources().buffers})
    for (const trace::Source& s : *list) tensors.push_back(s.tensor);
  return tensors;
}

}  // namespace

Model::Model(const detail::Arguments& a)
    : imprint_(refs(a), tensors_of(a)), objects_(refs(a)), modes_(host_torch::module_modes(refs(a))) {}

bool Model::is(std::span<const detail::ModuleRef> modules, Tensors& tensors) const {
  const size_t size = tensors.size();
  if (!objects_.live() || !imprint_.matches(modules, tensors)) return false;
  if (objects_.of_same_classes()) return true;
  tensors.resize(size);
  return false;
}

ModelPtr Models::find(const detail::Arguments& a, Tensors& tensors) const {
  for (const ModelPtr& known : models_)
    if (known->is(refs(a), tensors)) return known;
  return nullptr;
}

void Models::add(ModelPtr model) {
  models_.insert(models_.begin(), std::move(model));
  if (models_.size() > kKept) models_.pop_back();
}

}  // namespace precast::jit
