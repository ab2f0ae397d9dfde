#include "trace/op_recorder.h"

#include <c10/core/impl/LocalDispatchKeySet.h>

#include <algorithm>
#include <utility>

#include "host_torch/tensor_types.h"
#include "trace/dynamic.h"
#include "trace/host_readers.h"
#include "trace/op_call.h"
#include "trace/value_conditions.h"

namespace precast::trace {

void OpRecorder::run(const c10::OperatorHandle& op, c10::DispatchKeySet below, torch::jit::Stack* stack) {
  bool ran = false;
  if (!run_through) return record(op, below, stack, ran);
  if (refused_) return run_unrecorded(op, below, stack);
  const size_t begin = stack->size() - op.schema().arguments().size();
  const std::vector<c10::IValue> arguments(stack->begin() + static_cast<std::ptrdiff_t>(begin), stack->end());
  try {
    record(op, below, stack, ran);
  } catch (const PrecompileError&) {
    if (!given_up()) throw;
    unseal_all();
    if (on_refusal) on_refusal();
    if (ran) return;
    stack->resize(begin);
    stack->insert(stack->end(), arguments.begin(), arguments.end());
    c10::impl::ExcludeDispatchKeyGuard unrecorded(kRecordingKey);
    op.redispatchBoxed(below, stack);
  }
}

void OpRecorder::run_unrecorded(const c10::OperatorHandle& op, c10::DispatchKeySet below, torch::jit::Stack* stack) {
  if (before_unrecorded) before_unrecorded();
  c10::impl::ExcludeDispatchKeyGuard unrecorded(kRecordingKey);
  op.redispatchBoxed(below, stack);
}

void OpRecorder::refuse_call(const std::string& message) {
  note_refusal(message);
  if (!run_through) throw *refusal_;
  empty_zeroed();
  unseal_all();
  if (on_refusal) on_refusal();
}

void OpRecorder::record(const c10::OperatorHandle& op, c10::DispatchKeySet below, torch::jit::Stack* stack, bool& ran) {
  std::unique_lock lock(mutex_);
  const OpInfo& info = infos_.get(op);
  if (decompose) {
    lock.unlock();
    if (decompose(info.name, *stack)) return;
    lock.lock();
  }
  if (info.composite) {
    const auto key = below.highestPriorityTypeId();
    if (key == c10::DispatchKey::Undefined || !op.hasKernelForDispatchKey(key)) {
      ValueConditions conditions(*this, info, *stack);
      lock.unlock();  // its inner ops are recorded instead
      if (run_without_reading(op, *stack)) return;
      op.redispatchBoxed(below, stack);
      ran = true;
      lock.lock();
      if (!given_up()) conditions.take_results(*stack);
      return;
    }
  }
  ++op_count_;
  if (!zeroed_.empty() && !is_of_zeroed(torch::jit::last(*stack, op.schema().arguments().size()))) empty_zeroed();
  storages.sweep();
  const auto call = [&] { OpCall(*this, op, info, below, stack, ran).run(); };
  dynamic ? dynamic->run(op, info, stack, call) : call();
}

void OpRecorder::empty_zeroed() {
  for (StorageState* s : std::exchange(zeroed_, {})) {
    at::Tensor& slot = inputs_->entries()[static_cast<size_t>(s->gradient_of)].source->tensor.mutable_grad();
    if (!slot.defined() || !slot.has_storage() || slot.storage().unsafeGetStorageImpl() != s->impl) continue;
    slot.reset();
    s->emptied = true;
  }
}

bool OpRecorder::is_of_zeroed(c10::ArrayRef<c10::IValue> args) {
  return std::ranges::any_of(args, [&](const c10::IValue& v) {
    return v.isTensor() && v.toTensor().defined() && v.toTensor().has_storage() &&
           std::ranges::find(zeroed_, storages.find(v.toTensor())) != zeroed_.end();
  });
}

ir::ValueId OpRecorder::read(const at::Tensor& t, const std::string& reader) {
  StorageState* s = storages.find(t);
  if (!s && t.numel() == 0) s = &storages.add(t, nullptr);
  if (!s) {
    refuse_unknown(t, reader);
    s = &storages.add(t, nullptr);
  }
  check_view(*s, t, reader);
  if (s->zeroed_of >= 0) refuse_zeroed(*s, reader);
  check_contents(*s, t, reader);
  check_watched(*s);
  return builder.read(*s, t);
}

void OpRecorder::refuse(Check check, const std::string& message) {
  if (!is_on(check)) return;
  note_refusal(message);
  throw *refusal_;
}

void OpRecorder::note_refusal(const std::string& message) {
  if (!refusal_) refusal_.emplace(message);
  refused_ = true;
}

bool OpRecorder::is_strange_view(const at::Tensor& t) {
  const StorageState* s = t.defined() && t.has_storage() ? storages.find(t) : nullptr;
  return s && s->is_strange(t);
}

void OpRecorder::accept_view(const at::Tensor& t) {
  StorageState* s = t.defined() && t.has_storage() ? storages.find(t) : nullptr;
  if (s && s->input_group >= 0) s->given.insert(hash_of_window(t));
}

void OpRecorder::check_view(const StorageState& s, const at::Tensor& t, const std::string& reader) {
  if (!s.is_strange(t)) return;
  refuse(Check::read_closed_over_view,
         reader + " uses " + ir::to_string(host_torch::type_of(t)) + ", a view of the memory of " + origin(s) +
             " that was made before the call and is closed over (a captured local, a plain attribute of a module). A "
             "later call may pass other memory: make the view inside the function, or pass it as an argument");
}

void OpRecorder::check_contents(StorageState& s, const at::Tensor& t, const std::string& reader) {
  if (s.known.all() && s.gradient_of < 0 && s.address == address(s.impl)) return;
  if (reading_values && become_constant(builder, s, t)) return;
  check_contents(s, window_of(t), reader);
}

void OpRecorder::check_contents(StorageState& s, const Window& w, const std::string& reader) {
  if (s.address != address(s.impl) && !is_copy_on_write(s.impl))
    refuse(Check::read_replaced_memory,
           reader + " reads " + origin(s) + ", whose memory was replaced outside of any op");
  const std::string what = reader + " reads " + ir::to_string(w.type) + ", ";
  if (s.gradient_of >= 0) {
    // fn has seen a gradient where there is none: what it does from here is not what eager would do.
    if (s.stands_for_nothing && s.value == ir::kNoValue && !refusal_) run_through = false;
    refuse(Check::read_gradient,
           reader + " reads the gradient of " + inputs_->entries()[static_cast<size_t>(s.gradient_of)].source->name +
               ", which depends on what the caller left there; call zero_grad() inside the recorded function before "
               "backward(), or leave .grad alone");
  }
  if (s.known.contains(w)) return;
  if (s.input_group >= 0)
    refuse(Check::read_outside_argument,
           what + "which lies outside of the memory that was passed as " + origin(s) + "; pass the whole tensor");
  if (s.known.none()) return refuse_literal(s, what);
  refuse(Check::read_partly_written,
         what + "of which recorded operations wrote only a part (its memory comes from " + origin(s) + ")");
}

void OpRecorder::refuse_zeroed(const StorageState& s, const std::string& reader) {
  if (s.stands_for_nothing && !refusal_) run_through = false;
  refuse(Check::read_gradient,
         reader + " reads the gradient of " + inputs_->entries()[static_cast<size_t>(s.zeroed_of)].source->name +
             " after it was filled with zeros, and no backward has added to it; whether there is one depends on what "
             "the caller left there; call zero_grad() inside the recorded function, which leaves none");
}

void OpRecorder::refuse_literal(const StorageState& s, const std::string& what) {
  refuse(Check::read_literal,
         what + "a tensor literal: its memory comes from " + origin(s) +
             " and no recorded operation wrote it, so it was "
             "filled through a raw pointer (torch::tensor of a vector, data_ptr, accessor) or not at all. Its values "
             "would be "
             "hard-coded: pass it as an argument (numbers and braced lists, torch::tensor({1, 2}), are fine)");
}

void OpRecorder::refuse_unknown(const at::Tensor& t, const std::string& reader) {
  for (const auto& e : inputs_->entries()) {
    const at::Tensor& input = e.source->tensor;
    if (!input.defined() || !input.is_leaf() || !input.grad().defined() || !t.has_storage()) continue;
    // Not is_alias_of: it reads the data pointer, and a gradient is sealed here.
    if (input.grad().storage().unsafeGetStorageImpl() == t.storage().unsafeGetStorageImpl())
      return refuse(Check::read_others_gradient, reader + " uses the gradient of " + e.source->name +
                                                     ", but only gradients of parameters are carried over, and "
                                                     "those can only be accumulated into; pass it as an argument");
  }
  if (const std::string optimizer = calling_optimizer(); !optimizer.empty())
    return refuse(Check::read_closed_over,
                  reader + " uses state of " + optimizer + " (moments, momentum, a count of steps), " +
                      ir::to_string(host_torch::type_of(t)) +
                      ", which lives outside of the call and would be hard-coded into the artifact: step the optimizer "
                      "outside of the function, or pass its state as arguments and write into it");
  refuse(
      Check::read_closed_over,
      reader + " uses a tensor, " + ir::to_string(host_torch::type_of(t)) +
          ", that is neither an argument, nor a "
          "parameter or buffer of a module argument, nor made inside the function: a tensor closed over (a global, a "
          "captured "
          "local, a plain attribute of a module). It would be hard-coded into the artifact: pass it as an argument, or "
          "register it (register_parameter, register_buffer)");
}

std::string OpRecorder::origin(const StorageState& s) const {
  if (s.input_group >= 0) {
    std::string names;
    for (int m : inputs_->groups()[static_cast<size_t>(s.input_group)].members) {
      const std::string& name = inputs_->entries()[static_cast<size_t>(m)].source->name;
      if (names.find(name) == names.npos) names += (names.empty() ? "" : ", ") + name;
    }
    return names;
  }
  if (s.gradient_of >= 0) return "a gradient";
  return s.maker ? s.maker->name : "outside";
}

void OpRecorder::note_foreign_op(const at::Tensor& t, const std::string& op, bool writes) {
  storages.inspect(t, [&](StorageState& s) {
    if (s.running) return;  // a kernel's own worker thread
    if (s.input_group >= 0 && !writes) return;
    unseal(s.impl);  // let that thread go on: the refusal comes at the end
    std::lock_guard lock(foreign_mutex_);
    if (foreign_op_.empty()) foreign_op_ = op;
  });
}

void OpRecorder::check_foreign() {
  std::lock_guard lock(foreign_mutex_);
  if (!foreign_op_.empty())
    refuse(Check::foreign_thread,
           foreign_op_ +
               " ran on a recorded tensor in a thread that does not record (std::thread, OpenMP); use at::launch, "
               "or keep other threads off these tensors during the call");
}

void OpRecorder::check_random(const std::string& when) {
  if (foreign_draws && !draws()) return;  // what others draw does not touch this call
  if (random_->disturbed())
    refuse(Check::random_state,
           "the default random number generator was seeded, set or used outside of recorded operations (noticed " +
               when +
               "); call torch::manual_seed outside of the recorded function, and let no other thread draw meanwhile");
}

void OpRecorder::check_watched(const StorageState& s) {
  if (!s.hash || s.hash_now() == *s.hash) return;
  if (s.input_group >= 0)
    return refuse(Check::input_raw_write, inputs_->raw_write(inputs_->groups()[static_cast<size_t>(s.input_group)]));
  refuse(
      Check::raw_write,
      "memory of a tensor made by " + origin(s) +
          " was written through a raw pointer (data_ptr, accessor, from_blob) after a recorded operation had written "
          "it; use "
          "tensor operations");
}

void OpRecorder::renew_watched(StorageState& s) {
  const bool may_be_reached = s.hash || (s.maker && s.maker->uninitialized);  // an `empty` is born unsealed
  if (!watch_contents || !may_be_reached) return;
  if (s.input_group < 0) s.watched = {0, s.size};
  s.hash = s.hash_now();
}

void OpRecorder::seal(StorageState& s) {
  if (given_up()) return;
  const bool literal = s.maker && s.maker->uninitialized && s.value == ir::kNoValue;  // raw writes may still come
  if (!s.may_seal || s.sealed || literal || s.size == 0 || s.held_open) return;
  trace::seal(s.impl, s.number);
  s.sealed = true;
}

void OpRecorder::unseal_all() {
  storages.for_each_alive([](StorageState& s) {
    if (s.sealed) unseal(s.impl);
    s.sealed = false;
  });
}

}  // namespace precast::trace
