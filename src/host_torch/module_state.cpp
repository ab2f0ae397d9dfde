#include "host_torch/module_state.h"

#include <torch/csrc/jit/api/module.h>

#include <algorithm>
#include <functional>
#include <sstream>

#include "host_torch/module_members.h"

namespace precast::host_torch {

namespace {

using artifact::ModuleAttribute;
constexpr const char* kTraining = "training";

/// No tensor and no object in it.
bool is_plain(const c10::IValue& v) {
  if (v.isList()) return std::ranges::all_of(v.toListRef(), is_plain);
  if (v.isTuple()) return std::ranges::all_of(v.toTupleRef().elements(), is_plain);
  if (v.isGenericDict()) {
    bool plain = true;
    for (const auto& e : v.toGenericDict()) plain = plain && is_plain(e.key()) && is_plain(e.value());
    return plain;
  }
  return v.isNone() || v.isScalar() || v.isString() || v.isDevice();
}

/// Calls f(path, name, slot) for the slots of a script module and its submodules, in order.
template <class F>
void for_each_slot(const std::string& path, const c10::ivalue::Object& object, F&& f) {
  const auto& type = *object.type();
  for (size_t i = 0; i < object.slots().size(); ++i) {
    const std::string& name = type.getAttributeName(i);
    const c10::IValue& slot = object.slots()[i];
    if (slot.isObject() && type.getAttribute(i)->is_module())
      for_each_slot(path.empty() ? name : path + "." + name, slot.toObjectRef(), f);
    else
      f(path, name, slot);
  }
}

void append_modes(const torch::nn::Module& m, std::string& out) {
  out += m.is_training() ? 't' : 'e';
  for (const auto& child : own_children(m))
    if (child.value()) append_modes(*child.value(), out);
}

using Undo = std::vector<std::function<void()>>;

template <class Tag>
void save_member(torch::nn::Module& m, Tag tag, Undo& undo) {
  undo.push_back([&m, tag, old = m.*member(tag)] { m.*member(tag) = old; });
}

void save(const torch::nn::Module& module, Undo& undo) {
  auto& m = const_cast<torch::nn::Module&>(module);
  save_member(m, members::Parameters{}, undo);
  save_member(m, members::Buffers{}, undo);
  save_member(m, members::Submodules{}, undo);
  save_member(m, members::Training{}, undo);
  for (const auto& child : own_children(m))
    if (child.value()) save(*child.value(), undo);
}

/// A list or dict keeps its identity and gets its entries back.
void save_entries(const c10::IValue& v, Undo& undo) {
  if (v.isList()) {
    undo.push_back([list = v.toList(), old = v.toListRef().vec()]() mutable {
      list.clear();
      for (const c10::IValue& e : old) list.push_back(e);
    });
    for (const c10::IValue& e : v.toListRef()) save_entries(e, undo);
  } else if (v.isGenericDict()) {
    undo.push_back([dict = v.toGenericDict(), old = v.toGenericDict().copy()]() mutable {
      dict.clear();
      for (const auto& e : old) dict.insert(e.key(), e.value());
    });
    for (const auto& e : v.toGenericDict()) save_entries(e.value(), undo);
  } else if (v.isTuple()) {
    for (const c10::IValue& e : v.toTupleRef().elements()) save_entries(e, undo);
  }
}

void save(const c10::intrusive_ptr<c10::ivalue::Object>& object, Undo& undo) {
  undo.push_back([object, old = object->slots()] {
    for (size_t i = 0; i < old.size(); ++i) object->setSlot(i, old[i]);
  });
  for (const c10::IValue& slot : object->slots())
    slot.isObject() ? save(slot.toObject(), undo) : save_entries(slot, undo);
}

std::string qualified(const std::string& name, int module, size_t count) {
  return "'" + (count > 1 ? "m" + std::to_string(module) + "." : "") + name + "'";
}

}  // namespace

std::vector<ModuleAttribute> module_attributes(std::span<const detail::ModuleRef> modules) {
  std::vector<ModuleAttribute> out;
  for (size_t i = 0; i < modules.size(); ++i) {
    if (!modules[i].script) continue;
    for_each_slot("", *modules[i].script->_ivalue(), [&](auto& path, auto& name, const c10::IValue& slot) {
      if (name == kTraining || !is_plain(slot)) return;
      std::ostringstream value;
      value << slot;
      out.push_back({path.empty() ? name : path + "." + name, static_cast<int>(i), value.str()});
    });
  }
  return out;
}

std::vector<std::string> module_modes(std::span<const detail::ModuleRef> modules) {
  std::vector<std::string> modes;
  for (const detail::ModuleRef& ref : modules) {
    std::string& letters = modes.emplace_back();
    if (ref.module) append_modes(*ref.module, letters);
    if (ref.script)
      for_each_slot("", *ref.script->_ivalue(), [&](auto&, auto& name, const c10::IValue& slot) {
        if (name == kTraining && slot.isBool()) letters += slot.toBool() ? 't' : 'e';
      });
  }
  return modes;
}

struct ModuleState::Saved {
  Undo undo;
};

ModuleState::ModuleState(std::span<const detail::ModuleRef> modules)
    : modules_(modules.begin(), modules.end()),
      tensors_(module_tensors(modules)),
      attributes_(module_attributes(modules)),
      saved_(std::make_unique<Saved>()) {
  for (const detail::ModuleRef& ref : modules) {
    if (ref.module) save(*ref.module, saved_->undo);
    if (ref.script) save(ref.script->_ivalue(), saved_->undo);
  }
}

ModuleState::~ModuleState() = default;

std::string ModuleState::difference() const {
  const auto tensors = module_tensors(modules_);
  const auto in_words = [&](const ModuleTensor& t, const char* what) {
    return (t.is_buffer ? "buffer " : "parameter ") + qualified(t.name, t.module, modules_.size()) + " was " + what;
  };
  const auto same_slot = [](const ModuleTensor& a, const ModuleTensor& b) {
    return a.name == b.name && a.module == b.module && a.is_buffer == b.is_buffer;
  };
  const auto has = [&](const std::vector<ModuleTensor>& in, const ModuleTensor& t) {
    return std::ranges::any_of(in, [&](auto& o) { return same_slot(o, t); });
  };
  for (size_t i = 0; i < std::max(tensors.size(), tensors_.size()); ++i) {
    if (i < tensors_.size() && i < tensors.size() && same_slot(tensors_[i], tensors[i])) {
      if (!tensors[i].tensor.is_same(tensors_[i].tensor)) return in_words(tensors_[i], "bound to another tensor");
      continue;
    }
    if (i < tensors_.size() && !has(tensors, tensors_[i])) return in_words(tensors_[i], "removed");
    if (i < tensors.size() && !has(tensors_, tensors[i])) return in_words(tensors[i], "added");
  }

  const auto attributes = module_attributes(modules_);
  for (size_t i = 0; i < std::max(attributes.size(), attributes_.size()); ++i) {
    const ModuleAttribute& a = i < attributes_.size() ? attributes_[i] : attributes[i];
    const bool both = i < std::min(attributes.size(), attributes_.size());
    if (both && attributes[i].name == a.name && attributes[i].value == a.value) continue;
    return "attribute " + qualified(a.name, a.module, modules_.size()) + " was changed" +
           (both && attributes[i].name == a.name ? " from " + a.value + " to " + attributes[i].value : "");
  }
  return {};
}

void ModuleState::restore() const {
  for (const auto& f : saved_->undo) f();
}

}  // namespace precast::host_torch
