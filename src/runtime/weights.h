// Weights of an artifact from a .safetensors file, in the layouts and order that its checks expect.
#pragma once
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "artifact/signature.h"
#include "io/safetensors.h"
#include "precast/artifact_abi.h"

namespace precast::runtime {

/// Points to the memory of `array`, which must outlive it.
precast_tensor to_tensor(const io::Array& array);

/// `array` in the layout that the artifact expects. Wrong sizes or dtypes stay: the artifact refuses them by name.
/// Throws PrecompileError where an expanded view is expected and the values are none; `what` names the tensor.
io::Array in_layout(io::Array array, const ir::Type& expected, const std::string& what);

/// Parameters and buffers by name. The memory is this object's own: a call may write to it, the file stays as it is.
class Weights {
 public:
  /// An empty path is a file without tensors. Throws PrecompileError when one is missing, or the file is malformed.
  Weights(const artifact::Signature&, const std::filesystem::path&);
  /// All zeros.
  static Weights zeros(const artifact::Signature&);

  /// What precast_bind takes: all modules' entries, tied ones repeated.
  const std::vector<precast_named>& entries() const { return entries_; }
  /// Parameters, then buffers.
  const std::vector<io::NamedArray>& tensors() const { return tensors_; }

  /// tensors() as an artifact sees them; the module is that of the first entry.
  const precast_named& weight(size_t i) const { return entries_[first_entry_[i]]; }

 private:
  using Find = std::function<io::Array(const artifact::TensorMeta&, const std::string& what)>;
  Weights(const artifact::Signature&, const Find&);

  std::vector<io::NamedArray> tensors_;
  std::vector<size_t> first_entry_;
  std::vector<precast_named> entries_;
};

}  // namespace precast::runtime
