#include "jit/module_objects.h"

#include <torch/csrc/jit/api/module.h>

#include <algorithm>
#include <cstring>

#include "host_torch/module_members.h"
#include "jit/known_modules.h"

namespace precast::jit {

namespace {
const void* word_at(const std::byte* where) {
  const void* word;
  std::memcpy(&word, where, sizeof word);
  return word;
}
}  // namespace

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
    note_handles(ranges_.back());
  };
  range(begin, std::min(base, end));
  range(std::max(base_end, begin), end);
}

void MemberBytes::note_handles(const Range& r) {
  const auto& parameters = host_torch::own_parameters(*r.module).items();
  const auto& buffers = host_torch::own_buffers(*r.module).items();
  for (size_t i = -reinterpret_cast<uintptr_t>(r.where) % sizeof(void*); i + sizeof(void*) <= r.size;
       i += sizeof(void*)) {
    const void* const word = word_at(r.where + i);
    const auto is_it = [&](const auto& item) { return item.value().unsafeGetTensorImpl() == word; };
    for (const auto* list : {&parameters, &buffers})
      if (const auto at = std::ranges::find_if(*list, is_it); at != list->end())
        handles_.push_back({r.module, list == &buffers, static_cast<size_t>(at - list->begin()), r.copy + i});
  }
}

/// The bytes of today, with handles as they were where they are those of what is registered today.
std::vector<std::byte> MemberBytes::now(const Range& r) const {
  std::vector<std::byte> bytes(r.where, r.where + r.size);
  for (const Handle& h : handles_) {
    if (h.copy < r.copy || h.copy >= r.copy + r.size) continue;
    const auto& list =
        (h.is_buffer ? host_torch::own_buffers(*h.module) : host_torch::own_parameters(*h.module)).items();
    std::byte* const word = bytes.data() + (h.copy - r.copy);
    if (h.entry < list.size() && list[h.entry].value().unsafeGetTensorImpl() == word_at(word))
      std::memcpy(word, copy_.data() + h.copy, sizeof(void*));
  }
  return bytes;
}

bool MemberBytes::hold() const {
  return std::ranges::all_of(ranges_, [&](const Range& r) {
    const std::byte* const then = copy_.data() + r.copy;
    return !std::memcmp(r.where, then, r.size) || !std::memcmp(now(r).data(), then, r.size);
  });
}

void MemberBytes::follow(const MemberBytes& before) {
  if (ranges_ != before.ranges_) return;
  for (const Range& r : ranges_)
    for (size_t i = 0; i < r.size; ++i)
      if (copy_[r.copy + i] == before.copy_[r.copy + i]) copy_[r.copy + i] = r.where[i];
}

std::string MemberBytes::first_change() const {
  for (const Range& r : ranges_) {
    const std::vector<std::byte> bytes = now(r);
    for (size_t i = 0; i < r.size; ++i)
      if (bytes[i] != copy_[r.copy + i])
        return "a member of module '" + r.module->name() +
               "' that is no registered tensor or module has changed (byte " + std::to_string(r.where + i - r.object) +
               " of the object)";
  }
  return {};
}

}  // namespace precast::jit
