#include "host_torch/tensor_types.h"

#include <ATen/MemoryOverlap.h>
#include <ATen/ops/conj_physical.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_strided.h>
#include <c10/core/TensorImpl.h>

#include "precast/error.h"
#include "util/errors.h"

namespace precast::host_torch {

namespace {

at::ScalarType scalar_type(ir::Dtype d) { return static_cast<at::ScalarType>(d); }

at::Device device_of(ir::Device d) {
  return at::Device(static_cast<at::DeviceType>(d.type), static_cast<at::DeviceIndex>(d.index));
}

/// Strides decide where elements lie only in dims that have more than one.
bool same_layout(const at::Tensor& t, const ir::Type& type) {
  if (t.numel() == 0) return true;
  for (size_t i = 0; i < type.sizes.size(); ++i)
    if (type.sizes[i] > 1 && t.stride(static_cast<int64_t>(i)) != type.strides[i]) return false;
  return true;
}

bool overlaps(const at::Tensor& t) { return at::has_internal_overlap(t) == at::MemOverlap::Yes; }

/// Dims with stride 0 hold one element.
at::Tensor without_repeats(const at::Tensor& t, const at::Tensor& strides_of) {
  auto sizes = t.sizes().vec();
  for (int64_t i = 0; i < t.dim(); ++i)
    if (strides_of.stride(i) == 0) sizes[static_cast<size_t>(i)] = std::min<int64_t>(sizes[static_cast<size_t>(i)], 1);
  return t.as_strided(sizes, t.strides(), t.storage_offset());
}

ir::Type plain(ir::Type type) {
  type.conj = type.neg = false;
  return type;
}

}  // namespace

ir::Type type_of(const at::Tensor& t) {
  ir::Type type;
  type.dtype = static_cast<ir::Dtype>(t.scalar_type());
  type.sizes.assign(t.sizes().begin(), t.sizes().end());
  type.strides.assign(t.strides().begin(), t.strides().end());
  type.device = {static_cast<int8_t>(t.device().type()), static_cast<int8_t>(t.device().index())};
  type.conj = t.is_conj();
  type.neg = t.is_neg();
  return type;
}

at::TensorOptions options_of(const ir::Type& type) {
  return at::TensorOptions().dtype(scalar_type(type.dtype)).device(device_of(type.device));
}

at::Tensor empty(const ir::Type& type) {
  at::Tensor t = at::empty_strided(ir::numbers(type.sizes), ir::numbers(type.strides), options_of(type));
  if (type.conj) t._set_conj(true);
  if (type.neg) t._set_neg(true);
  return t;
}

at::Tensor window(const at::Tensor& base, int64_t offset_bytes, const ir::Type& type) {
  const int64_t itemsize = ir::itemsize(type.dtype);
  const int64_t start = base.storage_offset() * base.element_size() + offset_bytes;
  if (start % itemsize != 0) return window(clone_bytes(base), offset_bytes, type);
  at::Tensor t = at::detail::make_tensor<c10::TensorImpl>(
      c10::Storage(base.storage()),
      c10::DispatchKeySet(c10::computeDispatchKey(scalar_type(type.dtype), std::nullopt, base.device())),
      at::scalarTypeToTypeMeta(scalar_type(type.dtype)));
  t.unsafeGetTensorImpl()->set_sizes_and_strides(ir::numbers(type.sizes), ir::numbers(type.strides), start / itemsize);
  if (type.conj) t._set_conj(true);
  if (type.neg) t._set_neg(true);
  return t;
}

at::Tensor clone_bytes(const at::Tensor& t) {
  const ir::Type type = type_of(t);
  const int64_t itemsize = ir::itemsize(type.dtype);
  ir::Type flat = plain(type);
  flat.sizes = {type.span_bytes() / itemsize};
  flat.strides = {1};
  at::Tensor copy = empty(flat);
  copy.copy_(window(t, 0, flat));
  return window(copy, 0, type);
}

void copy_window(const at::Tensor& dst, const at::Tensor& src) {
  at::Tensor to = window(dst, 0, plain(type_of(dst))), from = window(src, 0, plain(type_of(src)));
  if (overlaps(to)) {
    from = without_repeats(from, to);
    to = without_repeats(to, to);
  }
  to.copy_(from);
}

at::Tensor conform(const at::Tensor& t, const ir::Type& type, const std::string& what) {
  if (!t.defined()) throw PrecompileError(what + ": expected " + ir::to_string(type) + ", found an undefined tensor");
  if (t.layout() != at::kStrided)
    throw PrecompileError(what + ": expected " + ir::to_string(type) + ", found a tensor that is not strided");
  if (!ir::equal(type.sizes, t.sizes()) || t.scalar_type() != scalar_type(type.dtype) ||
      t.device().type() != static_cast<at::DeviceType>(type.device.type))
    throw PrecompileError(what + ": expected " + ir::to_string(type) + ", found " + ir::to_string(type_of(t)) +
                          "; shapes are specialized to the recorded call: capture again for this input");
  const bool bits = t.is_conj() == type.conj && t.is_neg() == type.neg;
  if (bits && ir::equal(type.strides, t.strides())) return t;
  if (bits && same_layout(t, type)) return window(t, 0, type);
  at::Tensor result = empty(type);
  if (overlaps(result))
    throw PrecompileError(what + ": expected the overlapping layout " + ir::to_string(type) + ", found " +
                          ir::to_string(type_of(t)) + "; pass the tensor as it was when it was recorded");
  result.copy_(t);  // respects both sides' bits
  return result;
}

}  // namespace precast::host_torch
