// A recording with open sizes. The call runs once, on tensors that show symbolic sizes; every op that it runs is also
// run at a few other sizes, from which the sizes of its results are told. When the call is over, its ops are recorded
// at those other sizes by the ordinary recorder, and what the graphs differ in becomes expressions of the symbols.
#pragma once
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <unordered_map>
#include <vector>

#include "trace/fit.h"
#include "trace/op_log.h"
#include "trace/recorder.h"
#include "trace/sym_tensor.h"
#include "trace/window_sizes.h"

namespace precast::trace {

class Dynamic {
 public:
  /// Whether some argument is marked.
  static bool wanted(const Sources&);
  /// Refuses marks that cannot be honored.
  explicit Dynamic(const Sources&);
  ~Dynamic();
  Dynamic(const Dynamic&) = delete;
  Dynamic& operator=(const Dynamic&) = delete;

  void set_refusal(std::function<void(Check, const std::string&)> f) { symbols_->refuse = std::move(f); }
  /// Puts tensors with open sizes into the caller's handles.
  void begin();
  /// Takes them out again, and makes all of them ordinary; `results` are the call's.
  void end(std::vector<Leaf>* results);
  /// Runs an op through `call`, which sees ordinary tensors on the stack.
  void run(const c10::OperatorHandle&, const OpInfo&, torch::jit::Stack*, const std::function<void()>& call);
  /// The graph and the signature for all sizes in place of those of the recorded call.
  void generalize(ir::Graph&, artifact::Signature&);
  /// The size that a symbol stood for in the recorded call.
  int64_t real(const ir::Symbol& s) const { return symbols_->real(ir::Size::symbol(s)); }

 private:
  struct Known {
    c10::weak_intrusive_ptr<c10::StorageImpl> weak;
    int id = 0;
  };
  struct Base {  // memory that was there before the call
    int storage = 0;
    int source = -1, gradient_of = -1;  // counted through params, buffers, user
    bool marked = false;
    c10::Storage real;
    int64_t end = 0;  // bytes that sources reach
  };
  struct Marked {
    std::vector<size_t> users;  // places in Sources::user
    at::Tensor real, stand_in, contents;
    ir::Type type;
  };
  struct Leaving {  // a tensor that the call leaves behind
    const void* object = nullptr;
    Place place;
    int source = -1;  // it is this one itself
  };

  struct Swapped;

  const Source& source(int index) const;
  int count_sources() const;
  void read_marks();
  int storage_id(const at::Tensor&);
  Place place_of(const at::Tensor&, const std::string& reader);
  Leaving leaving(const at::Tensor&, const std::string& what);

  bool take_arguments(LogEntry&, torch::jit::Stack*, Swapped&);
  std::vector<Point> spread() const;
  void fit_at(std::vector<Point>);
  void restart(int64_t least);
  using Results = std::vector<std::vector<at::Tensor>>;  // of one entry, at each point
  void run_all(Results&);
  void settle(Results&);
  void enlarge(const ir::Size&, Results&);
  void step_all(const LogEntry&, Results& results);
  void recover(const std::string& op, const std::string& failure, Results& results);
  /// `harmless`: integers are 0, which as an index is within any dim that has something.
  void start(LogRun&, bool harmless = false) const;
  at::Tensor contents_at(const Marked&, const Point&) const;
  void sweep();
  /// One result of the newest entry, and what all results are at the points.
  struct Result {
    const at::Tensor& real;
    size_t index;
    Results& all;
    std::vector<at::Tensor> seen() const;
  };
  std::optional<Geometry> computed(const LogEntry&, const Result&);
  at::Tensor wrap(const Result&, const LogEntry&, int storage);
  ir::Size fitted(const Result&, const std::function<int64_t(const at::Tensor&)>& number, const LogEntry&,
                  const char* what);
  void check_slice(const LogEntry&);
  void check_split(const LogEntry&);
  bool bound(const ir::Size&, int64_t most);

  std::string differs(size_t entry, const std::vector<at::Tensor>& results, const Point&) const;

  Recording record_at(const Point&);
  void check_small();
  struct Trouble {
    std::string what;
    bool differs = false;  // it works there, and does something else
  };
  std::optional<Trouble> run_at(const Point&, bool harmless = false);
  void bound_windows();

  const Sources& sources_;
  std::shared_ptr<Symbols> symbols_;
  std::shared_ptr<SymTensors> tensors_;
  std::vector<Marked> marked_;
  std::vector<Base> bases_;
  std::vector<bool> had_gradient_;  // of each parameter, before the call
  std::unordered_map<c10::StorageImpl*, Known> storages_;
  int next_storage_ = 0;
  std::set<std::string> plain_views_;            // ordinary tensors that ops made on marked memory
  std::unordered_map<int, int64_t> fixed_ends_;  // storages whose size is known: bytes

  OpLog log_;
  std::vector<std::vector<Place>> places_;  // of each entry's results
  std::vector<LogRun> shadows_;
  std::vector<Point> more_points_;  // that tell sizes apart
  std::unique_ptr<Fit> fit_;
  ir::Dims expressions_;
  int64_t least_ = 5;
  std::vector<int64_t> floors_;  // by symbol: from where on what windows make is larger than 1
  int changes_ = 0;
  bool ended_ = false;

  std::vector<Leaving> results_, gradients_;
  std::vector<Leaf> leaves_;
};

/// Sizes, strides and offset of an ordinary tensor, to look it up by.
inline std::string geometry_text(const at::Tensor& t) { return c10::str(t.sizes(), t.strides(), t.storage_offset()); }

/// The graph that all of these are instances of: integers that differ become expressions. Refuses what differs
/// otherwise.
ir::Graph unify(const std::vector<ir::Graph>&, Fit&);
/// The numbers that the recorded call read from tensors.
void take_conditions(const ir::Graph& recorded, ir::Graph& to);
/// The same for what graph outputs become; `to` is the recorded call's.
void unify(const std::vector<artifact::Signature>&, Fit&, artifact::Signature& to);

}  // namespace precast::trace
