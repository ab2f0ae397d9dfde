#include "jit/program.h"

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

/// Results of a function of tensors, and their places among a graph's outputs.
std::string flat_spec(size_t leaves) {
  std::string text = "[";
  for (size_t i = 0; i < leaves; ++i) text += i ? ", *" : "*";
  return text + "]";
}

/// The cache of a text: from disk, or by the compiler.
std::vector<std::byte> compiled(const Signature& s, const std::string& code, const std::vector<std::string>& isa,
                                Account& account) {
  const std::vector<std::string> compiler = artifact::find_compiler();
  if (compiler.empty()) throw PrecompileError("no C++ compiler found: install g++ or set CXX");
  const std::string version = artifact::compiler_version(compiler), hash = sha256_hex(code);
  std::string key = hash + "\n" + version + "\n" + artifact::target_name() + "\n" PRECAST_VERSION;
  for (const std::string& name : artifact::resolve_isas(isa)) key += "\n" + name;
  Cached found = cached(sha256_hex(key), [&] {
    return artifact::write_cache(
        {s.backend,
         s.tracer,
         hash,
         {{artifact::target_name(), version, artifact::resolve_isas(isa), artifact::compile_artifact(code)}}});
  });
  account.misses.push_back(found.miss);
  return std::move(found.bytes);
}

detail::RunnablePtr build(const char* name, const Signature& signature, const ir::Graph& graph,
                          const Lowering& lowering, Account& account) {
  artifact::PairBytes pair;
  GraphFunction run;
  const artifact::ComposeOptions compose{"precast_model", {"native"}};
  if (lowering.backend == "eager") {
    account.ops += static_cast<int>(graph.nodes.size());
    pair = artifact::build_pair(signature, graph, nullptr, compose);
    if (lowering.function) {
      std::vector<at::Tensor> examples;
      for (const ir::ValueId v : graph.inputs) examples.push_back(host_torch::empty(graph.type(v)).zero_());
      run = lowering.function(Graph(std::make_shared<const ir::Graph>(graph)), examples);
      if (!run) throw PrecompileError("the backend's function returned no function");
    }
  } else {
    const emit::Emitted emitted = emit::lower(graph);
    account.ops += emitted.total_ops;
    account.kernels += static_cast<int>(emitted.kernels.size());
    account.host_ops += static_cast<int>(emitted.host_ops.size());
    for (const emit::HostOp& op : emitted.host_ops) account.host_reasons.push_back(op.op + ": " + op.why);
    for (const emit::KernelInfo& k : emitted.kernels) account.kernel_names.push_back(k.name + ": " + k.what);
    pair.code = artifact::compose(signature, graph, &emitted, compose);
    pair.cache = compiled(signature, pair.code, compose.isa, account);
  }
  if (lowering.trace) {
    lowering.trace->write(std::string(name) + ".txt", ir::print(graph));
    lowering.trace->write(std::string(name) + ".cpp", pair.code);
    if (lowering.draw) lowering.trace->draw(name, graph);
  }
  log("code", pair.code);
  return detail::load_from_memory({std::move(pair.code), std::move(pair.cache)},
                                  {std::move(run), lowering.step_memory, /*announce=*/false});
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
  structure_ = std::make_unique<api::StructureNodes>(artifact::parse_tree(s.out_spec), kinds);
  if (recorded_.differentiable()) {
    lower_both(lowering);
  } else {
    ir::Graph core = recorded_.graph;
    if (lowering.backend != "eager") passes::to_core(core);
    forward_ = build("forward", s, core, lowering, account_);
  }
  account_.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}
Program::~Program() = default;

void Program::lower_both(const Lowering& lowering) {
  const Signature& s = recorded_.signature;
  Joint joint{recorded_.graph, static_cast<int>(recorded_.tangents.size()), {}, {}};
  if (lowering.backend != "eager") passes::to_core(joint.graph);

  // Outputs of the call itself, renumbered.
  Signature forward = s;
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
    gradient_sources_.push_back(g.source);
  }

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

  forward.out_spec = "(" + s.out_spec + ", " + flat_spec(static_cast<size_t>(account_.saved)) + ")";
  for (int i = 0; i < account_.saved; ++i) {
    Result& r = forward.results.emplace_back();
    r.kind = Result::Kind::output;
    r.index = static_cast<int>(joint.results.size()) + i;
  }
  forward_ = build("forward", forward, halves.forward, lowering, account_);
  carry_sizes(back);

  Signature backward;
  backward.backend = s.backend, backward.tracer = s.tracer, backward.torch_version = s.torch_version;
  backward.num_positional_args = 1;
  backward_spec_ = "(" + flat_spec(back.inputs.size()) + ",)";
  backward.in_spec = backward_spec_;
  backward.out_spec = flat_spec(back.outputs.size());
  for (size_t i = 0; i < back.inputs.size(); ++i) {
    UserLeaf& leaf = backward.leaves.emplace_back();
    leaf.where = "saved value or tangent " + std::to_string(i);
    leaf.tensor.name = leaf.where;
    leaf.tensor.type = back.type(back.inputs[i]);
    backward.graph_inputs.push_back({static_cast<int>(i), 0});
  }
  for (size_t i = 0; i < back.outputs.size(); ++i) {
    Result& r = backward.results.emplace_back();
    r.kind = Result::Kind::output;
    r.index = static_cast<int>(i);
  }
  backward_ = build("backward", backward, back, lowering, account_);
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

std::shared_ptr<const detail::Binding> Program::bind(std::span<const detail::ModuleRef> modules) const {
  return forward_->bind(modules);
}

void Program::call(const detail::Binding* binding, const detail::Arguments& a,
                   std::span<const at::Tensor* const> sources, Again again,
                   std::span<detail::ResultLeaf> results) const {
  if (!differentiable()) {
    binding ? forward_->call(*binding, a, results) : forward_->call(a, results);
    return;
  }
  c10::SmallVector<detail::ResultLeaf, 16> leaves(forward_->result_leaves());
  const std::span<detail::ResultLeaf> all(leaves.data(), leaves.size());
  binding ? forward_->call(*binding, a, all) : forward_->call(a, all);
  std::vector<at::Tensor> saved;
  for (size_t i = results.size(); i < leaves.size(); ++i) saved.push_back(std::move(leaves[i].tensor));
  std::move(leaves.begin(), leaves.begin() + static_cast<std::ptrdiff_t>(results.size()), results.begin());

  const auto node = c10::make_intrusive<BackwardNode>(*this, sources, std::move(saved), std::move(again));
  torch::autograd::edge_list edges;
  for (const int source : gradient_sources_)
    edges.push_back(torch::autograd::impl::gradient_edge(*sources[static_cast<size_t>(source)]));
  node->set_next_edges(std::move(edges));
  for (const int result : recorded_.tangents)
    torch::autograd::set_history(results[static_cast<size_t>(result)].tensor, node);
}

}  // namespace precast::jit
