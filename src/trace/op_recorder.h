// Records ops as they run: reads their operands, runs the real kernel, and tells the graph builder
// what came out and what was written.
#pragma once
#include <atomic>
#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "precast/error.h"
#include "trace/births.h"
#include "trace/graph_builder.h"
#include "trace/inputs.h"
#include "trace/op_info.h"
#include "trace/random_state.h"
#include "trace/storage_table.h"
#include "util/checks.h"

namespace precast::trace {

class Dynamic;

class OpRecorder {
 public:
  StorageTable storages;
  GraphBuilder builder;
  Births births;
  int reading_values = 0;                   // composite kernels that run now and read values through a pointer
  std::vector<std::string> conditions;      // recorded values, in words
  bool name_places = false;                 // and where they were read
  std::atomic<bool> run_through = false;    // after a refusal fn goes on, unrecorded
  std::function<void()> on_refusal;         // called once then, before the op runs that was refused
  std::function<void()> before_unrecorded;  // called before each op after it
  std::atomic<bool> foreign_draws = false;  // another thread drew random numbers meanwhile
  bool draws() const { return !builder.random_nodes.empty(); }

  std::function<bool(const std::string& op, torch::jit::Stack& stack)> decompose;  // may be empty
  Dynamic* dynamic = nullptr;                                                      // of a call with open sizes

  void attach(Inputs* inputs, RandomState* random) { inputs_ = inputs, random_ = random; }

  /// Runs the op for real and records it.
  void run(const c10::OperatorHandle&, c10::DispatchKeySet below, torch::jit::Stack*);
  /// As refuse(), of something that is no op: throws only where fn shall not go on.
  void refuse_call(const std::string& message);

  /// The value `t` has now; `reader` is for the message when the graph does not know it.
  ir::ValueId read(const at::Tensor& t, const std::string& reader);

  /// `t` lies in memory that the caller passed, and neither was passed nor came from an op.
  bool is_strange_view(const at::Tensor& t);
  /// An op gave `t`.
  void accept_view(const at::Tensor& t);

  /// As precast::refuse. The first refusal stands even when fn swallows the exception.
  void refuse(Check, const std::string& message);
  const std::optional<PrecompileError>& refusal() const { return refusal_; }

  /// An op of a thread that does not record touched this tensor. Reading an input is that thread's own affair.
  void note_foreign_op(const at::Tensor&, const std::string& op, bool writes);
  void check_foreign();
  void check_random(const std::string& when);
  void seal(StorageState&);
  bool guards_gradients = false;  // Options::guards_gradients
  bool watch_contents = true;     // find raw writes by hashing memory that a raw pointer may reach
  /// Refuses what raw pointers did to watched memory, before a recorded op touches it.
  void check_watched(const StorageState&);
  /// A recorded op has written.
  void renew_watched(StorageState&);
  void unseal_all();
  /// Gradients that were zeroed and never were. To be called when the op that did so has returned to fn, and no other
  /// holds a reference to their slot.
  void empty_zeroed();

 private:
  friend class OpCall;
  void record(const c10::OperatorHandle&, c10::DispatchKeySet below, torch::jit::Stack*, bool& ran);
  void run_unrecorded(const c10::OperatorHandle&, c10::DispatchKeySet below, torch::jit::Stack*);
  bool is_of_zeroed(c10::ArrayRef<c10::IValue> args);
  void note_refusal(const std::string& message);
  bool given_up() const { return run_through && refused_; }
  void refuse_zeroed(const StorageState&, const std::string& reader);
  void refuse_literal(const StorageState&, const std::string& what);
  void refuse_unknown(const at::Tensor&, const std::string& reader);
  void check_view(const StorageState&, const at::Tensor&, const std::string& reader);
  void check_contents(StorageState&, const at::Tensor&, const std::string& reader);
  void check_contents(StorageState&, const Window&, const std::string& reader);
  std::string origin(const StorageState&) const;

  std::recursive_mutex mutex_;
  OpInfos infos_;
  Inputs* inputs_ = nullptr;
  RandomState* random_ = nullptr;
  std::vector<StorageState*> zeroed_;
  std::optional<PrecompileError> refusal_;
  std::atomic<bool> refused_ = false;  // there is one: to be asked without the lock
  std::mutex foreign_mutex_;
  std::string foreign_op_;
  uint64_t op_count_ = 0;
};

}  // namespace precast::trace
