#include "trace/op_log.h"

#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/zeros.h>
#include <c10/core/impl/LocalDispatchKeySet.h>

#include <algorithm>
#include <cstring>

#include "host_torch/tensor_types.h"
#include "precast/error.h"
#include "trace/geometry.h"
#include "trace/torch_internals.h"
#include "util/errors.h"

namespace precast::trace {

namespace {

at::Tensor copy_bytes(const c10::Storage& from) {
  const auto size = static_cast<int64_t>(from.nbytes());
  at::Tensor t = at::empty({size}, at::kByte);
  if (size) std::memcpy(t.mutable_data_ptr(), address(from.unsafeGetStorageImpl()), static_cast<size_t>(size));
  return t;
}

}  // namespace

std::vector<at::Tensor> tensors_in(const c10::IValue& v) {
  if (v.isTensor()) return {v.toTensor()};
  if (v.isTensorList()) return v.toTensorVector();
  return {};
}

void LogRun::set(int storage, c10::Storage s, bool shared) { storages_[storage] = {std::move(s), shared}; }

int64_t LogRun::value(const ir::Size& s) const {
  const auto v = symbols_.at(s, point_);
  if (!v) throw RunFailure("the size " + ir::to_string(s) + " has no value");
  return *v;
}

at::Tensor LogRun::tensor(const Place& p) {
  if (p.number.defined()) {
    if (!recorded || p.number.unsafeGetTensorImpl()->is_wrapped_number()) return p.number;
    c10::impl::ExcludeDispatchKeyGuard unrecorded(kRecordingKey);
    return host_torch::clone_bytes(p.number);
  }
  if (p.storage < 0) return {};
  const auto at = storages_.find(p.storage);
  if (at == storages_.end() && trial) throw RunFailure("an operand is undefined here, and not in the call");
  PRECAST_CHECK(at != storages_.end(), "the log of a call names a storage that is not there");
  const auto numbers = [&](const ir::Dims& dims) {
    ir::Dims v;
    for (const ir::Size& s : dims) v.push_back(value(s));
    return v;
  };
  Window w{p.type, value(p.offset) * ir::itemsize(p.type.dtype)};
  w.type.sizes = numbers(p.type.sizes);
  w.type.strides = numbers(p.type.strides);
  if (w.offset < 0 || (w.type.numel() > 0 && w.bytes().end > static_cast<int64_t>(at->second.storage.nbytes())))
    throw RunFailure(ir::to_string(w.type) + " reaches beyond its memory");
  return tensor_at(at->second.storage, w);
}

std::vector<at::Tensor> LogRun::assume(const LogEntry& e, const std::vector<Place>& places) {
  std::vector<at::Tensor> results;
  for (size_t i = 0; i < places.size(); ++i) {
    at::Tensor& t = results.emplace_back();
    if (e.results[i] < 0) continue;
    Place p = places[i];
    int64_t end = value(p.offset) + 1;
    for (size_t d = 0; d < p.type.sizes.size(); ++d) end += value(p.type.sizes[d]) * value(p.type.strides[d]);
    c10::impl::ExcludeDispatchKeyGuard unrecorded(kRecordingKey);
    if (!has(e.results[i]))
      set(e.results[i], at::zeros({end * ir::itemsize(p.type.dtype)}, at::kByte).storage(), false);
    t = tensor(p);
  }
  return results;
}

namespace {

/// What eager never does: where there is no key it takes another kernel; this one divides by their number.
bool crashes(const LogEntry& e, const std::vector<c10::IValue>& stack) {
  if (!e.info->name.starts_with("aten::_scaled_dot_product_flash_attention_for_cpu")) return false;
  const at::Tensor& key = stack.at(e.info->name.ends_with("_backward") ? 2 : 1).toTensor();
  return key.numel() == 0;
}

}  // namespace

std::vector<at::Tensor> LogRun::step(const LogEntry& e) {
  c10::impl::ExcludeDispatchKeyGuard unrecorded(recorded ? c10::DispatchKeySet() : c10::DispatchKeySet(kRecordingKey));
  at::AutoDispatchBelowADInplaceOrView below_autograd;
  at::AutoGradMode as_recorded(true);
  const AsInBackward as_then(e.backward);
  c10::impl::ExcludeDispatchKeyGuard no_autocast(c10::autocast_dispatch_keyset);
  std::vector<c10::IValue> stack = e.stack;
  for (const auto& o : e.operands) {  // before any tensor is made on it
    if (!o.written || o.place.storage < 0) continue;
    Held& held = storages_.at(o.place.storage);
    if (std::exchange(held.shared, false)) held.storage = copy_bytes(held.storage).storage();
  }
  for (const auto& [arg, length] : e.lists) {
    std::vector<at::Tensor> tensors(length);
    for (const auto& o : e.operands)
      if (o.arg == arg) tensors[static_cast<size_t>(o.item)] = tensor(o.place);
    const auto* type = e.info->args[arg].type->castRaw<c10::ListType>();
    if (type && type->getElementType()->kind() == c10::TypeKind::OptionalType) {
      c10::List<std::optional<at::Tensor>> list;
      for (at::Tensor& t : tensors) list.push_back(t.defined() ? std::optional(std::move(t)) : std::nullopt);
      stack[arg] = std::move(list);
    } else {
      c10::List<at::Tensor> list;
      for (at::Tensor& t : tensors) list.push_back(std::move(t));
      stack[arg] = std::move(list);
    }
  }
  for (const auto& o : e.operands)
    if (o.item < 0) stack[o.arg] = tensor(o.place);
  for (size_t i = 0; i < e.integers.size();) {
    const auto& first = e.integers[i];
    if (first.item < 0) {
      stack[first.arg] = value(first.value);
      ++i;
      continue;
    }
    std::vector<int64_t> list;
    for (; i < e.integers.size() && e.integers[i].arg == first.arg; ++i) list.push_back(value(e.integers[i].value));
    stack[first.arg] = std::move(list);
  }
  if (crashes(e, stack)) throw RunFailure("LibTorch's attention without a mask has no kernel for no keys");
  e.op.callBoxed(stack);
  std::vector<at::Tensor> results;
  for (const c10::IValue& v : stack)
    for (at::Tensor& t : tensors_in(v)) results.push_back(std::move(t));
  if (results.size() != e.results.size())
    throw RunFailure("another number of results: " + std::to_string(results.size()) + ", not " +
                     std::to_string(e.results.size()));
  for (size_t i = 0; i < results.size(); ++i) {
    const int id = e.results[i];
    if (id < 0) {
      results[i] = at::Tensor();  // what was undefined in the call nobody reads: a gradient that was not asked for
      continue;
    }
    if (!results[i].defined() && trial && !has(id)) continue;
    if (!results[i].defined()) throw RunFailure("other results");
    const c10::Storage& s = results[i].storage();
    const auto at = storages_.find(id);
    if (at == storages_.end()) {
      for (const auto& [other, held] : storages_)
        if (held.storage.unsafeGetStorageImpl() == s.unsafeGetStorageImpl())
          throw RunFailure("a result that shares memory with an operand here, and not there");
      storages_[id] = {s, false};
    } else if (at->second.storage.unsafeGetStorageImpl() != s.unsafeGetStorageImpl()) {
      throw RunFailure("a result in other memory");
    }
  }
  return results;
}

}  // namespace precast::trace
