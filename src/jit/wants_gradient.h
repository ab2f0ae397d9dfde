// requires_grad() without calls: guards ask it of every tensor of a call, and the loads of many overlap.
#pragma once
#include <ATen/core/Tensor.h>
#include <torch/csrc/autograd/variable.h>

namespace precast::jit {

/// Names a private member of LibTorch's tensor: explicit instantiations may.
template <auto member>
struct AutogradData {
  friend constexpr auto autograd_data() { return member; }
};
template struct AutogradData<&at::TensorImpl::autograd_meta_>;
constexpr auto autograd_data();

/// requires_grad() of a defined tensor. Only LibTorch's autograd makes the data that is looked at.
inline bool wants_gradient(const at::Tensor& t) {
  const auto& data = t.unsafeGetTensorImpl()->*autograd_data();
  const auto* meta = static_cast<const torch::autograd::AutogradMeta*>(data.get());
  return meta && (meta->requires_grad_ || meta->grad_fn_);
}

}  // namespace precast::jit
