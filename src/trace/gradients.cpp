#include "trace/gradients.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/from_blob.h>
#include <c10/core/impl/LocalDispatchKeySet.h>

#include <cstdlib>

#include "host_torch/tensor_types.h"
#include "util/checks.h"

namespace precast::trace {

namespace {

/// Zeros laid out as autograd lays out a gradient. Untouched pages cost nothing, so a pure inference pays little.
at::Tensor zeros_for(const at::Tensor& t) {
  ir::Type type = host_torch::type_of(t);
  if (!t.is_non_overlapping_and_dense()) type.strides = ir::contiguous_strides(type.sizes);
  void* memory = std::calloc(static_cast<size_t>(std::max<int64_t>(type.span_bytes(), 1)), 1);
  if (!memory) throw std::bad_alloc();
  return at::from_blob(
      memory, ir::numbers(type.sizes), ir::numbers(type.strides), [](void* p) { std::free(p); },
      t.options().requires_grad(false));
}

}  // namespace

Gradients::Gradients(const Inputs& inputs, StorageTable& storages) {
  at::NoGradGuard no_grad;
  const auto& entries = inputs.entries();
  for (size_t i = 0; i < entries.size(); ++i) {
    const at::Tensor& t = entries[i].source->tensor;
    if (!t.defined() || !t.is_leaf()) continue;
    if (static_cast<int>(i) >= inputs.count_params()) {
      others_.emplace_back(entries[i].source, t.grad());
      continue;
    }
    Slot slot{static_cast<int>(i), t, t.grad(), {}, nullptr};
    for (size_t k = 0; slot.callers.defined() && slot.callers.has_storage() && k < entries.size(); ++k)
      if (entries[k].storage.unsafeGetStorageImpl() == slot.callers.storage().unsafeGetStorageImpl())
        slot.shares_with = static_cast<int>(k);
    if (slot.callers.defined()) {
      if (std::string kind = unsupported_kind(slot.callers); !kind.empty())
        refuse(Check::gradient_kind, "the gradient of " + entries[i].source->name + " is " + kind +
                                         "; only plain strided CPU tensors can be recorded");
      slot.stand_in = host_torch::clone_bytes(slot.callers);
    } else if (t.requires_grad()) {
      slot.stand_in = zeros_for(t);
    }
    slots_.push_back(std::move(slot));
  }
  for (Slot& slot : slots_) {
    if (!slot.stand_in.defined()) continue;
    slot.state = &storages.add(slot.stand_in, nullptr);
    slot.state->gradient_of = slot.source;
    slot.state->stands_for_nothing = !slot.callers.defined();
    slot.state->may_seal = true;
    slot.tensor.mutable_grad() = slot.stand_in;
    slot.version = slot.version_now();
  }
}

std::unique_ptr<const GradientWatch> Gradients::watch() {
  std::vector<at::Tensor> watched;
  for (const Slot& slot : slots_) watched.push_back(slot.stand_in.defined() ? slot.tensor : at::Tensor());
  return std::make_unique<const GradientWatch>(watched, [this](size_t i) {
    Slot& slot = slots_[i];
    if (given_up_ || !slot.stand_in.defined()) return;
    at::Tensor& now = slot.tensor.mutable_grad();
    const bool as_found = slot.is_in_place(now) && (!slot.written() || slot.state->zeroed_of >= 0);
    if (as_found && !slot.callers.defined()) now.reset(), slot.state->emptied = true;
    if (as_found || (slot.emptied() && !now.defined())) slot.state->asked = true;
  });
}

void Gradients::give_back() {
  at::NoGradGuard no_grad;
  c10::impl::ExcludeDispatchKeyGuard unrecorded(kRecordingKey);
  for (Slot& slot : slots_) {
    if (!slot.stand_in.defined() || !slot.callers.defined()) continue;
    at::Tensor& now = slot.tensor.mutable_grad();
    const bool in_place = slot.is_in_place(now);
    if (slot.written()) slot.callers.copy_(slot.stand_in);
    slot.stand_in.unsafeGetTensorImpl()->shallow_copy_from(slot.callers.getIntrusivePtr());
    if (in_place) now = now.is_same(slot.stand_in) ? slot.callers : slot.callers.detach();
    slot.stand_in.reset();
  }
}

void Gradients::give_up() {
  if (std::exchange(given_up_, true)) return;
  for (Slot& slot : slots_)
    if (slot.stand_in.defined() && !slot.callers.defined() && !slot.written() && slot.is_in_place(slot.tensor.grad()))
      slot.tensor.mutable_grad() = at::Tensor();
}

bool Gradients::Slot::is_in_place(const at::Tensor& now) const {
  return now.defined() && stand_in.defined() && now.has_storage() &&
         now.storage().unsafeGetStorageImpl() == stand_in.storage().unsafeGetStorageImpl() &&
         window_of(now) == window_of(stand_in);
}

void Gradients::check_others() const {
  for (const auto& [source, before] : others_) {
    const at::Tensor& now = source->tensor.grad();
    if (now.unsafeGetTensorImpl() != before.unsafeGetTensorImpl())
      refuse(Check::gradient_of_argument,
             source->name +
                 " received a gradient inside the recorded function, but only gradients of "
                 "parameters are carried over. Pass it as a module parameter, or return the gradient "
                 "(torch::autograd::grad)");
  }
}

void Gradients::commit() {
  if (std::exchange(done_, true)) return;
  at::NoGradGuard no_grad;
  c10::impl::ExcludeDispatchKeyGuard unrecorded(kRecordingKey);
  for (Slot& slot : slots_) {
    if (!slot.stand_in.defined()) continue;
    at::Tensor& now = slot.tensor.mutable_grad();
    if (!slot.is_in_place(now)) continue;
    if (slot.callers.defined()) {
      if (given_up_ ? slot.written() : slot.touched()) slot.callers.copy_(slot.stand_in);
      now = now.is_same(slot.stand_in) ? slot.callers : slot.callers.detach();
    } else if (given_up_ ? !slot.written() : !slot.touched() || slot.state->zeroed_of >= 0) {
      // Eager's zero_grad would have found nothing to zero.
      now = at::Tensor();
    }
  }
}

void Gradients::restore() {
  if (std::exchange(done_, true)) return;
  for (Slot& slot : slots_) slot.tensor.mutable_grad() = slot.callers;
  for (auto& [source, before] : others_)
    if (source->tensor.grad().unsafeGetTensorImpl() != before.unsafeGetTensorImpl())
      source->tensor.mutable_grad() = before;
}

}  // namespace precast::trace
