// The tensor that a precast_tensor describes, not yet made: its geometry, and the two ways to make it.
#pragma once
#include <ATen/EmptyTensor.h>
#include <ATen/core/Tensor.h>

#include "precast/artifact_abi.h"

namespace precast::host_torch {

struct Described {
  explicit Described(const precast_tensor& t)
      : sizes(reinterpret_cast<const int64_t*>(t.sizes), static_cast<size_t>(t.ndim)),
        strides(reinterpret_cast<const int64_t*>(t.strides), static_cast<size_t>(t.ndim)),
        dtype(static_cast<at::ScalarType>(t.dtype)),
        flags(t.flags),
        bytes(at::detail::computeStorageNbytes(sizes, strides, c10::elementSize(dtype))) {}

  at::Tensor empty() const { return flagged(at::detail::empty_strided_cpu(sizes, strides, dtype)); }
  at::Tensor on(c10::Storage storage) const {
    at::Tensor t = at::detail::make_tensor<c10::TensorImpl>(
        std::move(storage), c10::DispatchKeySet(c10::DispatchKey::CPU), at::scalarTypeToTypeMeta(dtype));
    t.unsafeGetTensorImpl()->set_sizes_and_strides(sizes, strides);
    return flagged(std::move(t));
  }

  c10::IntArrayRef sizes, strides;  // of the precast_tensor
  at::ScalarType dtype;
  uint32_t flags;
  size_t bytes;

 private:
  at::Tensor flagged(at::Tensor t) const {
    if (flags & PRECAST_CONJ) t._set_conj(true);
    if (flags & PRECAST_NEG) t._set_neg(true);
    return t;
  }
};

}  // namespace precast::host_torch
