#include "trace/inputs.h"

#include <ATen/ops/empty.h>
#include <c10/core/impl/LocalDispatchKeySet.h>

#include <algorithm>
#include <cstring>
#include <map>

#include "host_torch/tensor_types.h"
#include "util/checks.h"

namespace precast::trace {

namespace {

char* bytes_at(c10::StorageImpl* s, int64_t offset) {
  return static_cast<char*>(s->_mutable_data_ptr_no_checks().get()) + offset;
}

/// The window that holds all members: a dense member that covers the rest, or a flat hull.
Window hull(const std::vector<Inputs::Entry>& entries, const std::vector<int>& members) {
  const Window& first = entries[static_cast<size_t>(members[0])].window;
  Bytes all{INT64_MAX, 0};
  bool one_dtype = true;
  for (int m : members) {
    const Window& w = entries[static_cast<size_t>(m)].window;
    one_dtype = one_dtype && w.type.dtype == first.type.dtype;
    if (w.bytes().empty()) continue;
    all = {std::min(all.begin, w.bytes().begin), std::max(all.end, w.bytes().end)};
  }
  if (all.empty()) return first;
  if (std::all_of(members.begin(), members.end(),
                  [&](int m) { return entries[static_cast<size_t>(m)].window == first; }))
    return first;
  for (int m : members) {
    const Window& w = entries[static_cast<size_t>(m)].window;
    if (one_dtype && is_dense(w.type) && !w.type.conj && !w.type.neg && w.bytes().contains(all)) return w;
  }
  ir::Dtype dtype = first.type.dtype;
  for (int m : members)  // every member must lie on the grid of the common dtype
    if (!one_dtype || (entries[static_cast<size_t>(m)].window.offset - all.begin) % ir::itemsize(dtype) != 0)
      dtype = ir::Dtype::u8;
  Window w{ir::contiguous(dtype, {(all.end - all.begin) / ir::itemsize(dtype)}), all.begin};
  w.type.device = first.type.device;
  return w;
}

}  // namespace

std::string short_name(const Source& s) {
  const size_t open = s.name.find('\''), close = s.name.rfind('\'');
  return open < close ? s.name.substr(open + 1, close - open - 1) : s.name;
}

Inputs::Inputs(const Sources& sources, StorageTable& storages, GraphBuilder& builder, bool hash_contents)
    : sources_(sources), hash_contents_(hash_contents) {
  add(sources.params);
  n_params_ = static_cast<int>(entries_.size());
  add(sources.buffers);
  n_module_ = static_cast<int>(entries_.size());
  add(sources.user);
  std::map<c10::StorageImpl*, std::vector<int>> by_storage;
  std::vector<c10::StorageImpl*> order;
  for (size_t i = 0; i < entries_.size(); ++i) {
    auto* impl = entries_[i].storage.unsafeGetStorageImpl();
    if (!impl) continue;
    if (by_storage[impl].empty()) order.push_back(impl);
    by_storage[impl].push_back(static_cast<int>(i));
  }
  for (auto* impl : order) make_group(std::move(by_storage[impl]), storages, builder);
  for (const Group& g : groups_)
    if (const StorageState* other = storages.overlapping(*g.state))
      refuse(
          Check::input_overlap,
          entries_[static_cast<size_t>(g.members[0])].source->name + " and " +
              entries_[static_cast<size_t>(groups_[static_cast<size_t>(other->input_group)].members[0])].source->name +
              " are different storages over the same memory, so writes to one cannot be told from the "
              "other; make them views of one tensor");
}

void Inputs::add(const std::vector<Source>& list) {
  for (const Source& s : list) {
    Entry e{&s, {}, {}, false, -1};
    if (s.tensor.defined()) {
      if (std::string kind = unsupported_kind(s.tensor); !kind.empty())
        refuse(Check::input_kind, s.name + " is " + kind + "; only plain strided CPU tensors can be recorded");
      if (s.tensor._is_zerotensor())
        refuse(Check::input_zero_tensor, s.name + " is a tensor of zeros without memory; pass a copy (.clone())");
      e.storage = s.tensor.storage();
      e.window = window_of(s.tensor);
      e.requires_grad = s.tensor.requires_grad();
    }
    entries_.push_back(std::move(e));
  }
}

void Inputs::make_group(std::vector<int> members, StorageTable& storages, GraphBuilder& builder) {
  Group g;
  g.members = std::move(members);
  g.root = hull(entries_, g.members);
  const Entry& first = entries_[static_cast<size_t>(g.members[0])];
  StorageState& state = storages.add(first.source->tensor, nullptr);
  std::string name = short_name(*first.source);
  if (entries_[static_cast<size_t>(g.members.back())].source->name != first.source->name) name += " and others";
  g.value = builder.graph.add_value(g.root.type, name);
  builder.graph.inputs.push_back(g.value);
  state.root = g.root;
  state.value = g.value;
  state.input_group = static_cast<int>(groups_.size());
  for (int m : g.members) {
    entries_[static_cast<size_t>(m)].group = state.input_group;
    state.known.add(entries_[static_cast<size_t>(m)].window);
    state.given.insert(hash_of_window(entries_[static_cast<size_t>(m)].source->tensor));
  }
  g.state = &state;
  if (hash_contents_) {
    state.watched = g.root.bytes();
    state.hash = state.hash_now();
  }
  groups_.push_back(std::move(g));
}

std::string Inputs::raw_write(const Group& g) const {
  return entries_[static_cast<size_t>(g.members[0])].source->name +
         " was written through a raw pointer (data_ptr, accessor or another thread) inside the recorded function; use "
         "tensor operations" +
         (g.before.defined() ? "" : " (its old contents could not be put back)");
}

void Inputs::note_compared(const StorageState& a, const StorageState& b) {
  if (a.input_group >= 0 && b.input_group >= 0)
    groups_[static_cast<size_t>(a.input_group)].compared.push_back(b.input_group);
}

void Inputs::before_write(StorageState& s, Bytes written) {
  Group& g = groups_[static_cast<size_t>(s.input_group)];
  g.written.push_back(written);
  if (g.before.defined()) return;
  c10::impl::ExcludeDispatchKeyGuard unrecorded(kRecordingKey);
  const Bytes b = g.root.bytes();
  g.before = at::empty({b.end - b.begin}, at::kByte);
  if (!b.empty())
    std::memcpy(g.before.mutable_data_ptr(), bytes_at(s.impl, b.begin), static_cast<size_t>(b.end - b.begin));
}

at::Tensor Inputs::original(const Group& g, const Window& w) const {
  if (!g.before.defined()) return tensor_at(entries_[static_cast<size_t>(g.members[0])].storage, w);
  return host_torch::window(g.before, w.offset - g.root.offset, w.type);
}

void Inputs::check_unchanged() const {
  for (const Entry& e : entries_) {
    const at::Tensor& t = e.source->tensor;
    if (!t.defined()) continue;
    const auto changed = [&](Check check, const char* what) {
      refuse(check, e.source->name + " " + what +
                        " inside the recorded function, which no recorded op shows; "
                        "do that outside of it");
    };
    if (t.storage().unsafeGetStorageImpl() != e.storage.unsafeGetStorageImpl())
      changed(Check::input_rebound, "was given other memory (set_, set_data or .to)");
    if (!e.window.is(t))
      changed(Check::input_geometry, "changed its shape, strides or dtype (t_, squeeze_, resize_ or the like)");
    if (t.requires_grad() != e.requires_grad) changed(Check::input_requires_grad, "changed its requires_grad");
  }
  for (const Group& g : groups_) {
    if (g.state->address != address(g.state->impl))
      refuse(Check::input_memory, entries_[static_cast<size_t>(g.members[0])].source->name +
                                      ": its memory was replaced inside the recorded function, outside of any op");
    if (g.state->hash && g.state->hash_now() != *g.state->hash) refuse(Check::input_raw_write, raw_write(g));
  }
  if (!sources_.modules) return;
  if (const std::string what = sources_.modules->difference(); !what.empty())
    refuse(Check::module_changed,
           what +
               " inside the recorded function, which the artifact could not do again; write into a "
               "tensor in place instead (copy_), pass the new value as an argument, or return it");
}

void Inputs::restore() const {
  if (sources_.modules) sources_.modules->restore();
  c10::impl::ExcludeDispatchKeyGuard unrecorded(kRecordingKey);
  for (const Group& g : groups_) {
    const Bytes b = g.root.bytes();
    if (g.before.defined() && !b.empty())
      std::memcpy(bytes_at(g.state->impl, b.begin), g.before.const_data_ptr(), static_cast<size_t>(b.end - b.begin));
  }
  for (const Entry& e : entries_) {
    const at::Tensor& t = e.source->tensor;
    if (!t.defined()) continue;
    auto* impl = t.unsafeGetTensorImpl();
    if (t.storage().unsafeGetStorageImpl() != e.storage.unsafeGetStorageImpl() || !e.window.is(t)) {
      impl->set_storage_and_dtype(e.storage,
                                  at::scalarTypeToTypeMeta(static_cast<at::ScalarType>(e.window.type.dtype)));
      impl->set_sizes_and_strides(ir::numbers(e.window.type.sizes), ir::numbers(e.window.type.strides),
                                  e.window.offset / ir::itemsize(e.window.type.dtype));
      if (t.is_conj() != e.window.type.conj) t._set_conj(e.window.type.conj);
      if (t.is_neg() != e.window.type.neg) t._set_neg(e.window.type.neg);
    }
    if (t.requires_grad() != e.requires_grad && t.is_leaf()) t.requires_grad_(e.requires_grad);
  }
}

}  // namespace precast::trace
