// What a capture is told: how to record, how to lower, where to write. Wrong values are refused at construction
// with std::invalid_argument that lists the valid ones.
#pragma once
#include <array>
#include <cstddef>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include "precast/error.h"
#include "precast/graph.h"
#include "precast/ranks.h"

namespace c10 {
struct IValue;
}

namespace precast {

/// Replaces operators by other ones while recording: "aten::gelu" -> a function that computes it with operators that
/// are then recorded in its place. The function takes the operator's arguments from the end of the stack and
/// leaves its results there, as boxed kernels do; one that leaves the stack as it was declines, and the operator stays.
/// PrecompileError when it leaves another number of values, or something else for a tensor.
struct Decompositions {
  using Function = std::function<void(std::vector<c10::IValue>& stack)>;
  std::map<std::string, Function, std::less<>> table;
};

/// The tracer that records the ATen operators of one real execution. A capture with it takes exactly one call.
struct MakeFxTracer {
  std::shared_ptr<const Decompositions> decompositions{};
};

/// A capture front-end: a MakeFxTracer, or one by name. "make_fx" is the only one today; "dynamo" throws
/// NotImplementedError, another name std::invalid_argument.
class Tracer {
 public:
  Tracer(MakeFxTracer tracer = {}) : tracer_(std::move(tracer)) {}     // NOLINT: converts
  Tracer(std::string_view name);                                       // NOLINT: converts
  Tracer(const char* name) : Tracer(std::string_view(name)) {}         // NOLINT: converts
  Tracer(const std::string& name) : Tracer(std::string_view(name)) {}  // NOLINT: converts

  const MakeFxTracer& make_fx() const { return tracer_; }
  const char* name() const { return "make_fx"; }

 private:
  MakeFxTracer tracer_;
};

/// How the recorded graph is realized. "inductor": by precast's compiler. "eager": the graph is the program, run op by
/// op through LibTorch. Or a function that takes the recorded graph and gives the one to compile in its place, of the
/// same inputs and outputs; verification compares it with what really happened.
class Backend {
 public:
  using Rewrite = std::function<Graph(const Graph&)>;

  Backend(std::string name = "inductor") : name_(std::move(name)) {}  // NOLINT: converts
  Backend(const char* name) : name_(name) {}                          // NOLINT: converts
  template <class F>
    requires std::is_invocable_r_v<Graph, F&, const Graph&>
  Backend(F rewrite) : name_("inductor"), rewrite_(std::move(rewrite)) {}  // NOLINT: converts

  const std::string& name() const { return name_; }
  const Rewrite& rewrite() const { return rewrite_; }  ///< empty for a name

 private:
  std::string name_;
  Rewrite rewrite_;
};

struct LowerOptions {
  Backend backend = "inductor";
  Tracer tracer = MakeFxTracer{};
  /// The one symbol the artifact exports, a C identifier; different ones let several artifacts join one program.
  std::string symbol = "precast_model";
  /// Instruction sets to compile for: "native", "baseline", "avx2", "avx512".
  std::vector<std::string> isa = {"native", "baseline"};
  /// Random numbers are LibTorch's own, from its generator, in either setting; false leaves room for faster ones.
  bool fallback_random = false;
  /// Replay what was recorded and compare it with what really happened, before anything is written.
  bool verify = true;
  /// Raw access (data_ptr, accessor) to inputs inside fn is an error. Only where no other thread uses them meanwhile.
  bool seal_inputs = false;
  /// One rank of several captures and lowers; on the others the call runs the artifact that it made, and the pair is
  /// theirs as well. Every rank makes the same captures in the same order (precast/one_rank.h).
  std::optional<Ranks> compile_on_one_rank{};
};

struct PairPaths {
  std::filesystem::path artifact_path;  ///< C++ text, by custom "model.cpp"
  std::filesystem::path cache_path;     ///< compiled form of exactly that text, "model.cache"
};

/// A pair in memory.
struct Pair {
  std::string code;
  std::vector<std::byte> cache;
};

/// What a capture covered. A make_fx capture records one call as one graph, so most lists stay empty; the fields are
/// those of torch.compiler.precompile.
struct PrecompileSummary {
  int frames = 0, resume_functions = 0, guarded_codes = 0, backend_graphs = 0;
  std::vector<std::string> bypassed, truncated, uncovered_frames, wont_generalize;
  using Slot = std::pair<std::string, std::string>;  ///< guard type, source
  std::vector<Slot> dropped_guards, kept_guards, risky_dropped_guards, policy_dropped_guards;
  std::vector<std::array<std::string, 3>> dropped_guard_code;
  std::vector<std::string> capture_errors;  ///< one per distinct exception of a capture call, its type first

  /// Whether the capture covers everything it exercised.
  bool complete() const;
  std::map<std::string, int> dropped_guard_types() const;
  std::map<std::string, int> kept_guard_types() const;
};
/// One line: the counts, what was dropped, the first error.
std::string to_string(const PrecompileSummary&);

}  // namespace precast
