#include "host_torch/host.h"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/Parallel.h>

#include "host_torch/host_op.h"
#include "host_torch/parallel.h"
#include "host_torch/tensor_types.h"
#include "precast/error.h"
#include "util/errors.h"

namespace precast::host_torch {

namespace {

/// Twice what one call returns: a caller may hold one result while the next is made.
size_t recycled_bytes(const artifact::Metadata& metadata) {
  int64_t bytes = 0;
  for (const ir::Type& type : metadata.outputs) bytes += type.span_bytes().hint();
  return static_cast<size_t>(2 * bytes);
}

bool is_whole(const artifact::GraphInput& input, const ir::Type& type, const at::Tensor& source) {
  return input.offset_bytes == 0 && ir::equal(type.sizes, source.sizes()) &&
         source.scalar_type() == static_cast<at::ScalarType>(type.dtype);
}

}  // namespace

TorchHost::TorchHost(const runtime::Artifact& artifact, HostOptions options)
    : artifact_(artifact),
      options_(std::move(options)),
      memory_(recycled_bytes(artifact.metadata())),
      executors_(artifact.metadata().host_ops.size() + 1) {}

std::shared_ptr<const GraphExecutor> TorchHost::executor(int index, const precast_i64* symbols) const {
  const artifact::Metadata& m = artifact_.metadata();
  const std::string& text = index < 0 ? artifact_.text().graph : m.host_ops.at(static_cast<size_t>(index)).graph;
  return executors_.at(static_cast<size_t>(index + 1)).get(m, text, symbols);
}

CallHost::CallHost(const TorchHost& torch)
    : torch_(torch),
      abi_{PRECAST_ABI_VERSION,
           sizeof(precast_host),
           0,
           this,
           &allocate,
           &parallel_for,
           &host_op,
           &fail,
           at::in_parallel_region() ? 1 : at::get_num_threads(),
           0} {}

template <class F>
int CallHost::guarded(F&& f) {
  try {
    f();
    return 0;
  } catch (...) {
    failure_ = std::current_exception();
    return 1;
  }
}

/// Only a condition refuses a call that has begun.
void CallHost::note_generator(const GraphExecutor& executor) {
  if (!executor.draws() || generator_before_.defined() || torch_.artifact().signature().conditions.empty()) return;
  at::Generator generator = at::detail::getDefaultCPUGenerator();
  const std::lock_guard lock(generator.mutex());
  generator_before_ = generator.get_state();
}

void CallHost::raise(int code) {
  if (failure_) {
    try {
      std::rethrow_exception(failure_);
    } catch (const PrecompileError&) {
      if (generator_before_.defined()) {
        at::Generator generator = at::detail::getDefaultCPUGenerator();
        const std::lock_guard lock(generator.mutex());
        generator.set_state(generator_before_);
      }
      throw;
    }
  }
  switch (code) {
    case PRECAST_INTERNAL:
      throw InternalError("precast: " + message_);
    default:
      throw PrecompileError(message_);
  }
}

void CallHost::fail(void* self, precast_i32, const char* message) { static_cast<CallHost*>(self)->message_ = message; }

void CallHost::give(at::Tensor t, precast_tensor& to) {
  to.data = t.mutable_data_ptr();
  to.handle = t.unsafeGetTensorImpl();
  made_.push_back(std::move(t));
}

at::Tensor result_tensor(const precast_tensor& t) {
  return at::Tensor(c10::intrusive_ptr<at::TensorImpl>::reclaim_copy(static_cast<at::TensorImpl*>(t.handle)));
}

int CallHost::allocate(void* self, precast_tensor* t) {
  auto& host = *static_cast<CallHost*>(self);
  return host.guarded([&] { host.give(host.torch_.allocate(*t), *t); });
}

int CallHost::host_op(void* self, precast_i32 index, const precast_i64* symbols, void* const* in, void** out) {
  auto& host = *static_cast<CallHost*>(self);
  return host.guarded([&] {
    const auto executor = host.torch_.executor(index, symbols);
    host.note_generator(*executor);
    if (index < 0) return host.run_graph(*executor, in, out);
    for (at::Tensor& t : run_host_op(*executor, in, out)) host.made_.push_back(std::move(t));
  });
}

std::vector<at::Tensor> CallHost::run_function(const ir::Graph& g, const std::vector<at::Tensor>& inputs) {
  std::vector<at::Tensor> outputs = torch_.graph_function()(inputs);
  if (outputs.size() != g.outputs.size())
    throw BackendError("the backend's function returned " + std::to_string(outputs.size()) +
                       " tensors, expected one for each of the " + std::to_string(g.outputs.size()) +
                       " outputs of the graph");
  for (size_t i = 0; i < outputs.size(); ++i)
    outputs[i] = conform(outputs[i].detach(), g.type(g.outputs[i]),
                         "output " + std::to_string(i) + " of the backend's function");
  return outputs;
}

void CallHost::run_graph(const GraphExecutor& executor, void* const* in, void** out) {
  const ir::Graph& g = executor.graph();
  const auto& specs = torch_.artifact().signature().graph_inputs;
  std::vector<at::Tensor> inputs, sources;
  for (size_t i = 0; i < g.inputs.size(); ++i) {
    const auto& source = *static_cast<const at::Tensor*>(static_cast<const precast_tensor*>(in[i])->handle);
    const ir::Type& type = g.type(g.inputs[i]);
    inputs.push_back(is_whole(specs[i], type, source) ? source : window(source, specs[i].offset_bytes, type));
    sources.push_back(source);
  }
  std::vector<at::Tensor> outputs = torch_.graph_function() ? run_function(g, inputs) : executor.run(inputs);
  // Each result is an object on memory of its own: what aliases in eager is described by the results, not here.
  separate(outputs, sources);
  for (size_t i = 0; i < outputs.size(); ++i) give(std::move(outputs[i]), *static_cast<precast_tensor*>(out[i]));
}

}  // namespace precast::host_torch
