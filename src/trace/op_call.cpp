#include "trace/op_call.h"

#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/native/TypeProperties.h>
#include <c10/core/impl/LocalDispatchKeySet.h>

#include <algorithm>

#include "host_torch/attributes.h"
#include "trace/attribute.h"
#include "trace/symbols.h"
#include "util/errors.h"

namespace precast::trace {

namespace {

bool is_number(const at::Tensor& t) { return t.unsafeGetTensorImpl()->is_wrapped_number(); }

/// A write through this window can be expressed as a value of its own and a scatter.
bool is_plain(const ir::Type& t) { return !t.conj && !t.neg && !overlaps_itself(t); }

}  // namespace

void OpCall::run() {
  if (r_.refusal_) return run_after_refusal();
  if (info_.resizes) return run_resize();
  if (info_.reshapes || info_.metadata_only) return run_geometry();
  if (info_.is_view) return run_view();
  if (run_accumulation() || run_zeroing_of_nothing() || run_overwriting()) return;
  run_recorded();
}

void OpCall::run_unrecorded() {
  c10::impl::ExcludeDispatchKeyGuard unrecorded(kRecordingKey);
  // Ops on a tensor of zeros without memory ask the meta device for shapes: such a tensor gets memory here.
  if (info_.special == OpInfo::Special::zero_tensor) {
    static const auto zeros = c10::Dispatcher::singleton().findSchemaOrThrow("aten::zeros", "");
    at::AutoDispatchBelowADInplaceOrView below_autograd;
    zeros.callBoxed(stack_);
  } else {
    op_.redispatchBoxed(below_, stack_);
  }
  ran_ = true;
}

/// Operands whose values do not matter, so that their memory can be opened.
void OpCall::collect_known() {
  for (size_t i = 0; i < info_.args.size(); ++i) {
    const ArgInfo& a = info_.args[i];
    const auto take = [&](const c10::IValue& v) {
      const bool tensor = v.isTensor() && v.toTensor().defined() && v.toTensor().has_storage();
      if (!tensor && !v.isStorage()) return;
      if (StorageState* s = tensor ? r_.storages.find(v.toTensor()) : r_.storages.find(v.toStorage()))
        operands_.push_back({tensor ? v.toTensor() : at::Tensor(), s, {}, tensor && (a.writes || a.hidden_write), {}});
    };
    take(args()[i]);
    if (a.kind == ArgInfo::Kind::tensors && args()[i].isList())
      for (const c10::IValue& item : args()[i].toListRef()) take(item);
  }
}

/// fn swallowed the refusal and goes on: what it writes must still be undone.
void OpCall::run_after_refusal() {
  if (info_.resizes) throw *r_.refusal_;
  collect_known();
  prepare_writes();
  call_kernel();
}

/// Only the geometry of a tensor changes, or is asked for.
void OpCall::run_geometry() {
  collect_known();
  bool from_strange = false;
  for (const Operand& o : operands_)
    from_strange = from_strange || (o.tensor.defined() && o.state->is_strange(o.tensor));
  call_kernel();
  if (info_.compares_memory && operands_.size() == 2)
    r_.inputs_->note_compared(*operands_[0].state, *operands_[1].state);
  if (from_strange) return;
  for (const c10::IValue& v : results())
    if (v.isTensor()) r_.accept_view(v.toTensor());
}

void OpCall::run_view() {
  const std::vector<c10::IValue> saved = args().vec();  // nothing is written: operands can be read after the kernel
  if (info_.name.starts_with("aten::")) {
    run_unrecorded();  // touches no memory
  } else {
    collect_known();
    call_kernel();
    operands_.clear();
  }
  const auto known = [&](const at::Tensor& t) { return !t.defined() || !t.has_storage() || r_.storages.find(t); };
  bool all_known = true;
  bool from_unknown = false, from_strange = false;  // a view of such a tensor is refused when it is read
  for (const c10::IValue& v : saved) {
    if (!v.isTensor() || !v.toTensor().defined()) continue;
    from_unknown = from_unknown || !r_.storages.find(v.toTensor());
    from_strange = from_strange || r_.is_strange_view(v.toTensor());
  }
  const auto take = [&](const at::Tensor& t) {
    all_known = all_known && known(t);
    if (!from_strange) r_.accept_view(t);
  };
  for (const c10::IValue& v : results()) {
    if (v.isTensor()) take(v.toTensor());
    if (v.isTensorList())
      for (const at::Tensor& t : v.toTensorVector()) take(t);
  }
  if (all_known || from_unknown) return;
  take_operands(saved);
  take_results();
  finish_node();
}

void OpCall::run_resize() {
  const at::Tensor t = args()[0].toTensor();
  StorageState* state = t.has_storage() ? r_.storages.find(t) : nullptr;
  if (state && state->input_group >= 0)
    r_.refuse(Check::op_resizes_input, info_.name + " resizes " + r_.origin(*state) +
                                           "; the caller's tensors keep their size in a recorded function");
  if (state && state->sealed) {
    unseal(state->impl);
    state->sealed = false;
  }
  if (state) r_.check_watched(*state);
  run_unrecorded();
  if (!state) return;
  const auto size = static_cast<int64_t>(state->impl->nbytes());
  if (size != state->size) r_.builder.grow(*state, size);
  state->address = address(state->impl);
  if (state->hash) r_.renew_watched(*state);
  r_.seal(*state);
}

void OpCall::run_recorded() {
  node_.op = info_.name;
  take_operands(args());
  if (info_.special != OpInfo::Special::none) rewrite_special();
  for (const Operand& o : operands_) r_.check_watched(*o.state);
  if (info_.writes) prepare_writes();
  if (info_.random) r_.check_random("before " + info_.name);
  call_kernel();
  if (info_.random) r_.random_->accept();
  take_results();
  take_writes();
  finish_node();
}

// ---- Before the kernel

bool OpCall::happens(const ArgInfo& a) const { return a.writes || (a.hidden_write && hidden_writes_); }

void OpCall::take_operands(c10::ArrayRef<c10::IValue> args) {
  node_.op = info_.name;
  node_.args.reserve(args.size());
  hidden_writes_ = info_.hidden_write_if < 0 || args[static_cast<size_t>(info_.hidden_write_if)].toBool();
  for (size_t i = 0; i < args.size(); ++i) {
    const ArgInfo& a = info_.args[i];
    const c10::IValue& v = args[i];
    const int index = static_cast<int>(i);
    ir::Attr attr;
    if (a.kind == ArgInfo::Kind::tensor && !v.isNone()) {
      attr = take_operand(v.toTensor(), a, {index, 0});
    } else if (a.kind == ArgInfo::Kind::tensors && !v.isNone()) {
      std::vector<ir::Ref> refs;
      for (const c10::IValue& item : v.toListRef()) {
        const ir::Attr one =
            item.isNone() ? ir::Attr{} : take_operand(item.toTensor(), a, {index, static_cast<int>(refs.size())});
        const auto* ref = std::get_if<ir::Ref>(&one);
        refs.push_back(ref ? *ref : ir::Ref{});
      }
      attr = std::move(refs);
    } else {
      auto converted = to_attribute(v, *a.type);
      if (!converted && v.isGenerator())
        r_.refuse(Check::op_generator,
                  info_.name +
                      " draws from a generator of its own; only the default generator can be recorded "
                      "(torch::manual_seed before the call)");
      if (!converted)
        r_.refuse(Check::op_argument_form,
                  info_.name + ": its argument '" + a.name + "' (" + a.type->str() + ") has no form in a graph");
      if (converted) attr = std::move(*converted);
    }
    node_.args.push_back({a.name, std::move(attr)});
  }
  if (!numbers_.empty()) place_numbers();
}

ir::Attr OpCall::take_operand(const at::Tensor& t, const ArgInfo& a, ir::Slot slot) {
  if (!t.defined()) return {};
  StorageState* state = t.has_storage() ? r_.storages.find(t) : nullptr;
  if (!state) {
    if (a.kind == ArgInfo::Kind::tensor && is_number(t) && !a.writes) {
      numbers_.push_back(static_cast<size_t>(slot.arg));
      return to_attribute(number_in(t));
    }
    state = &adopt_unknown(t);
  }
  const bool writes = happens(a);
  r_.check_view(*state, t, info_.name);
  if (a.reads_contents && state->zeroed_of >= 0 && !in_backward()) r_.refuse_zeroed(*state, info_.name);
  if ((a.reads_contents && !copies_gaps(t, *state)) || (writes && state->gradient_of >= 0 && !state->root.is(t)))
    r_.check_contents(*state, t, info_.name);
  const ir::ValueId value = r_.builder.read(*state, t);
  if (state->last_op != r_.op_count_) state->uses = 0;
  state->last_op = r_.op_count_;
  ++state->uses;
  operands_.push_back({t, state, slot, writes, {}});
  return ir::Ref{value};
}

/// Memory that is written in part may be moved, as padding by copies does: what is unknown stays so where it comes to
/// lie.
bool OpCall::copies_gaps(const at::Tensor& src, StorageState& s) {
  if (info_.special != OpInfo::Special::copy_ || s.known.all() || s.known.none() || !s.maker || !s.maker->uninitialized)
    return false;
  const at::Tensor dst = args()[0].toTensor();
  StorageState* to = r_.storages.find(dst);
  if (!to || to->input_group >= 0 || to->gradient_of >= 0 || dst.scalar_type() != src.scalar_type() ||
      dst.sizes() != src.sizes())
    return false;
  gaps_ = s.known.gaps(window_of(src), window_of(dst));
  return true;
}

/// A tensor without a known storage that is no constant: a number, or one without elements.
StorageState& OpCall::adopt_unknown(const at::Tensor& t) {
  if (std::string kind = unsupported_kind(t); !kind.empty())
    r_.refuse(Check::op_operand_kind,
              info_.name + " reads " + kind + "; only plain strided CPU tensors can be recorded");
  const bool number = t.dim() == 0 && (is_number(t) || r_.births.contains(t));
  if (!number && t.numel() != 0) r_.refuse_unknown(t, info_.name);
  StorageState& state = r_.storages.add(t, &info_);
  if (number) {
    const auto dtype = static_cast<ir::Dtype>(t.scalar_type());
    r_.builder.replace(state, window_of(t), r_.builder.number(to_attribute(number_in(t)), dtype));
  }
  return state;
}

/// Wrapped numbers: the overload for numbers if there is one, else a 0-dim tensor of the dtype the op computes in.
void OpCall::place_numbers() {
  if (const OpInfo* other = r_.infos_.with_numbers(info_, numbers_)) {
    node_.op = other->name;
    return;
  }
  at::native::ResultTypeState types;
  const auto all = args();
  for (size_t i = 0; i < all.size(); ++i)
    if (info_.args[i].kind == ArgInfo::Kind::tensor && all[i].isTensor() && all[i].toTensor().defined())
      types = at::native::update_result_type_state(all[i].toTensor(), types);
  const auto dtype = static_cast<ir::Dtype>(at::native::result_type(types));
  for (size_t i : numbers_) node_.args[i].value = ir::Ref{r_.builder.number(node_.args[i].value, dtype)};
}

void OpCall::prepare_writes() {
  for (Operand& o : operands_) {
    if (!o.writes) continue;
    o.window = window_of(o.tensor);
    if (o.state->input_group >= 0) r_.inputs_->before_write(*o.state, o.window.bytes());
  }
}

void OpCall::open(StorageState& s) {
  s.running = true;
  if (s.sealed) unseal(s.impl);
  s.sealed = false;
}

void OpCall::close_all() {
  for (Operand& o : operands_) {
    o.state->running = false;
    r_.seal(*o.state);
  }
}

// ---- After it

/// The same in every call: traces turn sizes into tensors, compute with them, and read the results as numbers.
bool OpCall::is_constant() const {
  std::vector<ir::ValueId> read;
  ir::for_each_operand(node_, [&](ir::Slot, ir::ValueId id) { read.push_back(id); });
  return !info_.random && !info_.writes && r_.builder.is_constant(read);
}

/// " of aten::sum and argument 1": where the operands come from.
std::string OpCall::origins() const {
  std::string names;
  for (const Operand& o : operands_) names += (names.empty() ? " of " : " and ") + r_.origin(*o.state);
  return names;
}

void OpCall::take_results() {
  for (const c10::IValue& v : results()) {
    ir::Out out;
    if (v.isTensor()) {
      out.id = take_result(v.toTensor());
    } else if (v.isTensorList()) {
      out.is_list = true;
      for (const at::Tensor& t : v.toTensorVector()) out.list.push_back({take_result(t)});
    } else if (!v.isNone() && !is_constant()) {
      auto expect = to_attribute(v, *op_.schema().returns()[node_.outs.size()].real_type());
      if (!expect)
        r_.refuse(Check::op_result_form,
                  info_.name + " returns something that has no form in a graph (" + v.tagKind() + ")");
      if (expect) out.expect = std::move(*expect);
      needed_ = true;
      r_.conditions.push_back(info_.name + origins() + " = " + host_torch::in_words(out.expect) +
                              (r_.name_places ? calling_place() : ""));
    }
    node_.outs.push_back(std::move(out));
  }
}

ir::ValueId OpCall::take_result(const at::Tensor& t) {
  if (!t.defined()) return ir::kNoValue;
  if (std::string kind = unsupported_kind(t); !kind.empty())
    r_.refuse(Check::op_result_kind,
              info_.name + " makes " + kind + "; only plain strided CPU tensors can be recorded");
  StorageState* state = r_.storages.find(t);
  if (state) {
    const bool mine = std::any_of(fresh_.begin(), fresh_.end(), [&](auto& f) { return f.state == state; });
    r_.accept_view(t);
    if (!mine || state->root.is(t)) return ir::kNoValue;  // an alias of something known
  } else {
    state = &r_.storages.add(t, &info_);
    state->may_seal = true;
    if (info_.uninitialized) return ir::kNoValue;
    if (!is_own_memory(state->impl)) {
      if (const StorageState* other = r_.storages.overlapping(*state))
        r_.refuse(Check::op_overlap, info_.name + " returns new storage over the memory of " + r_.origin(*other) +
                                         ", so writes to one cannot be told from the other");
    }
  }
  Window window = window_of(t);
  const ir::ValueId value = r_.builder.graph.add_value(window.type);
  fresh_.push_back({state, std::move(window), value});
  needed_ = true;
  return value;
}

/// What operands write of this storage is seen by no other operand, or only as a pointwise op sees what it overwrites.
bool OpCall::writes_apart(const StorageState& s) const {
  if (s.uses == 1) return true;
  for (const Operand& o : operands_) {
    if (o.state != &s || !o.writes) continue;
    const Window written = window_of(o.tensor);
    for (const Operand& other : operands_) {
      if (other.state != &s || &other == &o) continue;
      const Window w = window_of(other.tensor);
      if (!(info_.pointwise && !other.writes && w == written) && !disjoint(w, written)) return false;
    }
  }
  return true;
}

void OpCall::take_writes() {
  for (Operand& o : operands_) {
    if (!o.writes) continue;
    needed_ = true;
    if (o.tensor.storage().unsafeGetStorageImpl() != o.state->impl)
      r_.refuse(Check::op_gives_memory, info_.name + " gives its argument '" +
                                            info_.args[static_cast<size_t>(o.slot.arg)].name + "' other memory");
    Window now = window_of(o.tensor);
    if (!(now == o.window) || static_cast<int64_t>(o.state->impl->nbytes()) != o.state->size) {
      take_resized(o, std::move(now));
    } else if (writes_apart(*o.state) && (is_plain(now.type) || now.bytes().empty())) {
      const ir::ValueId value = r_.builder.graph.add_value(now.type);
      node_.writes.push_back({o.slot, value});
      plain_writes_.emplace_back(&o, value);
    } else if (!now.bytes().empty()) {
      written_windows_.emplace_back(o.state, now);
    }
  }
  for (const auto& [state, window] : written_windows_) {
    const StorageState* s = state;
    if (std::find(shared_states_.begin(), shared_states_.end(), s) != shared_states_.end()) continue;
    shared_states_.push_back(state);
    ir::Shared group{.base = s->value, .value = r_.builder.graph.add_value(s->root.type), .views = {}};
    for (const Operand& o : operands_) {
      if (o.state != s) continue;
      Window w = o.writes ? o.window : window_of(o.tensor);
      if (!w.bytes().empty()) group.views.push_back({o.slot, w.offset - s->root.offset, std::move(w.type)});
    }
    node_.shared.push_back(std::move(group));
  }
}

/// out= on a tensor of another size: the op starts from an empty tensor of the final geometry instead.
void OpCall::take_resized(Operand& o, Window now) {
  if (o.state->input_group >= 0 || o.state->uses > 1)
    r_.refuse(Check::op_resizes_output, info_.name + " resizes " + r_.origin(*o.state) +
                                            "; the caller's tensors keep their size in a recorded function");
  const ir::ValueId before = r_.builder.empty(now.type), after = r_.builder.graph.add_value(now.type);
  ir::Attr& attr = node_.args[static_cast<size_t>(o.slot.arg)].value;
  if (auto* refs = std::get_if<std::vector<ir::Ref>>(&attr))
    (*refs)[static_cast<size_t>(o.slot.item)].id = before;
  else
    attr = ir::Ref{before};
  node_.writes.push_back({o.slot, after});
  o.state->size = static_cast<int64_t>(o.state->impl->nbytes());
  o.state->known = KnownBytes(o.state->size);
  r_.builder.replace(*o.state, std::move(now), after);
}

void OpCall::finish_node() {
  if (!needed_ && !info_.random && info_.returns != 0) return;
  for (size_t i = 0; i < shared_states_.size(); ++i) {
    shared_states_[i]->value = node_.shared[i].value;
    shared_states_[i]->views.clear();
  }
  if (info_.random) r_.builder.random_nodes.insert(r_.builder.graph.nodes.size());
  r_.builder.graph.nodes.push_back(std::move(node_));
  for (const auto& [operand, value] : plain_writes_) r_.builder.write(*operand->state, operand->window, value);
  for (const auto& [state, window] : written_windows_) state->known.add(window);
  for (const Operand& o : operands_)
    if (o.writes) {
      o.state->address = address(o.state->impl);
      r_.renew_watched(*o.state);
      const bool zeroes = info_.name == "aten::zero_" || info_.name == "aten::_foreach_zero_";
      o.state->zeroed_of = zeroes ? std::max(o.state->gradient_of, o.state->zeroed_of) : -1;
      o.state->gradient_of = -1;
      o.state->known.remove(gaps_);
      r_.seal(*o.state);  // an `empty` that holds something now
    }
  merge_fresh();
}

/// Usually a result has memory of its own. Results that share it become windows of one value.
void OpCall::merge_fresh() {
  for (size_t i = 0; i < fresh_.size(); ++i) {
    StorageState& s = *fresh_[i].state;
    if (s.value != ir::kNoValue) continue;
    std::vector<const Fresh*> members;
    for (const Fresh& f : fresh_)
      if (f.state == &s) members.push_back(&f);
    if (members.size() == 1) {
      r_.builder.replace(s, fresh_[i].window, fresh_[i].value);
    } else {
      const ir::Dtype dtype = fresh_[i].window.type.dtype;
      s.root = {ir::contiguous(dtype, {s.size / ir::itemsize(dtype)}), 0};
      for (const Fresh* f : members) r_.builder.write(s, f->window, f->value);
      s.views.clear();
      for (const Fresh* f : members) s.views.emplace_back(f->window, f->value);
    }
    r_.seal(s);
  }
}

}  // namespace precast::trace
