#include "host_torch/module_imprint.h"

#include <torch/csrc/jit/api/module.h>

#include <algorithm>
#include <bit>
#include <sstream>

#include "host_torch/module_members.h"
#include "host_torch/module_tensors.h"

namespace precast::host_torch {

namespace {

const std::string kEnd;  // closes a module, so that nesting shows

/// mark(key, identity, tensor) returns whether to go on; the tensor is null for what is none.
template <class F>
bool walk_module(const torch::nn::Module& m, F& mark) {
  for (const auto& p : own_parameters(m))
    if (!mark(p.key(), p.value().unsafeGetTensorImpl(), &p.value())) return false;
  for (const auto& b : own_buffers(m))
    if (!mark(b.key(), b.value().unsafeGetTensorImpl(), &b.value())) return false;
  for (const auto& child : own_children(m))
    if (!mark(child.key(), child.value().get(), nullptr) || (child.value() && !walk_module(*child.value(), mark)))
      return false;
  return mark(kEnd, m.is_training() ? &m : nullptr, nullptr);
}

/// Stands for the value of an attribute that is no tensor.
const void* fingerprint(const c10::IValue& v) {
  size_t bits = 0;
  if (v.isBool()) bits = v.toBool();
  if (v.isInt()) bits = static_cast<size_t>(v.toInt());
  if (v.isDouble()) bits = std::bit_cast<size_t>(v.toDouble());
  if (v.isString()) bits = std::hash<std::string>()(v.toStringRef());
  if (v.isList() || v.isTuple() || v.isGenericDict()) {
    std::ostringstream text;
    text << v;
    bits = std::hash<std::string>()(text.str());
  }
  return reinterpret_cast<const void*>(bits);  // NOLINT: compared, never followed
}

bool holds_tensors(const c10::IValue& v) {
  bool any = false;
  for_each_tensor(kEnd, v, [&](const std::string&, const at::Tensor&) { any = true; });
  return any;
}

/// A TorchScript class fixes names and constants, so its identity stands for them.
template <class F>
bool walk_script(const c10::ivalue::Object& object, F& mark) {
  if (!mark(kEnd, object.type().get(), nullptr)) return false;
  for (const c10::IValue& slot : object.slots()) {
    if (slot.isObject()) {
      if (!walk_script(slot.toObjectRef(), mark)) return false;
    } else if (slot.isTensor()) {
      if (!mark(kEnd, slot.toTensor().unsafeGetTensorImpl(), &slot.toTensor())) return false;
    } else if ((slot.isList() || slot.isTuple() || slot.isGenericDict()) && holds_tensors(slot)) {
      bool same = true;
      for_each_tensor(kEnd, slot, [&](const std::string& key, const at::Tensor& t) {
        same = same && mark(key, t.unsafeGetTensorImpl(), nullptr);  // `t` may be a copy
      });
      if (!same) return false;
    } else if (!mark(kEnd, fingerprint(slot), nullptr)) {
      return false;
    }
  }
  return mark(kEnd, nullptr, nullptr);
}

template <class F>
void walk(std::span<const detail::ModuleRef> modules, F&& mark) {
  for (size_t i = 0; i < modules.size(); ++i) {
    require_module(modules[i], i);
    const auto [module, script, object, bytes] = modules[i];
    if (module ? !mark(kEnd, module, nullptr) || !walk_module(*module, mark) : !walk_script(*script->_ivalue(), mark))
      return;
  }
}

}  // namespace

ModuleImprint::ModuleImprint(std::span<const detail::ModuleRef> modules, const std::vector<at::Tensor>& wanted) {
  walk(modules, [&](const std::string& key, const void* identity, const at::Tensor* tensor) {
    marks_.push_back({identity, &key, tensor});
    keys_.push_back(key);
    if (tensor && tensor->defined()) held_.emplace_back(tensor->getIntrusivePtr());
    return true;
  });
  for (const at::Tensor& t : wanted) {
    places_.push_back(place(t));
    constants_.push_back(places_.back() < 0 ? t : at::Tensor());
  }
  for (size_t i = 0; i < wanted.size(); ++i)
    wanted_.push_back(places_[i] < 0 ? &constants_[i] : marks_[static_cast<size_t>(places_[i])].tensor);
  if (std::ranges::any_of(modules, [](const detail::ModuleRef& ref) { return !ref.module; })) return;
  for (const detail::ModuleRef& ref : modules) {
    roots_.push_back(ref.module);
    hold(*ref.module);
  }
}

/// Follows walk_module.
void ModuleImprint::hold(const torch::nn::Module& m) {
  const auto &parameters = own_parameters(m).items(), &buffers = own_buffers(m).items();
  const auto& children = own_children(m).items();
  modules_.push_back({&m, parameters.data(), buffers.data(), children.data(), parameters.size(), buffers.size(),
                      children.size(), children_.size(), m.is_training()});
  for (const auto* list : {&parameters, &buffers})
    for (const auto& item : *list) entries_.push_back({&item.value(), item.value().unsafeGetTensorImpl()});
  for (const auto& child : children) children_.push_back(child.value().get());
  for (const auto& child : children)
    if (child.value()) hold(*child.value());
}

bool ModuleImprint::lies_as_before(std::span<const detail::ModuleRef> modules) const {
  if (modules_.empty() || modules.size() != roots_.size()) return false;
  for (size_t i = 0; i < modules.size(); ++i)
    if (modules[i].module != roots_[i]) return false;
  for (const Held& h : modules_) {  // its parent has been seen to hold it, so it is there
    const auto same = [](const auto& items, const void* where, size_t n) {
      return (items.data() == where) & (items.size() == n);
    };
    const auto& children = own_children(*h.module).items();
    if (!(same(own_parameters(*h.module).items(), h.parameters, h.n_parameters) &
          same(own_buffers(*h.module).items(), h.buffers, h.n_buffers) & same(children, h.children, h.n_children) &
          (training_flag(*h.module) == h.training)))
      return false;
    for (size_t i = 0; i < h.n_children; ++i)
      if (children[i].value().get() != children_[h.first_child + i]) return false;
  }
  bool same = true;  // without a branch each: the loads overlap
  for (const Entry& e : entries_) same &= e.where->unsafeGetTensorImpl() == e.identity;
  return same;
}

bool ModuleImprint::matches(std::span<const detail::ModuleRef> modules,
                            c10::SmallVectorImpl<const at::Tensor*>& tensors) const {
  if (lies_as_before(modules)) {
    tensors.append(wanted_.begin(), wanted_.end());
    return true;
  }
  c10::SmallVector<const at::Tensor*, 128> at;
  bool same = true;
  walk(modules, [&](const std::string& key, const void* identity, const at::Tensor* tensor) {
    const size_t next = at.size();
    same = next < marks_.size() && marks_[next].identity == identity &&
           (marks_[next].address == &key || keys_[next] == key);
    at.push_back(tensor);
    return same;
  });
  if (!same || at.size() != marks_.size()) return false;
  for (size_t i = 0; i < places_.size(); ++i)
    tensors.push_back(places_[i] < 0 ? &constants_[i] : at[static_cast<size_t>(places_[i])]);
  return true;
}

int ModuleImprint::place(const at::Tensor& t) const {
  for (size_t i = 0; i < marks_.size(); ++i)
    if (marks_[i].tensor && marks_[i].identity == t.unsafeGetTensorImpl()) return static_cast<int>(i);
  return -1;
}

}  // namespace precast::host_torch
