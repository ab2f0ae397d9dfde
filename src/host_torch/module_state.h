// What a call may change of a module behind the operators' backs: which tensors its slots hold, TorchScript
// attributes that are no tensors, training modes.
#pragma once
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "artifact/signature.h"
#include "host_torch/module_tensors.h"

namespace precast::host_torch {

/// TorchScript attributes that are no tensors, nor modules, nor `training`.
std::vector<artifact::ModuleAttribute> module_attributes(std::span<const detail::ModuleRef>);

/// Per module a letter for each submodule in the order of a walk, t(raining) or e(valuation).
std::vector<std::string> module_modes(std::span<const detail::ModuleRef>);

/// A model as it was. Holds its tensors, copies none.
class ModuleState {
 public:
  explicit ModuleState(std::span<const detail::ModuleRef>);
  ~ModuleState();
  ModuleState(const ModuleState&) = delete;
  ModuleState& operator=(const ModuleState&) = delete;

  /// What is bound otherwise now, in words ("buffer 'count' was bound to another tensor"), or empty. Modes may change.
  std::string difference() const;
  /// Gives slots, attributes and modes what they held.
  void restore() const;

 private:
  struct Saved;
  std::vector<detail::ModuleRef> modules_;
  std::vector<ModuleTensor> tensors_;
  std::vector<artifact::ModuleAttribute> attributes_;
  std::unique_ptr<Saved> saved_;
};

}  // namespace precast::host_torch
