#include "jit/backward_node.h"

#include <ATen/ATen.h>
#include <torch/csrc/autograd/autograd.h>

#include "host_torch/tensor_types.h"
#include "jit/flat_call.h"
#include "jit/without_hooks.h"
#include "precast/error.h"

namespace precast::jit {

using torch::autograd::SavedVariable;
using torch::autograd::variable_list;

BackwardNode::BackwardNode(const Program& program, std::span<const at::Tensor* const> sources,
                           std::vector<at::Tensor> saved, Again again)
    : program_(program.shared_from_this()), again_(std::move(again)) {
  const auto save = [&](int source) { return SavedVariable(*sources[static_cast<size_t>(source)], false); };
  for (const int source : program.saved_sources_) sources_.push_back(save(source));
  for (const at::Tensor& t : saved) saved_.emplace_back(t, false);
  for (const auto& [source, dim] : program.size_sources_)
    sizes_.push_back(at::empty({sources[static_cast<size_t>(source)]->size(dim), 0}));
  if (!again_) return;
  const auto keep = [&](int source, std::vector<SavedVariable>& list) {
    const at::Tensor& t = *sources[static_cast<size_t>(source)];
    list.push_back(save(source));
    memory_.push_back(t.has_storage() ? t.storage().data() : nullptr);
  };
  for (const int source : program.gradient_sources_) keep(source, primals_);
  for (const int source : program.other_sources_)
    if (!sources[static_cast<size_t>(source)]->is_inference()) keep(source, others_);
}

ResultNode::ResultNode(const c10::intrusive_ptr<BackwardNode>& call, uint32_t result) { add_next_edge({call, result}); }

variable_list SpentNode::apply(variable_list&&) { TORCH_CHECK(false, torch::autograd::ERR_BACKWARD_TWICE); }

void BackwardNode::release_variables() {
  for (auto* list : {&sources_, &saved_, &primals_, &others_})
    for (SavedVariable& v : *list) v.reset_data();
  again_ = {};
}

variable_list BackwardNode::apply(variable_list&& tangents) {
  if (at::GradMode::is_enabled()) return apply_again(tangents);
  const Program& p = *program_;
  std::vector<at::Tensor> inputs;
  for (const SavedVariable& v : sources_) inputs.push_back(v.unpack());
  for (const SavedVariable& v : saved_) inputs.push_back(v.unpack());
  std::vector<char> undefined;
  for (const at::Tensor& t : tangents) undefined.push_back(!t.defined());
  const Program::Backward& backward = p.backward(undefined);
  for (size_t i = 0; i < p.tangent_types_.size(); ++i) {
    if (undefined[i] && backward.pruned) continue;
    const at::Tensor t = tangents[i].defined() ? tangents[i] : input_metadata(i).zeros_like();
    ir::Type type = p.tangent_types_[i];
    if (type.is_symbolic()) {  // then it is contiguous
      type.sizes = ir::sizes(t.sizes().vec());
      type.strides = ir::contiguous_strides(type.sizes);
    }
    inputs.push_back(host_torch::conform(t, type, "a gradient of a compiled result"));
  }
  inputs.insert(inputs.end(), sizes_.begin(), sizes_.end());
  if (backward.pruned)
    for (const ir::Type& type : backward.zeros) inputs.push_back(host_torch::empty(type).zero_());
  auto results = call_flat(*backward.run, backward.spec, inputs);
  variable_list gradients;
  size_t next = 0;
  for (const bool defined : backward.defined) {
    gradients.emplace_back();
    if (defined) gradients.back() = std::move(results[next].tensor);
    next += defined || !backward.pruned;
  }
  return gradients;
}

/// The gradients must have gradients: those of an eager run. The arguments are as they were, or unpacking throws.
variable_list BackwardNode::apply_again(const variable_list& tangents) {
  const Program& p = *program_;
  if (!again_)
    throw PrecompileError(
        "gradients of gradients (create_graph) through a compiled function: its arguments cannot be copied, so it "
        "cannot be run again; run this step eagerly");
  if (!p.recorded_.signature.writes.empty() || !p.recorded_.signature.grads.empty() || p.recorded_.random)
    throw PrecompileError(
        "gradients of gradients (create_graph) through a compiled function that writes to its arguments or buffers or "
        "draws random numbers: it cannot be run again; run this step eagerly");
  std::vector<at::Tensor> primals, outputs, weights;
  for (const SavedVariable& v : primals_) primals.push_back(v.unpack());
  std::vector<at::Tensor> all = primals;
  for (const SavedVariable& v : others_) all.push_back(v.unpack());
  for (size_t i = 0; i < all.size(); ++i)
    if (all[i].has_storage() && all[i].storage().data() != memory_[i])
      throw PrecompileError(
          "gradients of gradients (create_graph) through a compiled function: it would be run again, but an argument "
          "or "
          "a parameter has been given other memory (set_data) since the call; run this step eagerly");
  again_([&](const detail::Leaves& leaves, const std::string&) {
    for (size_t i = 0; i < p.recorded_.tangents.size(); ++i) {
      if (!tangents[i].defined()) continue;
      outputs.push_back(*leaves[static_cast<size_t>(p.recorded_.tangents[i])].tensor);
      weights.push_back(tangents[i]);
    }
  });
  const WithoutHooks no_hooks(primals);
  return torch::autograd::grad(outputs, primals, weights, /*retain_graph=*/true, /*create_graph=*/true,
                               /*allow_unused=*/true);
}

}  // namespace precast::jit
