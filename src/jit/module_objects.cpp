#include "jit/module_objects.h"

#include <torch/csrc/jit/api/module.h>

#include <algorithm>
#include <cstring>

#include "host_torch/module_members.h"
#include "jit/known_modules.h"

namespace precast::jit {

ModuleObjects::ModuleObjects(std::span<const detail::ModuleRef> modules) {
  for (const detail::ModuleRef& ref : modules) {
    if (ref.module) add(*ref.module);
    if (ref.script) scripts_.emplace_back(ref.script->_ivalue());
  }
}

void ModuleObjects::add(const torch::nn::Module& m) {
  all_.push_back(&m);
  classes_.push_back(&typeid(m));
  owners_.push_back(m.weak_from_this());
  owned_.push_back(!owners_.back().expired());
  for (const auto& child : host_torch::own_children(m))
    if (child.value()) add(*child.value());
}

bool ModuleObjects::operator==(const ModuleObjects& other) const {
  const auto same = [](const auto& a, const auto& b) { return !a.owner_before(b) && !b.owner_before(a); };
  return all_ == other.all_ && classes_ == other.classes_ && std::ranges::equal(owners_, other.owners_, same) &&
         std::ranges::equal(scripts_, other.scripts_, [](const auto& a, const auto& b) {
           return a._unsafe_get_target() == b._unsafe_get_target();
         });
}

bool ModuleObjects::live() const {
  bool live = true;
  for (size_t i = 0; i < owners_.size(); ++i) live &= owners_[i].expired() != static_cast<bool>(owned_[i]);
  for (const auto& script : scripts_) live &= !script.expired();
  return live;
}

bool ModuleObjects::of_same_classes() const {
  bool same = true;
  for (size_t i = 0; i < all_.size(); ++i) same &= typeid(*all_[i]) == *classes_[i];
  return same;
}

MemberBytes::MemberBytes(std::span<const detail::ModuleRef> modules, const ModuleObjects& objects) {
  for (const torch::nn::Module* m : objects.all()) {
    auto [object, bytes] = known_object(*m);
    const auto passed = std::ranges::find(modules, m, &detail::ModuleRef::module);
    if (passed != modules.end() && passed->bytes > bytes) object = passed->object, bytes = passed->bytes;
    if (object) add(*m, object, bytes);
  }
}

/// All of the object but its torch::nn::Module, whose entries are looked at by name. That ends with its training flag:
/// what pads it may be a derived class's first member.
void MemberBytes::add(const torch::nn::Module& m, const void* object, size_t bytes) {
  const auto *begin = static_cast<const std::byte*>(object), *end = begin + bytes;
  const auto *base = reinterpret_cast<const std::byte*>(&m), *base_end = base + sizeof m;
  const auto* padding = reinterpret_cast<const std::byte*>(&host_torch::training_flag(m) + 1);
  if (base_end - padding < static_cast<std::ptrdiff_t>(alignof(torch::nn::Module))) base_end = padding;
  const auto range = [&](const std::byte* from, const std::byte* to) {
    if (from >= to) return;
    ranges_.push_back({from, static_cast<size_t>(to - from), copy_.size(), &m, begin});
    copy_.insert(copy_.end(), from, to);
  };
  range(begin, std::min(base, end));
  range(std::max(base_end, begin), end);
}

bool MemberBytes::holds(const Range& r) const { return !std::memcmp(r.where, copy_.data() + r.copy, r.size); }

bool MemberBytes::hold() const {
  return std::ranges::all_of(ranges_, [&](const Range& r) { return holds(r); });
}

void MemberBytes::follow(const MemberBytes& before) {
  if (ranges_ != before.ranges_) return;
  for (const Range& r : ranges_)
    for (size_t i = 0; i < r.size; ++i)
      if (copy_[r.copy + i] == before.copy_[r.copy + i]) copy_[r.copy + i] = r.where[i];
}

std::string MemberBytes::first_change() const {
  for (const Range& r : ranges_)
    for (size_t i = 0; i < r.size; ++i)
      if (r.where[i] != copy_[r.copy + i])
        return "a member of module '" + r.module->name() +
               "' that is no registered tensor or module has changed (byte " + std::to_string(r.where + i - r.object) +
               " of the object)";
  return {};
}

}  // namespace precast::jit
