// The compiled core behind the templates of precast.h.
#pragma once
#include <filesystem>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "precast/detail/leaf.h"
#include "precast/options.h"

namespace precast::detail {

/// Records fn's result when it is there: its leaves and their structure.
using ResultSink = std::function<void(const Leaves&, const std::string& spec)>;

class Runnable;

class CaptureCore {
 public:
  CaptureCore(PairPaths, LowerOptions);         // validates both
  explicit CaptureCore(LowerOptions);           // in memory
  static CaptureCore functional(LowerOptions);  // in memory; leaves the arguments' gradients as they were
  ~CaptureCore();
  CaptureCore(CaptureCore&&) noexcept;
  CaptureCore& operator=(CaptureCore&&) noexcept;

  /// `run` calls fn and hands its result to the sink, once.
  void record(const Arguments&, const std::function<void(const ResultSink&)>& run);
  /// compile_on_one_rank: what rank 0 made, to be called in fn's place; null where this process records.
  std::shared_ptr<const Runnable> receive(const Arguments&);
  Pair pair();
  void save();
  void finish();
  PrecompileSummary summary() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

class Binding;   // modules whose structure has been checked, read where they are
class Snapshot;  // a binding with copies of the weights, packed

/// A loaded artifact. All members are safe from any thread.
class Runnable {
 public:
  virtual ~Runnable() = default;
  /// results: as many as result_leaves().
  virtual void call(const Arguments&, std::span<ResultLeaf> results) const = 0;
  /// The modules were given before: those of `arguments` are not looked at.
  virtual void call(const Binding&, const Arguments&, std::span<ResultLeaf> results) const = 0;
  virtual void call(const Snapshot&, const Arguments&, std::span<ResultLeaf> results) const = 0;
  /// The modules of `arguments` have been bound once, and these are their tensors, as the signature lists them.
  virtual void call(std::span<const at::Tensor* const> module_tensors, const Arguments&,
                    std::span<ResultLeaf> results) const = 0;
  virtual std::shared_ptr<const Binding> bind(std::span<const ModuleRef>) const = 0;
  virtual std::shared_ptr<Snapshot> freeze(std::span<const ModuleRef>) const = 0;
  virtual void refresh(Snapshot&) const = 0;

  virtual std::span<const Node> result_structure() const = 0;
  virtual size_t result_leaves() const = 0;
  /// Throws PrecompileError when a typed signature does not fit the recorded one.
  virtual void check_arguments(int positional, std::span<const int> module_positions) const = 0;
  virtual std::span<const Node> argument_structure(int user_argument) const = 0;
  [[noreturn]] virtual void refuse_argument(int positional, const std::string& asked) const = 0;
  [[noreturn]] virtual void refuse_result(const std::string& asked) const = 0;

  virtual const std::string& backend() const = 0;
  virtual std::string metadata() const = 0;  // JSON
  virtual std::string graph() const = 0;     // text
};
using RunnablePtr = std::shared_ptr<const Runnable>;

RunnablePtr load(const PairPaths&);
using GraphFunction = std::function<std::vector<at::Tensor>(const std::vector<at::Tensor>&)>;
struct LoadOptions {
  GraphFunction graph_function{};  // runs the graph of a pair of backend "eager", if there is one
  bool step_memory = false;        // results are valid until the next begin_step()
  bool announce = true;            // that what is loaded will be executed; false: this process made it
};
RunnablePtr load_from_memory(const Pair&, LoadOptions = {});
void save_weights(const ModuleRef&, const std::filesystem::path&);

}  // namespace precast::detail
