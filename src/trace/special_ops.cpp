// Ops that are recorded in a way of their own: accumulation into .grad, and the few that look at
// their operand's storage beyond the operand's window.
#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty_like.h>
#include <c10/core/impl/LocalDispatchKeySet.h>

#include <algorithm>
#include <cstring>

#include "trace/op_call.h"

namespace precast::trace {

/// `grad += new` and `grad + new`, as autograd accumulates. The caller's gradient is not part of the graph: there, what
/// is added first is the gradient. Who adds to it by hand has asked whether there is one, unless autograd has added.
bool OpCall::run_accumulation() {
  const bool in_place = info_.special == OpInfo::Special::add_;
  if (!in_place && info_.special != OpInfo::Special::add) return false;
  const at::Tensor grad = args()[0].toTensor(), added = args()[1].toTensor();
  StorageState* s = r_.storages.find(grad);
  StorageState* from = r_.storages.find(added);
  if (!s || s->gradient_of < 0 || (s->value == ir::kNoValue && !in_backward()) || !from || from == s ||
      from->gradient_of >= 0)
    return false;
  if (!s->root.is(grad) || added.sizes() != grad.sizes() || added.scalar_type() != grad.scalar_type() ||
      !args()[2].toScalar().equal(1))
    return false;
  r_.check_view(*from, added, info_.name);
  r_.check_contents(*from, added, info_.name);
  const ir::ValueId value = r_.builder.read(*from, added);
  const bool first = s->value == ir::kNoValue;
  operands_.push_back({grad, s, {}, false, {}});
  operands_.push_back({added, from, {}, false, {}});
  if (in_place && first && s->stands_for_nothing) {
    // Eager would keep `added` itself: 0 + -0 must stay -0.
    stack_->erase(stack_->end() - static_cast<std::ptrdiff_t>(info_.args.size()), stack_->end());
    stack_->emplace_back(grad);
    at::AutoDispatchBelowADInplaceOrView below_autograd;
    c10::impl::ExcludeDispatchKeyGuard unrecorded(kRecordingKey);
    with_memory_open([&] { grad.copy_(added); });
    ran_ = true;
  } else {
    call_kernel();
  }
  StorageState* target = s;
  if (!in_place) {
    const at::Tensor sum = results()[0].toTensor();
    if (first && s->stands_for_nothing) {
      at::AutoDispatchBelowADInplaceOrView below_autograd;
      c10::impl::ExcludeDispatchKeyGuard unrecorded(kRecordingKey);
      with_memory_open([&] { sum.copy_(added); });
    }
    target = &r_.storages.add(sum, &info_);
    target->may_seal = true;
    target->gradient_of = s->gradient_of;
  }
  const ir::Type type = target->root.type;
  auto& g = r_.builder.graph;
  ir::ValueId sum = value;
  if (!first) {
    sum = r_.builder.add_node("aten::add.Tensor",
                              {{"self", refer(s->value)}, {"other", refer(value)}, {"alpha", int64_t{1}}}, type);
  } else if (g.type(value) != type) {
    const ir::ValueId empty = r_.builder.empty(type);
    sum = g.add_value(type);
    g.nodes.push_back({.op = "aten::copy_",
                       .args = {{"self", refer(empty)}, {"src", refer(value)}, {"non_blocking", false}},
                       .outs = {{}},
                       .writes = {{{0, 0}, sum}},
                       .shared = {}});
  }
  r_.builder.replace(*target, target->root, sum);
  r_.seal(*target);
  return true;
}

/// Where there is no gradient eager's zero_grad(false) zeroes nothing, and an optimizer passes by. So from here on
/// there is none: what fn then does holds for calls without it.
bool OpCall::run_zeroing_of_nothing() {
  if (!r_.guards_gradients || info_.name != "aten::zero_") return false;
  const at::Tensor grad = args()[0].toTensor();
  StorageState* s = grad.has_storage() ? r_.storages.find(grad) : nullptr;
  if (!s || s->gradient_of < 0 || !s->stands_for_nothing || s->value != ir::kNoValue || !s->root.is(grad)) return false;
  if (std::ranges::find(r_.zeroed_, s) == r_.zeroed_.end()) r_.zeroed_.push_back(s);
  s->zeroed_of = s->gradient_of;
  ran_ = true;  // the stand-in is zeros
  return true;
}

/// Writes all of an `empty` through indices (scatter_, index_put_). That it wrote all is shown by a second run over
/// other contents; the graph starts from zeros.
bool OpCall::run_overwriting() {
  const auto writes =
      std::count_if(info_.args.begin(), info_.args.end(), [](auto& a) { return a.writes || a.hidden_write; });
  if (writes != 1 || info_.random || !info_.args[0].writes || !info_.args[0].reads_contents || !args()[0].isTensor())
    return false;
  const at::Tensor t = args()[0].toTensor();
  StorageState* s = t.defined() && t.has_storage() ? r_.storages.find(t) : nullptr;
  if (!s || !s->maker || !s->maker->uninitialized || s->value != ir::kNoValue || !s->known.none() || t.numel() == 0 ||
      !s->root.is(t) || !t.is_contiguous())
    return false;
  const auto* now = static_cast<const char*>(address(s->impl)) + s->root.offset;
  const auto bytes = static_cast<size_t>(t.numel()) * t.itemsize();
  std::vector<c10::IValue> again = args().vec();
  at::Tensor other;
  {
    c10::impl::ExcludeDispatchKeyGuard unrecorded(kRecordingKey);
    again[0] = other = at::empty_like(t);
    auto* to = static_cast<char*>(other.mutable_data_ptr());
    for (size_t i = 0; i < bytes; ++i) to[i] = static_cast<char>(~now[i]);
  }
  const ir::Type& type = s->root.type;
  s->known.add(s->root);
  s->value = r_.builder.add_node("aten::full",
                                 {{"size", type.sizes},
                                  {"fill_value", int64_t{0}},
                                  {"dtype", type.dtype},
                                  {"layout", {}},
                                  {"device", type.device},
                                  {"pin_memory", {}}},
                                 type);
  try {
    run_recorded();
  } catch (...) {
    s->known = KnownBytes(s->size);
    s->value = ir::kNoValue;
    throw;
  }
  with_memory_open([&] {
    c10::impl::ExcludeDispatchKeyGuard unrecorded(kRecordingKey);
    op_.redispatchBoxed(below_, &again);
  });
  if (std::memcmp(now, other.const_data_ptr(), bytes) != 0)
    r_.refuse_literal(*s, info_.name + " reads " + ir::to_string(type) + ", ");
  return true;
}

void OpCall::rewrite_special() {
  const auto own_offset = [&] { return args()[0].toTensor().storage_offset(); };
  switch (info_.special) {
    case OpInfo::Special::as_strided_copy: {  // reads its operand's storage: a window and a clone
      StorageState& s = *operands_[0].state;
      const at::Tensor& self = operands_[0].tensor;
      Window w = window_of(self);
      w.type.sizes = *ir::as_dims(node_.args[1].value);
      w.type.strides = *ir::as_dims(node_.args[2].value);
      if (auto* offset = std::get_if<int64_t>(&node_.args[3].value)) w.offset = *offset * ir::itemsize(w.type.dtype);
      r_.check_contents(s, w, info_.name);
      node_.op = "aten::clone";
      node_.args = {{"self", refer(r_.builder.read(s, w))},
                    {"memory_format", static_cast<int64_t>(at::MemoryFormat::Contiguous)}};
      return;
    }
    case OpInfo::Special::as_strided_scatter:
      if (auto* offset = std::get_if<int64_t>(&node_.args[4].value); offset && *offset != own_offset())
        r_.refuse(
            Check::op_storage_offset,
            info_.name + " with an offset into its operand's storage cannot be recorded; use as_strided and copy_");
      node_.args[4].value = {};
      return;
    case OpInfo::Special::zero_tensor:  // a tensor without memory that reads as zeros
      node_.op = "aten::zeros";
      return;
    default:
      return;
  }
}

}  // namespace precast::trace
