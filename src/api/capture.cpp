// One capture: records the call, completes the signature with the calling convention, lowers and writes the pair.
#include <c10/util/Type.h>
#include <torch/csrc/jit/runtime/graph_executor.h>

#include <algorithm>
#include <unordered_map>

#include "api/options_check.h"
#include "artifact/build.h"
#include "artifact/pair.h"
#include "artifact/spec.h"
#include "emit/lower.h"
#include "host_torch/module_state.h"
#include "passes/passes.h"
#include "precast/detail/core.h"
#include "trace/geometry.h"
#include "trace/recorder.h"
#include "util/checks.h"
#include "util/errors.h"
#include "util/warn.h"

namespace precast::detail {

namespace {

using artifact::Signature;
using artifact::UserLeaf;

ir::Attr value_of(const Leaf& leaf) {
  switch (leaf.kind) {
    case Kind::boolean:
      return leaf.integer != 0;
    case Kind::integer:
      return leaf.integer;
    case Kind::real:
      return leaf.real;
    case Kind::string:
      return std::string(leaf.text, static_cast<size_t>(leaf.length));
    default:
      return {};
  }
}

/// What the caller passes, in the words of the recorder and of the signature.
class Call {
 public:
  explicit Call(const Arguments& a)
      : arguments_(a),
        attributes_(host_torch::module_attributes(refs())),
        modes_(host_torch::module_modes(refs())),
        tensors_(host_torch::module_tensors(refs())) {
    places_ = argument_places();
    intern();
    for (size_t i = 0; i < a.leaves.size(); ++i) {
      values_.push_back(value_of(a.leaves[i]));  // fn may consume the argument
      if (a.leaves[i].kind == Kind::tensor) sources_.user.push_back({*a.leaves[i].tensor, places_[i]});
    }
    sources_.modules = std::make_shared<host_torch::ModuleState>(refs());
  }

  const trace::Sources& sources() const { return sources_; }

  /// The recorder fills in what it saw; this adds what the caller said.
  void complete(Signature& s) const {
    s.num_positional_args = arguments_.positional;
    s.module_positions.assign(arguments_.module_positions.begin(), arguments_.module_positions.end());
    s.slots = slots_;
    s.in_spec = arguments_.spec;
    s.attributes = attributes_;
    if (host_torch::module_modes(refs()) == modes_) s.modes = modes_;  // else fn sets them itself
    PRECAST_CHECK(s.params.size() == sources_.params.size() && s.buffers.size() == sources_.buffers.size() &&
                      s.leaves.size() == sources_.user.size(),
                  "the recorder returned another number of sources than it was given");
    for (size_t i = 0; i < s.params.size(); ++i) s.params[i].name = names_[i];
    for (size_t i = 0; i < s.buffers.size(); ++i) s.buffers[i].name = names_[s.params.size() + i];
    std::vector<UserLeaf> leaves;
    auto recorded = s.leaves.begin();
    for (size_t i = 0; i < arguments_.leaves.size(); ++i) {
      const Leaf& leaf = arguments_.leaves[i];
      UserLeaf& out = leaves.emplace_back();
      if (leaf.kind == Kind::tensor) out = *recorded++;
      out.kind = static_cast<UserLeaf::Kind>(leaf.kind);
      out.where = places_[i];
      if (leaf.kind != Kind::tensor) out.value = values_[i];
    }
    s.leaves = std::move(leaves);
  }

 private:
  std::span<const ModuleRef> refs() const { return {arguments_.modules.data(), arguments_.modules.size()}; }

  std::string qualified(const host_torch::ModuleTensor& t) const {
    return arguments_.modules.size() > 1 ? "m" + std::to_string(t.module) + "." + t.name : t.name;
  }

  /// Each tensor once, by identity: parameters, then buffers.
  void intern() {
    std::unordered_map<const void*, size_t> place;
    std::vector<size_t> params, buffers;
    for (size_t i = 0; i < tensors_.size(); ++i)
      if (place.emplace(tensors_[i].tensor.unsafeGetTensorImpl(), i).second)
        (tensors_[i].is_buffer ? buffers : params).push_back(i);
    std::unordered_map<size_t, int> index;
    const auto add = [&](size_t i, std::vector<trace::Source>& to, const char* kind) {
      index.emplace(i, static_cast<int>(names_.size()));
      names_.push_back(qualified(tensors_[i]));
      to.push_back({tensors_[i].tensor, kind + (" '" + names_.back() + "'")});
    };
    for (size_t i : params) add(i, sources_.params, "parameter");
    for (size_t i : buffers) add(i, sources_.buffers, "buffer");
    for (const auto& t : tensors_)
      slots_.push_back({t.name, t.module, t.is_buffer, index.at(place.at(t.tensor.unsafeGetTensorImpl()))});
  }

  std::vector<std::string> argument_places() const {
    std::vector<std::string> places;
    const artifact::Tree tree = artifact::parse_tree(arguments_.spec);
    int position = 0;
    const auto& modules = arguments_.module_positions;
    for (const artifact::Tree& argument : tree.children) {
      while (std::find(modules.begin(), modules.end(), position) != modules.end()) ++position;
      for (std::string& place : artifact::leaf_places(argument, "argument " + std::to_string(position)))
        places.push_back(std::move(place));
      ++position;
    }
    return places;
  }

  const Arguments& arguments_;
  std::vector<artifact::ModuleAttribute> attributes_;
  std::vector<std::string> modes_;
  std::vector<host_torch::ModuleTensor> tensors_;
  std::vector<std::string> places_, names_;  // of the leaves; of the interned tensors
  std::vector<ir::Attr> values_;             // of the leaves that are no tensors
  std::vector<artifact::ModuleSlot> slots_;
  trace::Sources sources_;
};

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

/// The eager backend takes any layout. An expanded input that is read only as a whole may be dense as well: the graph
/// then reads it as dense.
void loosen(ir::Graph& g, const Signature& s) {
  std::vector<bool> fixed(g.values.size());
  const auto fix = [&](ir::ValueId id) { fixed[static_cast<size_t>(id)] = true; };
  for (ir::ValueId id : g.outputs) fix(id);
  for (const ir::Node& n : g.nodes) {
    for (const ir::Shared& shared : n.shared) fix(shared.base);
    ir::for_each_operand(n, [&](ir::Slot slot, ir::ValueId id) {
      const bool written = std::any_of(n.writes.begin(), n.writes.end(), [&](auto& w) { return w.slot == slot; });
      if (id != ir::kNoValue && (written || n.op.starts_with("prim::"))) fix(id);
    });
  }
  for (size_t i = 0; i < g.inputs.size(); ++i) {
    const int source = s.graph_inputs[i].source;
    const bool aliased = std::any_of(s.aliases.begin(), s.aliases.end(),
                                     [&](auto& a) { return a.shared && (a.a == source || a.b == source); });
    ir::Type& type = g.values[static_cast<size_t>(g.inputs[i])].type;
    if (!aliased && !fixed[static_cast<size_t>(g.inputs[i])] && trace::overlaps_itself(type))
      type.strides = ir::contiguous_strides(type.sizes);
  }
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
    found->second(stack);
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
  bool spent = false;

  void require_open(const char* what) const {
    if (spent)
      refuse(Check::capture_spent, std::string(what) +
                                       ": this capture is spent; a capture is single-use, so make another one "
                                       "with precast::capture()");
  }
  void require_recording(const char* what) const {
    if (!recording && !errors.empty())
      refuse(Check::capture_failed_call,
             std::string(what) + ": the call failed (" + errors.back() +
                 "), so there is nothing to write; call again, and finish when it has succeeded");
    if (!recording)
      refuse(Check::capture_no_call, std::string(what) +
                                         ": the capture made no call, so there is nothing to write; call it once as "
                                         "you would call fn");
  }

  const artifact::PairBytes& build() {
    if (built) return *built;
    const Signature& signature = recording->signature;
    const artifact::ComposeOptions compose{options.symbol, options.isa};
    if (options.backend.name() == "eager") {
      loosen(recording->graph, signature);
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
CaptureCore::~CaptureCore() = default;
CaptureCore::CaptureCore(CaptureCore&&) noexcept = default;
CaptureCore& CaptureCore::operator=(CaptureCore&&) noexcept = default;

void CaptureCore::record(const Arguments& arguments, const std::function<void(const ResultSink&)>& run) {
  State& s = *state_;
  s.require_open("call");
  if (s.recording)
    refuse(Check::capture_second_call,
           "call: a make_fx capture takes exactly one call, and this one has been made; make another "
           "capture for another call");
  const Call call(arguments);
  torch::jit::GraphOptimizerEnabledGuard no_optimizer(false);  // its passes run operators of their own
  std::string out_spec;
  const auto fn = [&] {
    std::vector<trace::Leaf> leaves;
    run([&](const Leaves& result, const std::string& spec) {
      out_spec = spec;
      for (const Leaf& leaf : result) {
        trace::Leaf& out = leaves.emplace_back();
        out.is_tensor = leaf.kind == Kind::tensor;
        if (out.is_tensor)
          out.tensor = *leaf.tensor;
        else
          out.value = value_of(leaf);
      }
    });
    return leaves;
  };
  trace::Options options;
  options.verify = s.options.verify;
  options.seal_inputs = s.options.seal_inputs;
  options.decompose = decomposer(s.options.tracer.make_fx().decompositions);
  options.accept = [&](ir::Graph& graph, const Signature& signature) {
    if (s.options.backend.rewrite()) rewrite(graph, s.options.backend.rewrite());
    if (s.options.backend.name() == "inductor") check_lowerable(graph, signature);
  };
  try {
    trace::Recording recording = trace::record(call.sources(), fn, options);
    call.complete(recording.signature);
    recording.signature.out_spec = out_spec;
    recording.signature.backend = s.options.backend.name();
    recording.signature.tracer = s.options.tracer.name();
    recording.results.clear();  // the caller's
    tell_conditions(recording.signature);
    s.recording = std::move(recording);
  } catch (const std::exception& e) {
    const std::string error = in_words(e);
    if (std::find(s.errors.begin(), s.errors.end(), error) == s.errors.end()) s.errors.push_back(error);
    throw;
  }
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
  if (!state_->recording) return summary;
  summary.frames = summary.guarded_codes = summary.backend_graphs = 1;
  add_guards(state_->recording->signature, summary);
  return summary;
}

}  // namespace precast::detail
