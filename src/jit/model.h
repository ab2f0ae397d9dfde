// The modules of a call: seen once, known again at each later call by their imprint.
#pragma once
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "host_torch/module_imprint.h"
#include "jit/module_objects.h"
#include "precast/detail/core.h"

namespace precast::jit {

using Tensors = c10::SmallVector<const at::Tensor*, 128>;

inline std::span<const detail::ModuleRef> refs(const detail::Arguments& a) {
  return {a.modules.data(), a.modules.size()};
}

/// Modules with the very tensors and modes that they had.
class Model {
 public:
  explicit Model(const detail::Arguments&);

  /// Whether these are they; then appends their interned tensors, parameters before buffers.
  bool is(std::span<const detail::ModuleRef>, Tensors& tensors) const;
  const std::vector<std::string>& modes() const { return modes_; }
  const ModuleObjects& objects() const { return objects_; }

 private:
  host_torch::ModuleImprint imprint_;
  ModuleObjects objects_;
  std::vector<std::string> modes_;
};
using ModelPtr = std::shared_ptr<const Model>;

/// The models seen last.
class Models {
 public:
  /// Null where the modules are none of them; else appends their tensors.
  ModelPtr find(const detail::Arguments&, Tensors& tensors) const;
  void add(ModelPtr);
  void clear() { models_.clear(); }

 private:
  static constexpr size_t kKept = 16;
  std::vector<ModelPtr> models_;  // the last first
};

}  // namespace precast::jit
