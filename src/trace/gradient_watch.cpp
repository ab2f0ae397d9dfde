#include "trace/gradient_watch.h"

#include <torch/csrc/autograd/variable.h>

#include <atomic>
#include <typeinfo>
#include <utility>

namespace precast::trace {

namespace {

using torch::autograd::AutogradMeta;

thread_local const GradientWatch* current = nullptr;

struct Asking final : AutogradMeta {
  const at::Tensor& grad() const override {
    if (current) current->note(this);
    return grad_;
  }
};

/// The first word of an object with virtual functions tells its class.
std::atomic_ref<void*> class_of(AutogradMeta* object) {
  return std::atomic_ref<void*>(*static_cast<void**>(static_cast<void*>(object)));
}

AutogradMeta* an_asking_one() {
  static auto* const one = new Asking;
  return one;
}

}  // namespace

GradientWatch::GradientWatch(const std::vector<at::Tensor>& tensors, Asked asked)
    : asked_(std::move(asked)), outer_(std::exchange(current, this)) {
  for (size_t i = 0; i < tensors.size(); ++i) {
    AutogradMeta* data = tensors[i].defined() ? torch::autograd::impl::get_autograd_meta(tensors[i]) : nullptr;
    if (!data || typeid(*data) != typeid(AutogradMeta)) continue;
    watched_.push_back({tensors[i], data, class_of(data).exchange(class_of(an_asking_one()).load())});
    index_of_.emplace(data, i);
  }
}

GradientWatch::~GradientWatch() {
  current = outer_;
  for (const Watched& w : watched_)  // fn may have given the tensor other data
    if (torch::autograd::impl::get_autograd_meta(w.tensor) == w.data) class_of(w.data).store(w.class_word);
}

void GradientWatch::note(const void* data) const {
  if (const auto at = index_of_.find(data); at != index_of_.end()) asked_(at->second);
}

}  // namespace precast::trace
