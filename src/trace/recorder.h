// Records one real execution of a function below autograd: every ATen op that runs, forward and
// backward, as a functional graph. The function really runs; its results and effects are eager's.
#pragma once
#include <ATen/core/Tensor.h>

#include <exception>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "artifact/signature.h"
#include "host_torch/module_state.h"
#include "ir/graph.h"
#include "precast/error.h"

namespace precast::trace {

class LaterReplay;  // replay.h

struct Source {
  at::Tensor tensor;
  std::string name;      // for messages: "parameter 'fc1.weight'", "argument 1"
  at::Tensor* handle{};  // what fn gets hold of it by: a user tensor with marks is replaced there
};

/// Everything live: what the caller passes. Each list holds an object once (interned by identity).
struct Sources {
  std::vector<Source> params, buffers;
  std::vector<Source> user;  // tensor leaves of the arguments in depth-first order; repeats allowed
  /// The modules as they are now: rebinding a slot or an attribute is refused by name, and undone. May be null.
  std::shared_ptr<const host_torch::ModuleState> modules;
};

/// One leaf of fn's result.
struct Leaf {
  at::Tensor tensor;
  ir::Attr value;  // when it is no tensor
  bool is_tensor = true;
};

struct Options {
  bool verify = true;             // replay the graph on the inputs as they were, and compare
  bool verify_later = false;      // or leave that to the caller, if it may be put off: Recording::replay
  bool seal_inputs = false;       // raw access to inputs inside fn is an error (never with other threads on them)
  bool name_places = false;       // conditions say where in the user's source they were read (slow)
  bool run_through = false;       // after a refusal fn goes on, unrecorded; then RanThrough is thrown
  bool guards_gradients = false;  // Recording::found_grads is heeded; else a .grad that is not there is zeros to fn
  bool marks = true;              // marked dims are open; false: marks say nothing
  bool keep_gradients = false;    // the caller's .grad are put back, by identity, when the call is over
  /// Computes an op with others, which are recorded in its place; false: it does not, and left the stack alone.
  std::function<bool(const std::string& op, std::vector<c10::IValue>& stack)> decompose{};
  /// Sees what was recorded before it is verified. May replace the graph, or refuse: then nothing has changed.
  std::function<void(ir::Graph&, const artifact::Signature&)> accept{};
  /// Asked when all is recorded and verified: true takes the effects of the call back, and nobody may use its results.
  std::function<bool()> discard{};
};

/// The call cannot be recorded, and has been made to its end: its effects stand, and what fn returned is eager's.
struct RanThrough : PrecompileError {
  using PrecompileError::PrecompileError;
};

/// As RanThrough, but fn has ended in an exception.
struct FnThrew {
  std::exception_ptr exception;
};

/// Whether a source had a .grad when the call began.
struct FoundGradient {
  int source = 0;
  bool there = false;
};

struct Recording {
  ir::Graph graph;
  /// Filled here: params, buffers, leaves (one per Sources::user), graph_inputs, aliases, results, writes, grads,
  /// cleared_grads, conditions, torch_version. The rest is the caller's.
  artifact::Signature signature;
  std::vector<Leaf> results;  // what fn returned
  bool random = false;        // it drew random numbers
  std::shared_ptr<const LaterReplay> replay{};
  /// With `guards_gradients`: what fn has found, and may go another way where it is not so.
  std::vector<FoundGradient> found_grads{};
};

/// Runs fn once, with grad mode on. Where user tensors carry marks (precast/dynamic.h) the graph and the signature have
/// symbols. An exception of fn passes through; its effects so far stand, as eager's would.
/// Throws PrecompileError when the call breaks the contract: then written inputs, buffers, gradients and the random
/// number generator are as they were before. With `run_through` that is so only where fn could not go
/// on to its end; else RanThrough or FnThrew is thrown.
Recording record(const Sources&, const std::function<std::vector<Leaf>()>& fn, const Options& = {});

}  // namespace precast::trace
