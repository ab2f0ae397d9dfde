// All that depends on the internals of one LibTorch version (2.13 and newer): the dispatch key that
// recording uses, sealing of memory, and what an autograd node has saved.
#pragma once
#include <ATen/core/Tensor.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <c10/core/DispatchKeySet.h>
#include <c10/core/StorageImpl.h>
#include <torch/csrc/autograd/function.h>

#include <optional>
#include <string>
#include <vector>

namespace precast::trace {

/// Sits below autograd and above every kernel. LibTorch reserves it for a fake tensor in C++ and registers nothing.
inline constexpr c10::DispatchKey kRecordingKey = c10::DispatchKey::Fake;

/// Registers on_op as the key's fallback, once a process. PrecompileError if another library already did.
void register_fallback();
/// Every op comes here while the key is on in this thread (defined in dispatch.cpp).
void on_op(const c10::OperatorHandle&, c10::DispatchKeySet, torch::jit::Stack*);

/// The memory's address, sealed or not; never materializes copy-on-write memory.
inline const void* address(c10::StorageImpl* s) { return s->_mutable_data_ptr_no_checks().get(); }
bool is_copy_on_write(c10::StorageImpl*);
/// Whether the CPU allocator made this memory, so that nothing else can lie over it.
bool is_own_memory(c10::StorageImpl*);

/// A sealed storage throws on any access to its address outside of recorded ops. `number` comes back in the message.
void seal(c10::StorageImpl*, uint32_t number);
void unseal(c10::StorageImpl*);
/// The number in the message of an access to sealed memory.
std::optional<uint32_t> sealed_number(const std::string& message);

/// Tensors that the autograd graph behind `root` keeps alive. Nothing when one of its nodes cannot tell.
std::optional<std::vector<at::Tensor>> saved_tensors(const at::Tensor& root);

/// What LibTorch calls an unusual tensor ("a sparse tensor"); empty for a plain strided CPU tensor.
std::string unsupported_kind(const at::Tensor&);

/// Autograd runs this op, or has run it when it was recorded first.
bool in_backward();
class AsInBackward {
 public:
  explicit AsInBackward(bool);
  ~AsInBackward();
  AsInBackward(const AsInBackward&) = delete;
  AsInBackward& operator=(const AsInBackward&) = delete;

 private:
  bool before_;
};

}  // namespace precast::trace
