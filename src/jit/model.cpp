#include "jit/model.h"

#include <algorithm>

#include "api/call_arguments.h"
#include "host_torch/module_state.h"

namespace precast::jit {
namespace {

std::span<const detail::ModuleRef> refs(const detail::Arguments& a) { return {a.modules.data(), a.modules.size()}; }

}  // namespace

Model::Model(const detail::Arguments& a) : imprint_(refs(a)), modes_(host_torch::module_modes(refs(a))) {
  const api::CallArguments call(a);
  for (const auto* list : {&call.sources().params, &call.sources().buffers})
    for (const trace::Source& s : *list) {
      place_.push_back(imprint_.place(s.tensor));
      constants_.push_back(place_.back() < 0 ? s.tensor : at::Tensor());
    }
}

bool Model::is(std::span<const detail::ModuleRef> modules, Tensors& tensors) const {
  Tensors at;
  if (!imprint_.matches(modules, at)) return false;
  const size_t first = tensors.size();
  tensors.resize(first + place_.size());
  for (size_t i = 0; i < place_.size(); ++i)
    tensors[first + i] = place_[i] < 0 ? &constants_[i] : at[static_cast<size_t>(place_[i])];
  return true;
}

ModelPtr Models::find(const detail::Arguments& a, Tensors& tensors) {
  if (a.modules.empty()) return nullptr;
  const std::lock_guard lock(mutex_);
  for (const ModelPtr& known : models_)
    if (known->is(refs(a), tensors)) return known;
  const auto model = std::make_shared<const Model>(a);
  model->is(refs(a), tensors);
  models_.insert(models_.begin(), model);
  if (models_.size() > kKept) models_.pop_back();
  return model;
}

void Models::clear() {
  const std::lock_guard lock(mutex_);
  models_.clear();
}

}  // namespace precast::jit
