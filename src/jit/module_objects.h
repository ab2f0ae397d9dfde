// Which modules a call has, and what their plain members hold: a variant serves these only. A recorded call may have
// read any member, and C++ cannot tell which.
#pragma once
#include <ATen/core/ivalue.h>
#include <torch/nn/module.h>

#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <typeinfo>
#include <vector>

#include "precast/detail/leaf.h"

namespace precast::jit {

/// A module (of TorchScript: the object) and all in it, parents first, as objects: another one at the same address is
/// another one.
class ModuleObjects {
 public:
  explicit ModuleObjects(std::span<const detail::ModuleRef>);
  bool operator==(const ModuleObjects&) const;
  /// Those that shared pointers own are still there.
  bool live() const;
  /// They are of the classes that they were. To be asked only while they live.
  bool of_same_classes() const;
  const std::vector<const torch::nn::Module*>& all() const { return all_; }

 private:
  void add(const torch::nn::Module&);
  std::vector<const torch::nn::Module*> all_;
  std::vector<const std::type_info*> classes_;
  std::vector<std::weak_ptr<const torch::nn::Module>> owners_;  // empty ones of modules that nobody owns
  std::vector<char> owned_;
  std::vector<c10::weak_intrusive_ptr<c10::ivalue::Object>> scripts_;
};

/// What lies in modules besides their tensors, children and training flags, by bytes: of those passed, as far as their
/// static type tells; of classes of torch::nn, all. To be asked only while the modules live.
class MemberBytes {
 public:
  MemberBytes(std::span<const detail::ModuleRef>, const ModuleObjects&);
  /// A call that began when they were as `before` says has ended: what it wrote itself (a counter) is no change.
  void follow(const MemberBytes& before);
  bool hold() const;
  /// "a member of module 'Net' ... has changed (byte 312 of the object)"; empty where they hold.
  std::string first_change() const;

 private:
  struct Range {
    const std::byte* where;
    size_t size, copy;  // where in copy_
    const torch::nn::Module* module;
    const std::byte* object;
    bool operator==(const Range&) const = default;
  };
  /// A member that is the handle of a registered tensor: it may be another one, as long as the registered one is.
  struct Handle {
    const torch::nn::Module* module;
    bool is_buffer;
    size_t entry;  // among the module's own
    size_t copy;   // where in copy_
  };
  void add(const torch::nn::Module&, const void* object, size_t bytes);
  void note_handles(const Range&);
  std::vector<std::byte> now(const Range&) const;

  std::vector<Range> ranges_;
  std::vector<Handle> handles_;
  std::vector<std::byte> copy_;
};

}  // namespace precast::jit
