// One capture: records the call, completes the signature with the calling convention, lowers and writes the pair.
#include <ATen/core/dispatch/Dispatcher.h>
#include <c10/util/Type.h>
#include <torch/csrc/jit/runtime/graph_executor.h>

#include <algorithm>
#include <unordered_map>

#include "api/call_arguments.h"
#include "api/layouts.h"
#include "api/one_rank.h"
#include "api/options_check.h"
#include "artifact/build.h"
#include "artifact/pair.h"
#include "artifact/spec.h"
#include "emit/lower.h"
#include "host_torch/module_state.h"
#include "passes/passes.h"
#include "precast/detail/core.h"
#include "trace/marks.h"
#include "trace/recorder.h"
#include "util/checks.h"
#include "util/errors.h"
#include "util/warn.h"

namespace precast::detail {

namespace {

using artifact::Signature;
using artifact::UserLeaf;

/// Parameters and buffers that no write of the artifact reaches: what depends on them alone may be prepared.
std::vector<bool> constant_inputs(const Signature& s) {
  const int bound = static_cast<int>(s.params.size() + s.buffers.size());
  const auto written = [&](int source) {
    return std::any_of(s.writes.begin(), s.writes.end(), [&](const auto& w) { return w.source == source; });
  };
  std::vector<bool> constant;
  for (const artifact::GraphInput& input : s.graph_inputs) {
    bool is = input.source < bound && !written(input.source);
    for (const artifact::Alias& alias : s.aliases)
      if (alias.shared && (alias.a == input.source || alias.b == input.source))
        is = is && alias.a < bound && alias.b < bound && !written(alias.a) && !written(alias.b);
    constant.push_back(is);
  }
  return constant;
}

/// A decomposition leaves what the op would leave.
void check_results(const std::string& op, const std::vector<c10::IValue>& stack, size_t before) {
  const size_t dot = op.find('.');
  const auto handle =
      c10::Dispatcher::singleton().findSchema({op.substr(0, dot), dot == op.npos ? std::string() : op.substr(dot + 1)});
  PRECAST_CHECK(handle.has_value(), "an op of the table has no schema");
  const auto& returns = handle->schema().returns();
  const std::string how =
      ". It takes the arguments off the stack and puts the results there; to decline it leaves "
      "the stack as it was";
  const auto below = static_cast<int64_t>(before - handle->schema().arguments().size());
  const int64_t left = static_cast<int64_t>(stack.size()) - below;
  if (left != static_cast<int64_t>(returns.size()))
    refuse(Check::decomposition_count, "decompositions: the function for '" + op + "' left " + std::to_string(left) +
                                           " values in place of its arguments, expected " +
                                           std::to_string(returns.size()) + how);
  for (size_t i = 0; i < returns.size(); ++i)
    if (const c10::IValue& v = stack[static_cast<size_t>(below) + i];
        returns[i].type()->kind() == c10::TypeKind::TensorType && !v.isTensor())
      refuse(Check::decomposition_kind, "decompositions: result " + std::to_string(i) + " of the function for '" + op +
                                            "' is of kind " + v.tagKind() + ", expected a tensor" + how);
}

/// Looks ops up in the table; inside a decomposition the same op is itself.
std::function<bool(const std::string&, std::vector<c10::IValue>&)> decomposer(std::shared_ptr<const Decompositions> d) {
  if (!d || d->table.empty()) return {};
  return [d](const std::string& op, std::vector<c10::IValue>& stack) {
    thread_local std::vector<std::string> running;
    const auto found = d->table.find(op);
    if (found == d->table.end() || std::find(running.begin(), running.end(), op) != running.end()) return false;
    at::AutoDispatchBelowADInplaceOrView below_autograd;  // where the recorder met the op
    running.push_back(op);
    struct Pop {
      ~Pop() { running.pop_back(); }
    } pop;
    const std::vector<c10::IValue> before = stack;
    found->second(stack);
    const auto same = [](const c10::IValue& a, const c10::IValue& b) { return a.is(b); };
    if (std::equal(stack.begin(), stack.end(), before.begin(), before.end(), same)) return false;  // it declines
    check_results(op, stack, before.size());
    return true;
  };
}

/// What a call checks. Nothing that is checked at capture is dropped later.
void add_guards(const Signature& s, PrecompileSummary& summary) {
  std::vector<std::string> sources;  // by index
  for (const artifact::TensorMeta& t : s.params) sources.push_back("parameter '" + t.name + "'");
  for (const artifact::TensorMeta& t : s.buffers) sources.push_back("buffer '" + t.name + "'");
  const auto keep = [&](const char* type, const std::string& source) {
    summary.kept_guards.emplace_back(type, source);
  };
  for (const std::string& source : sources) keep("TENSOR_MATCH", source);
  for (const UserLeaf& leaf : s.leaves) {
    if (leaf.kind == UserLeaf::Kind::tensor) {
      keep("TENSOR_MATCH", leaf.where);
      sources.push_back(leaf.where);
      continue;
    }
    keep(leaf.kind == UserLeaf::Kind::none ? "CONSTANT_MATCH" : "EQUALS_MATCH", leaf.where);
    const bool bare = leaf.where.find_first_of("[.") == std::string::npos;
    if (bare && leaf.kind != UserLeaf::Kind::none) summary.wont_generalize.push_back(leaf.where);
  }
  for (const artifact::ModuleAttribute& a : s.attributes) keep("EQUALS_MATCH", "attribute '" + a.name + "'");
  for (const artifact::Alias& a : s.aliases)
    keep(a.shared ? "DUPLICATE_INPUT" : "STORAGE_OVERLAPPING",
         sources.at(static_cast<size_t>(a.a)) + ", " + sources.at(static_cast<size_t>(a.b)));
  for (const std::string& condition : s.conditions) keep("EQUALS_MATCH", condition);
}

/// What the inductor backend cannot be asked for.
void check_lowerable(const ir::Graph& graph, const Signature& s) {
  const bool computes =
      std::any_of(graph.nodes.begin(), graph.nodes.end(), [](const ir::Node& n) { return n.op != "prim::view"; });
  if (!computes && s.writes.empty() && s.grads.empty() && s.zeroed_grads.empty() && s.cleared_grads.empty())
    refuse(Check::inductor_no_compute,
           "the inductor backend cannot lower a graph that computes nothing: the function returns its arguments or "
           "constants as they are. Return a computed tensor, or use backend=\"eager\"");
  for (size_t i = 0; i < s.results.size(); ++i)
    if (s.results[i].kind == artifact::Result::Kind::real || s.results[i].kind == artifact::Result::Kind::string)
      refuse(
          Check::inductor_result,
          "result " + std::to_string(i) + " is a " +
              (s.results[i].kind == artifact::Result::Kind::real ? "float" : "string") +
              ", which the inductor backend cannot return; tensors, ints, bools and none it can. Return a tensor, or "
              "use backend=\"eager\"");
}

/// The user's graph in place of the recorded one.
void rewrite(ir::Graph& graph, const Backend::Rewrite& rewrite) {
  const Graph before(std::make_shared<const ir::Graph>(graph)), after = rewrite(before);
  const auto same = [](const char* kind, const std::vector<std::string>& expected,
                       const std::vector<std::string>& found) {
    if (expected.size() != found.size())
      refuse(Check::backend_graph, "the graph that the backend function made: expected " +
                                       std::to_string(expected.size()) + " " + kind +
                                       "s, as in the recorded graph, found " + std::to_string(found.size()));
    for (size_t i = 0; i < std::min(expected.size(), found.size()); ++i)
      if (expected[i] != found[i])
        refuse(Check::backend_graph, "the graph that the backend function made: expected " + expected[i] + " as " +
                                         kind + " " + std::to_string(i) + ", as in the recorded graph, found " +
                                         found[i]);
  };
  same("input", before.input_types(), after.input_types());
  same("output", before.output_types(), after.output_types());
  graph = after.internal();
}

/// A value that became a number is easily overlooked: the next batch has another.
void tell_conditions(const Signature& s) {
  if (s.conditions.empty()) return;
  std::string list;
  for (size_t i = 0; i < std::min<size_t>(s.conditions.size(), 3); ++i) list += (i ? ", " : "") + s.conditions[i];
  if (s.conditions.size() > 3) list += ", ...";
  warn(std::to_string(s.conditions.size()) + (s.conditions.size() == 1 ? " value was" : " values were") +
       " read from tensors as numbers during the capture: " + list +
       ". The artifact refuses a call that computes another value; keep it a tensor, or leave it out of the function, "
       "if "
       "it varies");
}

std::string in_words(const std::exception& e) {
  const std::string type = c10::demangle(typeid(e).name());
  return type + ": " + e.what();
}

}  // namespace

struct CaptureCore::State {
  LowerOptions options;
  PairPaths paths;
  std::optional<trace::Recording> recording;
  std::optional<artifact::PairBytes> built;
  std::vector<std::string> errors;
  std::optional<api::OneRank> one_rank;
  std::optional<Signature> received;  // of the artifact that another rank made
  bool spent = false, keep_gradients = false;

  bool has_call() const { return recording || received; }

  void require_open(const char* what) const {
    if (spent)
      refuse(Check::capture_spent, std::string(what) +
                                       ": this capture is spent; a capture is single-use, so make another one "
                                       "with precast::capture()");
  }
  void require_recording(const char* what) const {
    if (!has_call() && !errors.empty())
      refuse(Check::capture_failed_call,
             std::string(what) + ": the call failed (" + errors.back() +
                 "), so there is nothing to write; call again, and finish when it has succeeded");
    if (!has_call())
      refuse(Check::capture_no_call, std::string(what) +
                                         ": the capture made no call, so there is nothing to write; call it once as "
                                         "you would call fn");
  }

  void require_no_call() const {
    if (has_call())
      refuse(Check::capture_second_call,
             "call: a make_fx capture takes exactly one call, and this one has been made; make another "
             "capture for another call");
  }

  const artifact::PairBytes& build() {
    if (built) return *built;
    const Signature& signature = recording->signature;
    const artifact::ComposeOptions compose{options.symbol, options.isa};
    if (options.backend.name() == "eager") {
      api::loosen_layouts(recording->graph, signature);
      built = artifact::build_pair(signature, recording->graph, nullptr, compose);
    } else {
      ir::Graph core = recording->graph;
      passes::to_core(core);
      emit::LowerConfig config;
      config.constant_inputs = constant_inputs(signature);
      emit::Emitted emitted = emit::lower(core, config);
      built = artifact::build_pair(signature, recording->graph, &emitted, compose);
    }
    return *built;
  }
  void write() {
    const artifact::PairBytes& pair = build();
    artifact::write_pair(paths.artifact_path, paths.cache_path, pair.code, pair.cache);
  }
};

CaptureCore::CaptureCore(LowerOptions options) : state_(std::make_unique<State>()) {
  api::check(options);
  state_->options = std::move(options);
}
CaptureCore::CaptureCore(PairPaths paths, LowerOptions options) : CaptureCore(std::move(options)) {
  api::check(paths);
  state_->paths = std::move(paths);
}
CaptureCore CaptureCore::functional(LowerOptions options) {
  CaptureCore core(std::move(options));
  core.state_->keep_gradients = true;
  return core;
}
CaptureCore::~CaptureCore() = default;
CaptureCore::CaptureCore(CaptureCore&&) noexcept = default;
CaptureCore& CaptureCore::operator=(CaptureCore&&) noexcept = default;

void CaptureCore::record(const Arguments& arguments, const std::function<void(const ResultSink&)>& run) {
  State& s = *state_;
  s.require_open("call");
  s.require_no_call();
  const api::CallArguments call(arguments);
  if (s.options.backend.name() == "eager" && is_on(Check::dynamic_eager))
    for (const trace::Source& user : call.sources().user)
      if (trace::marks_of(user.tensor).any())
        throw NotImplementedError(user.name +
                                  " has a marked dim (mark_unbacked), which backend=\"eager\" does not "
                                  "implement; use the inductor backend, or leave the mark out");
  torch::jit::GraphOptimizerEnabledGuard no_optimizer(false);  // its passes run operators of their own
  std::string out_spec;
  const auto fn = [&] {
    std::vector<trace::Leaf> leaves;
    run([&](const Leaves& result, const std::string& spec) {
      out_spec = spec;
      leaves = api::recorded_leaves(result);
    });
    return leaves;
  };
  trace::Options options;
  options.verify = s.options.verify;
  options.seal_inputs = s.options.seal_inputs;
  options.keep_gradients = s.keep_gradients;
  options.decompose = decomposer(s.options.tracer.make_fx().decompositions);
  std::vector<int> layouts;
  options.accept = [&](ir::Graph& graph, const Signature& signature) {
    layouts = api::fixed_layouts(graph, signature);
    if (s.options.backend.rewrite()) rewrite(graph, s.options.backend.rewrite());
    if (s.options.backend.name() == "inductor") check_lowerable(graph, signature);
  };
  try {
    trace::Recording recording = trace::record(call.sources(), fn, options);
    call.complete(recording.signature);
    recording.signature.out_spec = out_spec;
    recording.signature.fixed_layouts = std::move(layouts);
    recording.signature.backend = s.options.backend.name();
    recording.signature.tracer = s.options.tracer.name();
    recording.results.clear();  // the caller's
    tell_conditions(recording.signature);
    s.recording = std::move(recording);
    if (s.one_rank) s.one_rank->deliver(s.build());
  } catch (const std::exception& e) {
    const std::string error = in_words(e);
    if (s.one_rank) s.one_rank->deliver_failure(error);
    if (std::find(s.errors.begin(), s.errors.end(), error) == s.errors.end()) s.errors.push_back(error);
    throw;
  }
}

RunnablePtr CaptureCore::receive(const Arguments& arguments) {
  State& s = *state_;
  if (!s.options.compile_on_one_rank) return nullptr;
  s.require_open("call");
  s.require_no_call();
  s.one_rank.emplace(*s.options.compile_on_one_rank);
  s.one_rank->agree(api::CallArguments(arguments).in_words());
  if (s.one_rank->captures()) return nullptr;
  artifact::PairBytes pair = s.one_rank->receive();
  RunnablePtr runnable = load_from_memory({pair.code, pair.cache});
  s.received = artifact::read_artifact_text(pair.code, "the artifact of rank 0").metadata.signature;
  s.built = std::move(pair);
  return runnable;
}

Pair CaptureCore::pair() {
  state_->require_recording("precompile");
  const artifact::PairBytes& built = state_->build();
  return {built.code, built.cache};
}

void CaptureCore::save() {
  state_->require_open("save");
  state_->require_recording("save");
  state_->write();
}

void CaptureCore::finish() {
  State& s = *state_;
  s.require_open("finish");
  s.spent = true;
  s.require_recording("finish");
  s.write();
}

PrecompileSummary CaptureCore::summary() const {
  PrecompileSummary summary;
  summary.capture_errors = state_->errors;
  if (!state_->has_call()) return summary;
  summary.frames = summary.guarded_codes = summary.backend_graphs = 1;
  add_guards(state_->recording ? state_->recording->signature : *state_->received, summary);
  return summary;
}

}  // namespace precast::detail
