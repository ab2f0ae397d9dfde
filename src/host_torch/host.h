// LibTorch as the host of an artifact: result memory, threads, host ops, and the graph itself where there are no
// kernels. TorchHost is made once per artifact, CallHost on the stack of each call.
#pragma once
#include <ATen/core/Tensor.h>
#include <c10/util/SmallVector.h>

#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "host_torch/output_memory.h"
#include "host_torch/sized_executors.h"
#include "host_torch/step_memory.h"
#include "precast/artifact_abi.h"
#include "runtime/artifact.h"

namespace precast::host_torch {

struct HostOptions {
  /// Runs a whole graph: its inputs to its outputs.
  using GraphFunction = std::function<std::vector<at::Tensor>(const std::vector<at::Tensor>&)>;
  GraphFunction graph_function{};  // runs the graph of an artifact without kernels, if there is one
  bool step_memory = false;        // results live until the next step begins (step_memory.h)
};

class TorchHost {
 public:
  explicit TorchHost(const runtime::Artifact&, HostOptions = {});

  const runtime::Artifact& artifact() const { return artifact_; }
  at::Tensor allocate(const precast_tensor& t) const {
    return options_.step_memory ? step_memory_.allocate(t) : memory_.allocate(t);
  }
  const HostOptions::GraphFunction& graph_function() const { return options_.graph_function; }
  /// Executor of host op `index`, or of the whole graph (-1), for these values of the symbols; made at first use.
  std::shared_ptr<const GraphExecutor> executor(int index, const precast_i64* symbols) const;

 private:
  const runtime::Artifact& artifact_;
  const HostOptions options_;
  OutputMemory memory_;
  StepMemory step_memory_;
  mutable std::vector<SizedExecutors> executors_;  // the whole graph, then the host ops
};

/// The callbacks of one call, what they made, and why they failed.
class CallHost {
 public:
  explicit CallHost(const TorchHost&);
  CallHost(const CallHost&) = delete;
  CallHost& operator=(const CallHost&) = delete;

  const precast_host& abi() const { return abi_; }
  /// Throws what the code of a failed call stands for. A call that is refused has drawn no random numbers.
  [[noreturn]] void raise(int code);

 private:
  static int allocate(void* self, precast_tensor*);
  static int host_op(void* self, precast_i32 index, const precast_i64* symbols, void* const* in, void** out);
  static void fail(void* self, precast_i32 kind, const char* message);

  template <class F>
  int guarded(F&& f);
  void give(at::Tensor, precast_tensor&);
  void note_generator(const GraphExecutor&);
  std::vector<at::Tensor> run_function(const ir::Graph&, const std::vector<at::Tensor>& inputs);
  void run_graph(const GraphExecutor&, void* const* in, void** out);

  const TorchHost& torch_;
  precast_host abi_;
  c10::SmallVector<at::Tensor, 4> made_;  // results, and outputs of host ops, until the call ends
  std::string message_;
  std::exception_ptr failure_;
  at::Tensor generator_before_;  // where the call may still be refused after it has drawn
};

/// The tensor that the host put into this result of a call.
at::Tensor result_tensor(const precast_tensor&);

}  // namespace precast::host_torch
