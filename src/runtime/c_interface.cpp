#include "precast/runtime.h"

#include <algorithm>
#include <deque>
#include <memory>
#include <new>
#include <vector>

#include "runtime/artifact.h"
#include "runtime/standalone_host.h"
#include "runtime/weights.h"
#include "util/errors.h"
#include "util/warn.h"

using namespace precast;
using artifact::Result;

struct precast_runnable {
  runtime::ArtifactPtr artifact;
  const precast_host_ops* ops = nullptr;
  std::string metadata;
};

struct precast_binding {
  runtime::ArtifactPtr artifact;
  const precast_host_ops* ops = nullptr;
  std::vector<precast_tensor> bound;
  std::vector<std::vector<precast_i64>> dims;  // copies of sizes and strides
  std::unique_ptr<runtime::Weights> weights;   // of precast_bind_file
};

struct precast_outputs {
  runtime::ArtifactPtr artifact;
  std::unique_ptr<runtime::StandaloneHost> host;  // owns the memory
  std::vector<precast_i64> numbers;               // of the call: sizes of outputs point into it
  std::deque<std::vector<precast_i64>> dims;      // sizes and strides of windows
  std::vector<precast_leaf> leaves;
  std::vector<precast_named> gradients;
};

namespace {

thread_local std::string last_error;

template <class F>
int guarded(const F& body) {
  try {
    body();
    last_error.clear();
    return PRECAST_OK;
  } catch (const PrecompileError& error) {
    last_error = error.what();
    return PRECAST_CONTRACT;
  } catch (const std::exception& error) {
    last_error = error.what();
    return PRECAST_INTERNAL;
  }
}

// Host ops need LibTorch: better to say so at load than at the first call.
precast_runnable* made(runtime::ArtifactPtr artifact, const precast_host_ops* ops) {
  const artifact::Metadata& m = artifact->metadata();
  if (!ops && artifact->mode() == runtime::Mode::graph)
    throw PrecompileError("the artifact has no kernels (backend=\"" + m.signature.backend +
                          "\"), so it needs LibTorch. Capture with backend=\"inductor\" to run without.");
  if (!ops && !m.host_ops.empty())
    throw PrecompileError("the artifact needs LibTorch for " + std::to_string(m.host_ops.size()) + " host ops, first " +
                          m.host_ops[0].op + " (" + m.host_ops[0].why + "). `precast info` lists them.");
  return new precast_runnable{artifact, ops, artifact::to_json(m)};
}

// NULL where the driver would follow it; nullptr if there is none. Asked of each leaf of each call.
const char* missing_memory(const precast_tensor& t) {
  if (t.ndim > 0 && (!t.sizes || !t.strides)) return "sizes or strides are NULL";
  if (t.data) return nullptr;
  const bool empty = std::any_of(t.sizes, t.sizes + t.ndim, [](precast_i64 size) { return size <= 0; });
  return empty ? nullptr : "data is NULL, and the tensor has elements";
}

// The tensors that the caller passes: module tensors, then user tensors.
std::vector<precast_tensor> sources_of(const precast_binding& binding, const precast_leaf* leaves, int n) {
  std::vector<precast_tensor> sources = binding.bound;
  for (int i = 0; i < n; ++i)
    if (leaves[i].kind == PRECAST_TENSOR) sources.push_back(leaves[i].t);
  return sources;
}

const char* name_of(const precast_spec& spec, int source) {
  const int n_bound = spec.n_params + spec.n_buffers;
  if (source < n_bound) return spec.tensors[source].name;
  for (int i = 0, k = n_bound; i < spec.n_leaves; ++i)
    if (spec.leaves[i].kind == PRECAST_TENSOR && k++ == source) return spec.leaves[i].t.name;
  return "";
}

/// Makes windows on what a call gave; sizes and strides stay with its outputs.
struct Windows {
  precast_outputs& owner;

  const precast_i64* kept(const ir::Dims& dims) const {
    return owner.dims.emplace_back(dims.begin(), dims.end()).data();
  }
  precast_tensor operator()(precast_tensor t, const ir::Size& offset_bytes, const ir::Type& of_any_size) const {
    const auto values = artifact::values_of(owner.artifact->metadata(), owner.numbers.data());
    const ir::Type type = ir::substitute(of_any_size, values);
    t.data = static_cast<char*>(t.data) + offset_bytes.value(values).value();
    t.sizes = kept(type.sizes), t.strides = kept(type.strides);
    t.ndim = static_cast<int>(type.sizes.size());
    t.dtype = static_cast<int>(type.dtype);
    t.flags = static_cast<unsigned>(type.conj * PRECAST_CONJ | type.neg * PRECAST_NEG);
    return t;
  }
};

precast_leaf leaf_of(const Result& r, const std::vector<precast_tensor>& outputs,
                     const std::vector<precast_tensor>& sources, const Windows& window) {
  precast_leaf leaf{};
  const auto index = static_cast<size_t>(r.index);
  const bool of_source = r.kind == Result::Kind::source || r.kind == Result::Kind::source_view;
  if (r.kind < Result::Kind::output) {
    leaf.kind = static_cast<int>(r.kind);
    if (auto* b = std::get_if<bool>(&r.value)) leaf.i = *b;
    if (auto* i = std::get_if<int64_t>(&r.value)) leaf.i = *i;
    if (auto* d = std::get_if<double>(&r.value)) leaf.d = *d;
    if (auto* s = std::get_if<std::string>(&r.value)) leaf.s = s->c_str(), leaf.length = static_cast<int>(s->size());
    return leaf;
  }
  leaf.kind = PRECAST_TENSOR;
  leaf.t = of_source ? sources[index] : outputs[index];
  if (r.kind >= Result::Kind::output_view) leaf.t = window(leaf.t, r.offset_bytes, r.type);
  return leaf;
}

precast_tensor gradient_of(const artifact::Gradient& g, const std::vector<precast_tensor>& outputs,
                           const Windows& window) {
  const precast_tensor& t = outputs[static_cast<size_t>(g.output)];
  return g.part ? window(t, g.part->offset_bytes, g.part->type) : t;
}

std::unique_ptr<precast_binding> bound(const precast_runnable& model, const precast_named* entries, int n_entries) {
  const runtime::Artifact& artifact = *model.artifact;
  const runtime::StandaloneHost host(artifact.metadata());
  std::vector<int> slot_of(static_cast<size_t>(artifact.spec().n_params + artifact.spec().n_buffers) + 1);
  host.check(artifact.check_modules(host.host(), entries, n_entries, slot_of.data()));
  slot_of.pop_back();
  auto made = std::make_unique<precast_binding>();
  made->artifact = model.artifact;
  made->ops = model.ops;
  made->dims.reserve(2 * slot_of.size());
  for (const int slot : slot_of) {
    precast_tensor t = entries[slot].tensor;
    t.sizes = made->dims.emplace_back(t.sizes, t.sizes + t.ndim).data();
    t.strides = made->dims.emplace_back(t.strides, t.strides + t.ndim).data();
    made->bound.push_back(t);
  }
  return made;
}

std::unique_ptr<precast_binding> owning(const precast_runnable& model, runtime::Weights of) {
  auto weights = std::make_unique<runtime::Weights>(std::move(of));
  auto made = bound(model, weights->entries().data(), static_cast<int>(weights->entries().size()));
  made->weights = std::move(weights);
  return made;
}

}  // namespace

extern "C" {

int precast_load(const char* artifact_path, const char* cache_path, precast_runnable** model) {
  return precast_load_with(artifact_path, cache_path, nullptr, model);
}

int precast_load_with(const char* artifact_path, const char* cache_path, const precast_host_ops* ops,
                      precast_runnable** model) {
  return guarded([&] {
    *model = nullptr;
    runtime::LoadOptions options;
    options.host_runs_graphs = ops != nullptr;
    *model = made(runtime::load(artifact_path, cache_path, options), ops);
  });
}

int precast_link(precast_entry entry, precast_runnable** model) {
  return guarded([&] {
    *model = nullptr;
    *model = made(runtime::link(entry), nullptr);
  });
}

void precast_free_runnable(precast_runnable* model) { delete model; }
const char* precast_metadata(const precast_runnable* model) { return model->metadata.c_str(); }
int precast_num_leaves(const precast_runnable* model) { return model->artifact->spec().n_leaves; }

const precast_leaf_spec* precast_expected_leaf(const precast_runnable* model, int i) {
  return i >= 0 && i < model->artifact->spec().n_leaves ? &model->artifact->spec().leaves[i] : nullptr;
}

int precast_bind(const precast_runnable* model, const precast_named* entries, int n_entries,
                 precast_binding** binding) {
  return guarded([&] {
    *binding = nullptr;
    for (int i = 0; i < n_entries; ++i)
      if (const char* fault = missing_memory(entries[i].tensor))
        throw PrecompileError("weight '" + std::string(entries[i].name) + "': " + fault);
    *binding = bound(*model, entries, n_entries).release();
  });
}

int precast_bind_file(const precast_runnable* model, const char* weights_path, precast_binding** binding) {
  return guarded([&] {
    *binding = nullptr;
    *binding = owning(*model, {model->artifact->signature(), weights_path ? weights_path : ""}).release();
  });
}

int precast_bind_zeros(const precast_runnable* model, precast_binding** binding) {
  return guarded([&] {
    *binding = nullptr;
    *binding = owning(*model, runtime::Weights::zeros(model->artifact->signature())).release();
  });
}

int precast_num_weights(const precast_binding* binding) {
  return binding->weights ? static_cast<int>(binding->weights->tensors().size()) : 0;
}

const precast_named* precast_weight(const precast_binding* binding, int i) {
  return i >= 0 && i < precast_num_weights(binding) ? &binding->weights->weight(static_cast<size_t>(i)) : nullptr;
}

int precast_save_weights(const precast_binding* binding, const char* path) {
  return guarded([&] {
    if (!binding->weights)
      throw PrecompileError(
          "the weights of this binding are the caller's: precast_bind_file and precast_bind_zeros own theirs");
    io::write_safetensors(path, binding->weights->tensors(), {{"format", "pt"}});
  });
}

void precast_free_binding(precast_binding* binding) { delete binding; }

int precast_call_model(const precast_binding* binding, const precast_leaf* leaves, int n_leaves, const char* in_spec,
                       precast_outputs** outputs) {
  return guarded([&] {
    *outputs = nullptr;
    for (int i = 0; i < n_leaves; ++i)
      if (const char* fault = leaves[i].kind == PRECAST_TENSOR ? missing_memory(leaves[i].t) : nullptr)
        throw PrecompileError("leaf " + std::to_string(i) + ": " + fault);
    const runtime::Artifact& artifact = *binding->artifact;
    const artifact::Signature& signature = artifact.signature();
    auto result = std::make_unique<precast_outputs>();
    result->artifact = binding->artifact;
    result->host = std::make_unique<runtime::StandaloneHost>(artifact.metadata(), binding->ops);
    std::vector<precast_tensor> tensors(artifact.metadata().outputs.size());

    precast_call call{};
    call.n_positional = signature.num_positional_args;
    call.n_modules = static_cast<int>(signature.module_positions.size());
    call.module_positions = signature.module_positions.data();
    call.in_spec = in_spec;
    call.n_leaves = n_leaves;
    call.leaves = leaves;
    call.n_bound = static_cast<int>(binding->bound.size());
    call.bound = binding->bound.data();
    call.outputs = tensors.data();
    result->numbers.resize(static_cast<size_t>(artifact.spec().n_call_numbers));
    call.numbers = result->numbers.data();
    result->host->check(artifact.call(result->host->host(), call));

    const std::vector<precast_tensor> sources = sources_of(*binding, leaves, n_leaves);
    for (const Result& r : signature.results) result->leaves.push_back(leaf_of(r, tensors, sources, {*result}));
    for (const artifact::Gradient& g : signature.grads)
      result->gradients.push_back({name_of(artifact.spec(), g.source), 0, 0, gradient_of(g, tensors, {*result})});
    *outputs = result.release();
  });
}

int precast_num_outputs(const precast_outputs* outputs) { return static_cast<int>(outputs->leaves.size()); }

const precast_leaf* precast_output(const precast_outputs* outputs, int i) {
  return i >= 0 && i < precast_num_outputs(outputs) ? &outputs->leaves[static_cast<size_t>(i)] : nullptr;
}

int precast_num_gradients(const precast_outputs* outputs) { return static_cast<int>(outputs->gradients.size()); }

const precast_named* precast_gradient(const precast_outputs* outputs, int i, int* accumulate) {
  if (i < 0 || i >= precast_num_gradients(outputs)) return nullptr;
  if (accumulate) *accumulate = outputs->artifact->signature().grads[static_cast<size_t>(i)].accumulate;
  return &outputs->gradients[static_cast<size_t>(i)];
}

void precast_free_outputs(precast_outputs* outputs) { delete outputs; }
const char* precast_last_error(void) { return last_error.c_str(); }

void precast_on_warning(void (*sink)(const char* message, void* context), void* context) {
  set_warning_sink(!sink ? WarningSink()
                         : [sink, context](std::string_view message) { sink(std::string(message).c_str(), context); });
}

}  // extern "C"
