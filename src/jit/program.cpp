#include "jit/program.h"

#include <ATen/Parallel.h>
#include <torch/csrc/autograd/functions/utils.h>

#include <algorithm>
#include <chrono>

#include "artifact/build.h"
#include "artifact/cache.h"
#include "artifact/isa.h"
#include "artifact/spec.h"
#include "artifact/toolchain.h"
#include "emit/lower.h"
#include "host_torch/tensor_types.h"
#include "ir/print.h"
#include "jit/autotune.h"
#include "jit/backward_node.h"
#include "jit/disk_cache.h"
#include "jit/log.h"
#include "jit/partition.h"
#include "passes/passes.h"
#include "precast/error.h"
#include "util/errors.h"
#include "util/sha256.h"

namespace precast::jit {
namespace {

using artifact::Result;
using artifact::Signature;
using artifact::UserLeaf;

detail::Kind kind_of(const Result& r) {
  return r.kind < Result::Kind::output ? static_cast<detail::Kind>(r.kind) : detail::Kind::tensor;
}

/// Of a function from one list of tensors, the inputs, to one, the outputs.
Signature flat_signature(const ir::Graph& g, const Signature& like, const std::string& what) {
  Signature s;
  s.backend = like.backend, s.tracer = like.tracer, s.torch_version = like.torch_version;
  s.num_positional_args = 1;
  s.in_spec = artifact::flat_spec(g.inputs.size());
  s.out_spec = artifact::list_spec(g.outputs.size());
  for (size_t i = 0; i < g.inputs.size(); ++i) {
    UserLeaf& leaf = s.leaves.emplace_back();
    leaf.where = what + " " + std::to_string(i);
    leaf.tensor.name = leaf.where;
    leaf.tensor.type = g.type(g.inputs[i]);
    s.graph_inputs.push_back({static_cast<int>(i), 0});
  }
  for (size_t i = 0; i < g.outputs.size(); ++i) {
    Result& r = s.results.emplace_back();
    r.kind = Result::Kind::output;
    r.index = static_cast<int>(i);
  }
  return s;
}

/// Adds the time until it dies to a phase.
class Phase {
 public:
  Phase(Account& account, const char* name) : account_(account), name_(name) {}
  ~Phase() { account_.add(name_, std::chrono::duration<double>(std::chrono::steady_clock::now() - start_).count()); }
  Phase(const Phase&) = delete;
  Phase& operator=(const Phase&) = delete;

 private:
  Account& account_;
  const char* name_;
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
};

const artifact::ComposeOptions& compose_options() {
  static const auto& options = *new artifact::ComposeOptions{"precast_model", {"native"}};
  return options;
}

std::string find_version() {
  const std::vector<std::string> compiler = artifact::find_compiler();
  if (compiler.empty()) throw PrecompileError("no C++ compiler found: install g++ or set CXX");
  return artifact::compiler_version(compiler);
}

/// What decides a compiled form, beside its text.
std::string key_of_machine(const std::string& version) {
  std::string key = version + "\n" + artifact::target_name() + "\n" PRECAST_VERSION;
  for (const std::string& name : artifact::resolve_isas(compose_options().isa)) key += "\n" + name;
  return key;
}

std::vector<std::byte> compile_now(const Signature& s, const std::string& code, const std::string& version) {
  return artifact::write_cache({s.backend,
                                s.tracer,
                                sha256_hex(code),
                                {{artifact::target_name(), version, artifact::resolve_isas(compose_options().isa),
                                  artifact::compile_artifact(code)}}});
}

/// The cache of a text: from disk, or by the compiler.
std::vector<std::byte> compiled(const Signature& s, const std::string& code, Account& account) {
  const std::string version = find_version();  // a process: asked once
  Cached found = cached(sha256_hex(sha256_hex(code) + "\n" + key_of_machine(version)),
                        [&] { return compile_now(s, code, version); });
  account.misses.push_back(found.miss);
  return std::move(found.bytes);
}

detail::RunnablePtr build(const char* name, const Signature& signature, const ir::Graph& graph,
                          const Lowering& lowering, const ir::Choices& choices, Account& account) {
  artifact::PairBytes pair;
  GraphFunction run;
  if (lowering.backend == "eager") {
    account.ops += static_cast<int>(graph.nodes.size());
    pair = artifact::build_pair(signature, graph, nullptr, compose_options());
    if (lowering.function) {
      std::vector<at::Tensor> examples;
      for (const ir::ValueId v : graph.inputs) examples.push_back(host_torch::empty(graph.type(v)).zero_());
      run = lowering.function(Graph(std::make_shared<const ir::Graph>(graph)), examples);
      if (!run) throw PrecompileError("the backend's function returned no function");
    }
  } else {
    std::string loops;
    const emit::Emitted emitted = [&] {
      const Phase phase(account, "kernels");
      return emit::lower(graph, {.choices = choices, .loops = lowering.trace ? &loops : nullptr});
    }();
    if (lowering.trace) lowering.trace->write(std::string(name) + ".loops.txt", loops);
    account.ops += emitted.total_ops;
    account.kernels += static_cast<int>(emitted.kernels.size());
    account.host_ops += static_cast<int>(emitted.host_ops.size());
    for (const emit::HostOp& op : emitted.host_ops) account.host_reasons.push_back(op.op + ": " + op.why);
    for (const emit::KernelInfo& k : emitted.kernels) account.kernel_names.push_back(k.name + ": " + k.what);
    pair.code = artifact::compose(signature, graph, &emitted, compose_options());
    const Phase phase(account, "compiler");
    pair.cache = compiled(signature, pair.code, account);
  }
  if (lowering.trace) {
    lowering.trace->write(std::string(name) + ".txt", ir::print(graph));
    lowering.trace->write(std::string(name) + ".cpp", pair.code);
    if (lowering.draw) lowering.trace->draw(name, graph);
  }
  log("code", pair.code);
  const Phase phase(account, "loading");
  return detail::load_from_memory({std::move(pair.code), std::move(pair.cache)},
                                  {std::move(run), lowering.step_memory && signature.grads.empty(),
                                   /*announce=*/false});
}

/// Whether graph input `i` is a source as it is, and no window on a memory that several share.
bool is_whole(const Signature& s, const ir::Graph& g, size_t i) {
  const artifact::GraphInput& input = s.graph_inputs[i];
  const ir::Type& type = *artifact::source_types(s).at(static_cast<size_t>(input.source));
  const bool written = std::ranges::any_of(s.writes, [&](const auto& w) { return w.source == input.source; });
  return !written && input.offset_bytes == 0 && type == g.type(g.inputs[i]);
}

}  // namespace

Program::Program(Recorded recorded, const Lowering& lowering) : recorded_(std::move(recorded)) {
  const auto start = std::chrono::steady_clock::now();
  if (lowering.trace) lowering.trace->write("recorded.txt", ir::print(recorded_.graph));
  Signature& s = recorded_.signature;
  s.backend = lowering.backend;
  std::vector<detail::Kind> kinds;
  for (const Result& r : s.results) kinds.push_back(kind_of(r));
  account_.add("recording", recorded_.seconds);
  structure_ = std::make_unique<api::StructureNodes>(artifact::parse_tree(s.out_spec), kinds);
  ir::Choices choices = lowering.choices;
  if (lowering.autotune && lowering.backend != "eager") choices = tune(choices);
  if (recorded_.differentiable()) {
    lower_both(lowering, choices);
  } else {
    ir::Graph core = recorded_.graph;
    if (lowering.backend != "eager") lower_ops(core, lowering, choices);
    forward_ = build("forward", s, core, lowering, choices, account_);
  }
  account_.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}
Program::~Program() = default;

void Account::add(const std::string& phase, double seconds) {
  const auto at = std::ranges::find(phases, phase, &std::pair<std::string, double>::first);
  if (at == phases.end())
    phases.emplace_back(phase, seconds);
  else
    at->second += seconds;
}

/// To core ops; each pass leaves a file in the trace folder.
void Program::lower_ops(ir::Graph& g, const Lowering& lowering, const ir::Choices& choices) {
  const Phase phase(account_, "passes");
  int next = 0;
  passes::SeePass seen;
  if (lowering.trace)
    seen = [&](const std::string& pass, const ir::Graph& graph) {
      char number[8];
      std::snprintf(number, sizeof number, "%02d ", next++);
      lowering.trace->write("after pass " + (number + pass) + ".txt", ir::print(graph));
    };
  passes::to_core(g, choices, seen);
}

/// The graph's outputs sorted: those that the call itself leaves are renumbered in `forward`.
Joint Program::joint(ir::Graph graph, Signature& forward) const {
  Joint joint{std::move(graph), static_cast<int>(recorded_.tangents.size()), {}, {}};
  const auto keep = [&](int& output) {
    const auto at = std::ranges::find(joint.results, output);
    const auto place = static_cast<int>(at - joint.results.begin());
    if (at == joint.results.end()) joint.results.push_back(output);
    output = place;
  };
  for (Result& r : forward.results)
    if (r.kind == Result::Kind::output || r.kind == Result::Kind::output_view) keep(r.index);
  for (artifact::WriteBack& w : forward.writes) keep(w.output);
  for (artifact::Gradient& g : forward.grads) keep(g.output);
  for (const Recorded::Gradient& g : recorded_.gradients) {
    if (g.value.kind == Result::Kind::none) continue;
    PRECAST_CHECK(g.value.kind == Result::Kind::output, "a gradient is no output of the recorded graph");
    joint.gradients.push_back(g.value.index);
  }
  return joint;
}

ir::Choices Program::tune(const ir::Choices& first) {
  const Signature& s = recorded_.signature;
  const auto make = [&](const ir::Choices& c) {
    ir::Graph core = recorded_.graph;
    passes::to_core(core, c);
    std::vector<ir::Graph> graphs;
    if (recorded_.differentiable()) {
      Signature forward = s;
      Halves halves = partition(joint(std::move(core), forward));
      graphs = {std::move(halves.forward), std::move(halves.backward)};
    } else {
      graphs.push_back(std::move(core));
    }
    std::vector<TrialGraph> trials;
    for (ir::Graph& g : graphs) {
      const emit::Emitted emitted = emit::lower(g, {.choices = c});
      std::string code = artifact::compose(flat_signature(g, s, "input"), g, &emitted, compose_options());
      trials.push_back({std::move(g), std::move(code)});
    }
    return trials;
  };
  const std::string version = find_version();
  const auto compile = [&](const std::string& code) {
    return detail::load_from_memory({code, compile_now(s, code, version)}, {.announce = false});
  };
  const Phase phase(account_, "max_autotune");
  Tuned tuned = autotune(key_of_machine(version) + "\n" + std::to_string(at::get_num_threads()), first, make, compile);
  account_.tuning = std::move(tuned.lines);
  return tuned.choices;
}

void Program::lower_both(const Lowering& lowering, const ir::Choices& choices) {
  const Signature& s = recorded_.signature;
  Signature forward = s;
  ir::Graph core = recorded_.graph;
  if (lowering.backend != "eager") lower_ops(core, lowering, choices);
  const Joint joint = this->joint(std::move(core), forward);
  for (const Recorded::Gradient& g : recorded_.gradients)
    if (g.value.kind != Result::Kind::none) gradient_sources_.push_back(g.source);
  for (int source = 0; source < static_cast<int>(artifact::source_types(s).size()); ++source)
    if (std::ranges::find(gradient_sources_, source) == gradient_sources_.end()) other_sources_.push_back(source);

  for (size_t i = joint.graph.inputs.size() - recorded_.tangents.size(); i < joint.graph.inputs.size(); ++i)
    tangent_types_.push_back(joint.graph.type(joint.graph.inputs[i]));
  Halves halves = partition(joint);
  account_.saved_bytes = halves.saved_bytes;
  account_.recomputed = halves.recomputed;

  // An argument that is a window on a shared memory, or is written, is saved as a copy.
  std::vector<ir::ValueId> copied;  // of the forward graph
  ir::Graph& back = halves.backward;
  std::vector<ir::ValueId> direct_inputs, copied_inputs;
  for (size_t k = 0; k < halves.inputs.size(); ++k) {
    const auto i = static_cast<size_t>(halves.inputs[k]);
    if (is_whole(s, joint.graph, i)) {
      saved_sources_.push_back(s.graph_inputs[i].source);
      direct_inputs.push_back(back.inputs[k]);
    } else {
      copied.push_back(halves.forward.inputs[i]);
      copied_inputs.push_back(back.inputs[k]);
    }
  }
  std::vector<ir::ValueId> rest(back.inputs.begin() + static_cast<std::ptrdiff_t>(halves.inputs.size()),
                                back.inputs.end());
  back.inputs = direct_inputs;
  back.inputs.insert(back.inputs.end(), copied_inputs.begin(), copied_inputs.end());
  back.inputs.insert(back.inputs.end(), rest.begin(), rest.end());
  auto& outputs = halves.forward.outputs;
  outputs.insert(outputs.begin() + static_cast<std::ptrdiff_t>(joint.results.size()), copied.begin(), copied.end());
  account_.saved = static_cast<int>(copied.size()) + halves.saved;

  forward.out_spec = "(" + s.out_spec + ", " + artifact::list_spec(static_cast<size_t>(account_.saved)) + ")";
  for (int i = 0; i < account_.saved; ++i) {
    Result& r = forward.results.emplace_back();
    r.kind = Result::Kind::output;
    r.index = static_cast<int>(joint.results.size()) + i;
  }
  forward_ = build("forward", forward, halves.forward, lowering, choices, account_);
  first_tangent_ = back.inputs.size() - tangent_types_.size();
  carry_sizes(back);

  later_ = lowering, choices_ = choices;
  later_.step_memory = false;  // autograd keeps a gradient as it is: p.grad would be overwritten in the next step
  const Signature backward = flat_signature(back, s, "saved value or tangent");
  backwards_[std::vector<char>(tangent_types_.size())] = {build("backward", backward, back, later_, choices, account_),
                                                          *backward.in_spec,
                                                          false,
                                                          {},
                                                          std::vector<char>(back.outputs.size(), true)};
  later_.trace = nullptr;
  back_ = std::move(back);
}

const Program::Backward& Program::backward(const std::vector<char>& undefined) const {
  const std::lock_guard lock(backwards_mutex_);
  const auto known = backwards_.find(undefined);
  return known != backwards_.end() ? known->second : backwards_.emplace(undefined, prune(undefined)).first->second;
}

/// Those of `undefined` among the tangents of `g`, which are its inputs from `first` on.
Pruned Program::without(const std::vector<char>& undefined, const ir::Graph& g, size_t first) {
  const auto begin = g.inputs.begin() + static_cast<std::ptrdiff_t>(first);
  const std::vector<ir::ValueId> tangents(begin, begin + static_cast<std::ptrdiff_t>(undefined.size()));
  std::vector<ir::ValueId> missing;
  for (size_t i = 0; i < undefined.size(); ++i)
    if (undefined[i]) missing.push_back(tangents[i]);
  return without_tangents(g, tangents, missing);
}

/// What is undefined shows in the recorded graph: core ops may compute several gradients at once.
Program::Backward Program::prune(const std::vector<char>& undefined) const {
  Backward b = backwards_.at(std::vector<char>(undefined.size()));
  const ir::Graph& recorded = recorded_.graph;
  const std::vector<char> defined =
      without(undefined, recorded, recorded.inputs.size() - undefined.size()).defined_outputs;
  b.defined.clear();
  for (const Recorded::Gradient& g : recorded_.gradients)
    if (g.value.kind != Result::Kind::none) b.defined.push_back(defined.at(static_cast<size_t>(g.value.index)));
  ir::Graph wanted = back_;
  for (size_t i = b.defined.size(); i-- > 0;)
    if (!b.defined[i]) wanted.outputs.erase(wanted.outputs.begin() + static_cast<std::ptrdiff_t>(i));
  Pruned pruned = without(undefined, wanted, first_tangent_);
  for (const ir::ValueId v : pruned.zeros) b.zeros.push_back(pruned.graph.type(v));
  if (std::ranges::any_of(b.zeros, &ir::Type::is_symbolic) ||
      !std::ranges::all_of(pruned.defined_outputs, std::identity()))
    return b;
  passes::drop_dead_nodes(pruned.graph);
  ir::renumber(pruned.graph);
  try {
    Account unread;
    const Signature s = flat_signature(pruned.graph, recorded_.signature, "saved value or tangent");
    b.run = build("backward", s, pruned.graph, later_, choices_, unread);
    b.spec = *s.in_spec, b.pruned = true;
  } catch (const PrecompileError& e) {
    log("perf_hints", std::string("a backward without all gradients runs as one with zeros: ") + e.what());
  }
  return b;
}

/// Each symbol gets an input of its own, of type f32[u0,0]: what else backward gets need not show it as a whole dim.
void Program::carry_sizes(ir::Graph& back) {
  const std::vector<const ir::Type*> sources = artifact::source_types(recorded_.signature);
  for (const ir::Symbol& symbol : back.symbols) {
    const ir::Size size = ir::Size::symbol(symbol);
    const auto source = std::ranges::find_if(
        sources, [&](const ir::Type* t) { return std::ranges::find(t->sizes, size) != t->sizes.end(); });
    PRECAST_CHECK(source != sources.end(), "the symbol " + ir::name(symbol) + " is the size of no argument");
    const ir::Dims& sizes = (*source)->sizes;
    size_sources_.emplace_back(source - sources.begin(), std::ranges::find(sizes, size) - sizes.begin());
    back.inputs.push_back(back.add_value(ir::contiguous(ir::Dtype::f32, {ir::Size::symbol(symbol), 0})));
  }
}

void Program::check(std::span<const detail::ModuleRef> modules) const { forward_->bind(modules); }

void Program::call(const detail::Arguments& a, std::span<const at::Tensor* const> sources, Again again,
                   std::span<detail::ResultLeaf> results) const {
  const auto module_tensors = sources.first(recorded_.signature.params.size() + recorded_.signature.buffers.size());
  if (!differentiable()) {
    forward_->call(module_tensors, a, results);
    for (const int i : recorded_.spent)
      torch::autograd::set_history(results[static_cast<size_t>(i)].tensor, c10::make_intrusive<SpentNode>());
    return;
  }
  c10::SmallVector<detail::ResultLeaf, 16> leaves(forward_->result_leaves());
  const std::span<detail::ResultLeaf> all(leaves.data(), leaves.size());
  forward_->call(module_tensors, a, all);
  std::vector<at::Tensor> saved;
  for (size_t i = results.size(); i < leaves.size(); ++i) saved.push_back(std::move(leaves[i].tensor));
  std::move(leaves.begin(), leaves.begin() + static_cast<std::ptrdiff_t>(results.size()), results.begin());

  const auto node = c10::make_intrusive<BackwardNode>(*this, sources, std::move(saved), std::move(again));
  torch::autograd::edge_list edges;
  for (const int source : gradient_sources_)
    edges.push_back(torch::autograd::impl::gradient_edge(*sources[static_cast<size_t>(source)]));
  node->set_next_edges(std::move(edges));
  for (const int result : recorded_.tangents) {
    const at::Tensor& t = results[static_cast<size_t>(result)].tensor;
    if (recorded_.tangents.size() == 1)
      torch::autograd::set_history(t, node);
    else
      torch::autograd::set_history(t, c10::make_intrusive<ResultNode>(node, node->add_input_metadata(t)));
  }
}

}  // namespace precast::jit
