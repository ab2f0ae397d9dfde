// at::Tensor as the artifact ABI describes it; nothing is copied, so the tensor must outlive the description.
#pragma once
#include <ATen/core/Tensor.h>

#include "precast/artifact_abi.h"

namespace precast::host_torch {

inline constexpr c10::DispatchKeySet kNotStrided = c10::DispatchKeySet(
    {c10::DispatchKey::Sparse, c10::DispatchKey::SparseCsr, c10::DispatchKey::Quantized, c10::DispatchKey::NestedTensor,
     c10::DispatchKey::Python, c10::DispatchKey::FuncTorchBatched, c10::DispatchKey::FuncTorchGradWrapper,
     c10::DispatchKey::Functionalize, c10::DispatchKey::ZeroTensor});

/// `d` is zero-initialized. handle is the address of `t`.
inline void describe(const at::Tensor& t, precast_tensor& d) {
  static_assert(sizeof(int64_t) == sizeof(precast_i64));
  d.handle = const_cast<at::Tensor*>(&t);
  if (!t.defined()) {
    d.flags = PRECAST_UNDEFINED;
    return;
  }
  const c10::TensorImpl* impl = t.unsafeGetTensorImpl();
  d.identity = impl;
  d.dtype = static_cast<precast_i32>(c10::typeMetaToScalarType(impl->dtype()));
  d.device_type = static_cast<precast_i32>(impl->device_type());
  d.device_index = d.device_type ? impl->device().index() : -1;
  const c10::Storage& storage = impl->unsafe_storage();
  if (impl->key_set().has_any(kNotStrided) || impl->is_mkldnn() || impl->has_symbolic_sizes_strides() || !storage ||
      impl->is_meta()) {
    d.flags = PRECAST_NOT_STRIDED;
    return;
  }
  d.flags = impl->is_conj() * unsigned{PRECAST_CONJ} | impl->is_neg() * unsigned{PRECAST_NEG};
  d.ndim = static_cast<precast_i32>(impl->dim());
  d.sizes = reinterpret_cast<const precast_i64*>(impl->sizes().data());
  d.strides = reinterpret_cast<const precast_i64*>(impl->strides().data());
  if (impl->numel() == 0) return;  // as const_data_ptr() has it
  const auto offset = static_cast<size_t>(impl->storage_offset()) * impl->dtype().itemsize();
  d.data = const_cast<char*>(static_cast<const char*>(storage.data()) + offset);
}

}  // namespace precast::host_torch
