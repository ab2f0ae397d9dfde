#include "host_torch/step_memory.h"

#include <ATen/EmptyTensor.h>

#include <atomic>

namespace precast::host_torch {
namespace {

std::atomic<int64_t> step = 0;

}  // namespace

void begin_step() { ++step; }

at::Tensor StepMemory::allocate(const precast_tensor& t) const {
  const auto ndim = static_cast<size_t>(t.ndim);
  const c10::IntArrayRef sizes(reinterpret_cast<const int64_t*>(t.sizes), ndim),
      strides(reinterpret_cast<const int64_t*>(t.strides), ndim);
  const auto dtype = static_cast<at::ScalarType>(t.dtype);
  const size_t bytes = at::detail::computeStorageNbytes(sizes, strides, c10::elementSize(dtype));
  const int64_t now = step;
  const std::lock_guard lock(mutex_);
  at::Tensor result;
  for (Block& b : blocks_) {
    const bool dropped = b.storage.use_count() == 1;
    if (b.storage.nbytes() != bytes || (b.step == now && !dropped)) continue;
    if (!dropped && b.version.enabled()) b.version.bump();
    result = at::detail::make_tensor<c10::TensorImpl>(
        c10::Storage(b.storage), c10::DispatchKeySet(c10::DispatchKey::CPU), at::scalarTypeToTypeMeta(dtype));
    result.unsafeGetTensorImpl()->set_sizes_and_strides(sizes, strides);
    b.version = result.unsafeGetTensorImpl()->version_counter();
    b.step = now;
    break;
  }
  if (!result.defined()) {
    result = at::detail::empty_strided_cpu(sizes, strides, dtype);
    blocks_.push_back({result.storage(), result.unsafeGetTensorImpl()->version_counter(), now});
  }
  if (t.flags & PRECAST_CONJ) result._set_conj(true);
  if (t.flags & PRECAST_NEG) result._set_neg(true);
  return result;
}

}  // namespace precast::host_torch
