#include "trace/dynamic.h"

#include <ATen/core/grad_mode.h>
#include <c10/core/impl/LocalDispatchKeySet.h>

#include <algorithm>

#include "host_torch/tensor_types.h"
#include "trace/geometry.h"
#include "trace/torch_internals.h"
#include "util/errors.h"

namespace precast::trace {

using ir::Size;

Dynamic::Dynamic(const Sources& sources)
    : sources_(sources), symbols_(std::make_shared<Symbols>()), tensors_(std::make_shared<SymTensors>()) {
  tensors_->symbols = symbols_;
  for (const Source& p : sources.params)
    had_gradient_.push_back(p.tensor.defined() && p.tensor.is_leaf() && p.tensor.grad().defined());
  read_marks();
}

Dynamic::~Dynamic() { end(nullptr); }

const Source& Dynamic::source(int index) const {
  auto i = static_cast<size_t>(index);
  if (i < sources_.params.size()) return sources_.params[i];
  i -= sources_.params.size();
  if (i < sources_.buffers.size()) return sources_.buffers[i];
  return sources_.user.at(i - sources_.buffers.size());
}

int Dynamic::count_sources() const {
  return static_cast<int>(sources_.params.size() + sources_.buffers.size() + sources_.user.size());
}

void Dynamic::begin() {
  c10::impl::ExcludeDispatchKeyGuard unrecorded(kRecordingKey);
  at::NoGradGuard no_grad;
  const auto add_base = [&](const at::Tensor& t, int source, int gradient_of) -> Base& {
    const int id = storage_id(t);
    const int64_t end = host_torch::type_of(t).span_bytes() + t.storage_offset() * static_cast<int64_t>(t.itemsize());
    for (Base& b : bases_)
      if (b.storage == id) {
        b.end = std::max(b.end, end);
        return b;
      }
    bases_.push_back({id, source, gradient_of, false, t.storage(), end});
    return bases_.back();
  };
  for (int i = 0; i < count_sources(); ++i) {
    const at::Tensor& t = source(i).tensor;
    if (!t.defined()) continue;
    add_base(t, i, -1);
    if (i < static_cast<int>(sources_.params.size()) && t.is_leaf() && t.grad().defined()) add_base(t.grad(), -1, i);
  }
  for (Marked& m : marked_) {
    m.contents = host_torch::clone_bytes(m.real);
    for (Base& b : bases_)
      if (b.storage == storage_id(m.real)) b.marked = true;
  }
  for (const Base& b : bases_)
    if (!b.marked) fixed_ends_[b.storage] = b.end;
  restart(5);
  for (Marked& m : marked_) {
    m.stand_in = at::Tensor(c10::make_intrusive<SymTensor>(tensors_, m.real, m.type, Size(m.real.storage_offset())));
    if (m.real.requires_grad()) m.stand_in.requires_grad_(true);
    if (m.real.grad().defined()) m.stand_in.mutable_grad() = m.real.grad();
    for (size_t u : m.users) {
      PRECAST_CHECK(sources_.user[u].handle, "a marked argument without a handle");
      *sources_.user[u].handle = m.stand_in;
    }
  }
}

void Dynamic::end(std::vector<Leaf>* results) {
  if (std::exchange(ended_, true)) return;
  c10::impl::ExcludeDispatchKeyGuard unrecorded(kRecordingKey);
  try {
    if (results) {
      for (const Leaf& leaf : *results) {
        leaves_.push_back({{}, leaf.value, leaf.is_tensor});
        results_.push_back(leaf.is_tensor ? leaving(leaf.tensor, "result " + std::to_string(results_.size()))
                                          : Leaving());
      }
      for (size_t i = 0; i < sources_.params.size(); ++i) {
        const at::Tensor& p = sources_.params[i].tensor;
        gradients_.push_back(
            p.defined() && p.is_leaf() ? leaving(p.grad(), "the gradient of " + sources_.params[i].name) : Leaving());
      }
    }
  } catch (...) {
    tensors_->thaw();
    throw;
  }
  tensors_->thaw();
  symbols_->refuse = nullptr;  // what lives longer than the call asks later
  shadows_.clear();
  for (Marked& m : marked_) {
    if (!m.stand_in.defined()) continue;
    for (size_t u : m.users) {
      at::Tensor& handle = *sources_.user[u].handle;
      if (handle.unsafeGetTensorImpl() == m.stand_in.unsafeGetTensorImpl()) handle = m.real;
    }
    if (results)
      for (Leaf& leaf : *results)
        if (leaf.is_tensor && leaf.tensor.unsafeGetTensorImpl() == m.stand_in.unsafeGetTensorImpl())
          leaf.tensor = m.real;
    if (m.stand_in.grad().unsafeGetTensorImpl() != m.real.grad().unsafeGetTensorImpl())
      m.real.mutable_grad() = m.stand_in.grad();  // refused by who looks at gradients
    m.stand_in = at::Tensor();
  }
}

int Dynamic::storage_id(const at::Tensor& t) {
  auto* impl = t.storage().unsafeGetStorageImpl();
  const auto [at, is_new] = storages_.try_emplace(
      impl, Known{c10::weak_intrusive_ptr<c10::StorageImpl>(t.storage().getWeakStorageImpl()), next_storage_});
  if (is_new) ++next_storage_;
  return at->second.id;
}

/// Forgets storages that are gone.
void Dynamic::sweep() {
  for (auto at = storages_.begin(); at != storages_.end();) {
    const bool base =
        std::any_of(bases_.begin(), bases_.end(), [&](const Base& b) { return b.storage == at->second.id; });
    if (base || !at->second.weak.expired()) {
      ++at;
      continue;
    }
    for (LogRun& s : shadows_) s.forget(at->second.id);
    at = storages_.erase(at);
  }
}

Place Dynamic::place_of(const at::Tensor& t, const std::string& reader) {
  Place p;
  if (!t.defined() || !t.has_storage()) return p;
  if (auto* sym = SymTensor::of(t)) {
    p.storage = storage_id(t);
    p.type = sym->type();
    p.offset = sym->offset();
    return p;
  }
  const auto at = storages_.find(t.storage().unsafeGetStorageImpl());
  if (at == storages_.end() || t.unsafeGetTensorImpl()->is_wrapped_number()) {
    p.number = t;  // the recorder knows whether it may be read
    return p;
  }
  p.storage = at->second.id;
  p.type = host_torch::type_of(t);
  p.offset = t.storage_offset();
  for (const Base& b : bases_)
    if (b.marked && b.storage == p.storage && !plain_views_.contains(geometry_text(t)))
      symbols_->refuse(Check::dynamic_alias, reader + " reads " + source(b.source).name +
                                                 ", which has a marked dim, through another handle than the function's "
                                                 "argument (a captured variable); use the argument");
  return p;
}

Dynamic::Leaving Dynamic::leaving(const at::Tensor& t, const std::string& what) {
  Leaving l;
  if (!t.defined() || !t.has_storage()) return l;
  l.object = t.unsafeGetTensorImpl();
  for (const Marked& m : marked_)
    if (m.stand_in.unsafeGetTensorImpl() == l.object)
      l.source = static_cast<int>(sources_.params.size() + sources_.buffers.size() + m.users[0]);
  for (int i = 0; i < count_sources(); ++i)
    if (l.source < 0 && source(i).tensor.unsafeGetTensorImpl() == l.object) l.source = i;
  if (l.source < 0) l.place = place_of(t, what);
  return l;
}

}  // namespace precast::trace
