// What the caller of a capture passes, in the words of the recorder and of the signature.
#pragma once
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "artifact/signature.h"
#include "host_torch/module_tensors.h"
#include "precast/detail/core.h"
#include "trace/recorder.h"

namespace precast::api {

/// What fn returned, for the recorder.
std::vector<trace::Leaf> recorded_leaves(const detail::Leaves&);

class CallArguments {
 public:
  explicit CallArguments(const detail::Arguments&);

  const trace::Sources& sources() const { return sources_; }
  /// The recorder fills in what it saw; this adds what the caller said.
  void complete(artifact::Signature&) const;
  /// One line each: structure, leaves, parameters and buffers with their types. Equal texts are calls that one artifact
  /// serves.
  std::vector<std::string> in_words() const;

 private:
  std::span<const detail::ModuleRef> refs() const { return {arguments_.modules.data(), arguments_.modules.size()}; }
  std::string qualified(const host_torch::ModuleTensor&) const;
  void intern();
  std::vector<std::string> argument_places() const;

  const detail::Arguments& arguments_;
  std::vector<artifact::ModuleAttribute> attributes_;
  std::vector<std::string> modes_;
  std::vector<host_torch::ModuleTensor> tensors_;
  std::vector<std::string> places_, names_;  // of the leaves; of the interned tensors
  std::vector<ir::Attr> values_;             // of the leaves that are no tensors
  std::vector<artifact::ModuleSlot> slots_;
  trace::Sources sources_;
};

}  // namespace precast::api
