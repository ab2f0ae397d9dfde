// One op while it is recorded: operands before its kernel, results and writes after it.
#pragma once
#include <c10/util/SmallVector.h>

#include <string>
#include <vector>

#include "trace/op_recorder.h"

namespace precast::trace {

class OpCall {
 public:
  /// `ran` becomes true once the op has been run for real.
  OpCall(OpRecorder& recorder, const c10::OperatorHandle& op, const OpInfo& info, c10::DispatchKeySet below,
         torch::jit::Stack* stack, bool& ran)
      : r_(recorder), op_(op), info_(info), below_(below), stack_(stack), ran_(ran) {}

  void run();

 private:
  struct Operand {
    at::Tensor tensor;
    StorageState* state;
    ir::Slot slot;
    bool writes;
    Window window{};  // of written operands, before the kernel
  };
  struct Fresh {  // a result in memory that this op made
    StorageState* state;
    Window window;
    ir::ValueId value;
  };

  // The ways an op can go (accumulation and special ops: special_ops.cpp).
  void run_unrecorded();
  void run_after_refusal();
  void run_geometry();
  void run_view();
  void run_resize();
  bool run_accumulation();        // into a .grad slot; false: it is none
  bool run_zeroing_of_nothing();  // of a .grad that the caller left undefined; false: it is no such op
  bool run_overwriting();         // what an `empty` held did not matter; false: it is no such op
  void run_recorded();

  // Before the kernel.
  void collect_known();
  void take_operands(c10::ArrayRef<c10::IValue>);
  ir::Attr take_operand(const at::Tensor&, const ArgInfo&, ir::Slot);
  StorageState& adopt_unknown(const at::Tensor&);
  bool copies_gaps(const at::Tensor& src, StorageState&);
  void place_numbers();
  void rewrite_special();
  void prepare_writes();
  void call_kernel() {
    with_memory_open([this] { run_unrecorded(); });
  }
  /// Opens the operands' memory while f runs, and closes it again however f ends.
  template <class F>
  void with_memory_open(F&& f) {
    for (Operand& o : operands_) open(*o.state);
    try {
      f();
    } catch (...) {
      close_all();
      throw;
    }
    close_all();
  }
  static void open(StorageState&);
  void close_all();

  // After it.
  void take_results();
  ir::ValueId take_result(const at::Tensor&);
  void take_writes();
  bool writes_apart(const StorageState&) const;
  void take_resized(Operand&, Window now);
  void finish_node();
  void merge_fresh();

  bool happens(const ArgInfo&) const;
  std::string origins() const;
  bool is_constant() const;
  using IValues = c10::ArrayRef<c10::IValue>;
  IValues args() const { return IValues(stack_->data() + stack_->size() - info_.args.size(), info_.args.size()); }
  IValues results() const { return IValues(stack_->data() + stack_->size() - info_.returns, info_.returns); }

  OpRecorder& r_;
  const c10::OperatorHandle& op_;
  const OpInfo& info_;
  c10::DispatchKeySet below_;
  torch::jit::Stack* stack_;
  bool& ran_;

  ir::Node node_;
  c10::SmallVector<Operand, 8> operands_;
  std::vector<size_t> numbers_;  // arguments that are numbers in a tensor's clothes
  std::vector<Fresh> fresh_;
  std::vector<std::pair<StorageState*, Window>> written_windows_;  // through Node::shared
  std::vector<StorageState*> shared_states_;                       // of node_.shared
  std::vector<std::pair<const Operand*, ir::ValueId>> plain_writes_;
  std::vector<Bytes> gaps_;  // that copy_ moves
  bool hidden_writes_ = false;
  bool needed_ = false;  // something of the node is seen from outside
};

}  // namespace precast::trace
