#include "api/from_text.h"

#include "artifact/build.h"
#include "emit/lower.h"
#include "host_torch/graph_executor.h"
#include "host_torch/tensor_types.h"
#include "ir/print.h"
#include "passes/passes.h"

namespace precast::testing {

namespace {

using artifact::Result;

artifact::Signature signature_of(const FromText& p, const ir::Graph& g) {
  artifact::Signature s;
  s.num_positional_args = 2, s.module_positions = {0};
  s.out_spec = s.in_spec.emplace("([");
  const size_t n_bound = p.params.size() + p.buffers.size();
  for (size_t i = 0; i < g.inputs.size(); ++i) {
    const ir::Type& type = g.type(g.inputs[i]);
    s.graph_inputs.push_back({static_cast<int>(i), 0});
    if (i < n_bound) {
      const bool is_buffer = i >= p.params.size();
      const std::string& name = is_buffer ? p.buffers[i - p.params.size()] : p.params[i];
      (is_buffer ? s.buffers : s.params).push_back({name, type, !is_buffer});
      s.slots.push_back({name, 0, is_buffer, static_cast<int>(i)});
      continue;
    }
    const std::string where = "argument 1[" + std::to_string(s.leaves.size()) + "]";
    *s.in_spec += s.leaves.empty() ? "*" : ", *";
    s.leaves.push_back({artifact::UserLeaf::Kind::tensor, where, {"", type}, {}});
  }
  *s.in_spec += "],)";
  s.writes = p.writes, s.grads = p.grads, s.results = p.results;
  for (size_t i = 0; i < g.outputs.size() && p.results.empty(); ++i)
    s.results.push_back({Result::Kind::output, static_cast<int>(i), 0, {}, {}, false});
  s.out_spec = "[";
  for (size_t i = 0; i < s.results.size(); ++i) s.out_spec += i ? ", *" : "*";
  s.out_spec += "]";
  return s;
}

std::function<int64_t(const ir::Symbol&)> values_of(const ir::Graph& g, const std::vector<int64_t>& sizes) {
  return [symbols = g.symbols, sizes](const ir::Symbol& s) {
    for (size_t i = 0; i < symbols.size(); ++i)
      if (symbols[i].id == s.id) return sizes.at(i);
    throw std::runtime_error("no value for a symbol");
  };
}

at::Tensor random(const ir::Type& type, std::optional<int64_t> below) {
  at::Tensor t = at::empty_strided(ir::numbers(type.sizes), ir::numbers(type.strides), host_torch::options_of(type));
  if (below) return t.random_(0, *below);
  if (type.dtype == ir::Dtype::b8) return t.copy_(at::randint(2, t.sizes()));
  if (ir::is_integral(type.dtype)) return t.random_(0, 10);
  return t.copy_(at::randn(t.sizes()));
}

void check_close(const FromText& p, const at::Tensor& found, const at::Tensor& expected) {
  REQUIRE(found.defined());
  const bool same_dtype = found.scalar_type() == expected.scalar_type();
  CHECK(same_dtype);
  const bool same_sizes = found.sizes() == expected.sizes();
  REQUIRE(same_sizes);
  if (expected.numel() > 0)
    for (int64_t d = 0; d < expected.dim(); ++d)
      CHECK((expected.size(d) == 1 || found.stride(d) == expected.stride(d)));
  CHECK(at::allclose(found.to(at::kDouble), expected.to(at::kDouble), p.relative, p.absolute, /*equal_nan=*/true));
}

}  // namespace

Pair build(const FromText& p, const std::string& backend) {
  const ir::Graph recorded = ir::parse(p.graph);
  artifact::Signature s = signature_of(p, recorded);
  s.backend = backend;
  const artifact::ComposeOptions options{"precast_model", {"native"}};
  artifact::PairBytes pair;
  if (backend == "eager") {
    pair = artifact::build_pair(s, recorded, nullptr, options);
  } else {
    ir::Graph core = recorded;
    passes::to_core(core);
    emit::LowerConfig config;
    config.constant_inputs.assign(p.params.size() + p.buffers.size(), true);
    config.constant_inputs.resize(recorded.inputs.size());
    for (const artifact::WriteBack& w : p.writes) config.constant_inputs[static_cast<size_t>(w.source)] = false;
    const emit::Emitted emitted = emit::lower(core, config);
    std::string why;
    for (const emit::HostOp& op : emitted.host_ops) why += op.op + ": " + op.why + "\n";
    CHECK_MESSAGE(static_cast<int>(emitted.host_ops.size()) == p.host_ops, why);
    pair = artifact::build_pair(s, recorded, &emitted, options);
  }
  return {pair.code, pair.cache};
}

AtSizes at_sizes(const FromText& p, const std::vector<int64_t>& sizes, uint64_t seed) {
  const ir::Graph symbolic = ir::parse(p.graph), g = ir::substitute(symbolic, values_of(symbolic, sizes));
  at::manual_seed(seed);
  at::NoGradGuard no_grad;
  AtSizes w;
  for (size_t i = 0; i < g.inputs.size(); ++i) {
    const auto below = p.below.find(i);
    at::Tensor t = random(g.type(g.inputs[i]), below == p.below.end() ? std::nullopt : std::optional(below->second));
    if (i < p.params.size()) {
      t = w.model->register_parameter(p.params[i], t);
    } else if (i < p.params.size() + p.buffers.size()) {
      t = w.model->register_buffer(p.buffers[i - p.params.size()], t);
    } else {
      w.arguments.push_back(t);
    }
    w.inputs.push_back(t);
  }
  Tensors copies;
  for (const at::Tensor& t : w.inputs) copies.push_back(host_torch::clone_bytes(t.detach()));
  w.outputs = host_torch::GraphExecutor(g).run(copies);
  return w;
}

void check_call(const FromText& p, const FromTextRunnable& f, const std::vector<int64_t>& sizes) {
  CAPTURE(sizes[0]);
  CAPTURE(sizes.back());
  const AtSizes w = at_sizes(p, sizes);
  const Tensors found = f(*w.model, w.arguments);
  for (size_t i = 0; i < found.size() && p.results.empty(); ++i) {
    CAPTURE(i);
    check_close(p, found[i], w.outputs[i]);
  }
  for (const artifact::WriteBack& write : p.writes)
    check_close(p, w.inputs[static_cast<size_t>(write.source)].detach(), w.outputs[static_cast<size_t>(write.output)]);
  for (const artifact::Gradient& g : p.grads)
    check_close(p, w.inputs[static_cast<size_t>(g.source)].grad(), w.outputs[static_cast<size_t>(g.output)]);
}

void check(const FromText& p) {
  INFO(p.name);
  for (const char* backend : {"inductor", "eager"}) {
    CAPTURE(backend);
    const auto f = load_from_memory<Tensors(Model&, Tensors)>(build(p, backend));
    for (const auto& sizes : p.sizes) check_call(p, f, sizes);
  }
}

}  // namespace precast::testing
