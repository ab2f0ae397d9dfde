// The ops of a call with open sizes, in a form that can run again at other sizes: tensors are windows on numbered
// storages, sizes and integers are expressions.
#pragma once
#include <ATen/core/dispatch/Dispatcher.h>
#include <c10/core/Storage.h>

#include <unordered_map>
#include <vector>

#include "ir/type.h"
#include "trace/op_info.h"
#include "trace/symbols.h"
#include "trace/torch_internals.h"

namespace precast::trace {

/// A tensor as a window on a storage.
struct Place {
  int storage = -1;  // -1: undefined
  ir::Type type;
  ir::Size offset;      // elements
  at::Tensor number{};  // a number in a tensor's clothes, or one that LibTorch made without an op: itself
};

struct LogEntry {
  struct Operand {
    size_t arg = 0;
    int item = -1;  // of a list
    Place place;
    bool written = false;
  };
  struct Integer {
    size_t arg = 0;
    int item = -1;
    ir::Size value;
  };
  const OpInfo* info = nullptr;
  c10::OperatorHandle op;
  std::vector<c10::IValue> stack;  // without tensors and expressions
  std::vector<Operand> operands;
  std::vector<Integer> integers;
  std::vector<std::pair<size_t, size_t>> lists;  // arguments that are lists of tensors, and how long
  std::vector<int> results;                      // storages of the tensors that come back, lists flat; -1: undefined
  std::string place;                             // in the user's source, if known
  bool backward = in_backward();

  explicit LogEntry(const c10::OperatorHandle& o) : op(o) {}
};

using OpLog = std::vector<LogEntry>;

/// The tensors that a call's result holds, lists flat.
std::vector<at::Tensor> tensors_in(const c10::IValue&);

/// One run of a log at a point.
class LogRun {
 public:
  LogRun(const Symbols& symbols, Point point) : symbols_(symbols), point_(std::move(point)) {}

  const Point& point() const { return point_; }
  /// Before the first step: what a storage of the call is here. `shared`: it is somebody else's, and gets a copy of its
  /// own before it is written.
  void set(int storage, c10::Storage, bool shared);
  bool has(int storage) const { return storages_.contains(storage); }
  /// Runs an op; the tensors that come back.
  std::vector<at::Tensor> step(const LogEntry&);
  /// In place of a step: the results are zeros of the geometry that they should have.
  std::vector<at::Tensor> assume(const LogEntry&, const std::vector<Place>&);
  at::Tensor tensor(const Place&);
  void forget(int storage) { storages_.erase(storage); }
  void clear() { storages_.clear(); }
  bool recorded = false;  // its ops are being recorded: nothing is shared, numbers are made anew
  bool trial = false;     // results that nobody asked for may be there or not

 private:
  int64_t value(const ir::Size&) const;
  struct Held {
    c10::Storage storage;
    bool shared = false;
  };
  const Symbols& symbols_;
  Point point_;
  std::unordered_map<int, Held> storages_;
};

}  // namespace precast::trace
