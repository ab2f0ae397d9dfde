#include "host_torch/module_tensors.h"

#include <torch/csrc/jit/api/function_impl.h>
#include <torch/csrc/jit/api/module.h>

#include <algorithm>
#include <unordered_set>

#include "host_torch/module_members.h"
#include "precast/error.h"

namespace precast::host_torch {

namespace {

std::string join(const std::string& prefix, const std::string& key) {
  return prefix.empty() ? key : prefix + "." + key;
}

/// Tensor constants of a graph and of the functions it calls. A wrapped number is recorded as a scalar.
class Constants {
 public:
  explicit Constants(std::vector<std::pair<std::string, at::Tensor>>& out) : out_(out) {}

  void of(const std::string& path, torch::jit::Function& function) {
    if (!function.isGraphFunction() || !seen_.insert(&function).second) return;
    int next = 0;
    block(path, *torch::jit::toGraphFunction(function).graph()->block(), next);
  }

 private:
  void block(const std::string& path, torch::jit::Block& block, int& next) {
    for (torch::jit::Node* node : block.nodes()) {
      if (node->kind() == torch::jit::prim::Constant) constant(path, *node, next);
      for (torch::jit::Block* inner : node->blocks()) this->block(path, *inner, next);
    }
  }
  void constant(const std::string& path, torch::jit::Node& node, int& next) {
    const auto& type = node.output()->type();
    if (auto function = type->cast<c10::FunctionType>())
      return of(path + "." + function->function()->name(), *function->function());
    const auto value = torch::jit::toIValue(node.output());
    if (!value) return;
    for_each_tensor(path + ".constant" + std::to_string(next), *value,
                    [&](const std::string& name, const at::Tensor& t) {
                      if (!t.unsafeGetTensorImpl()->is_wrapped_number()) out_.emplace_back(name, t), ++next;
                    });
  }

  std::vector<std::pair<std::string, at::Tensor>>& out_;
  std::unordered_set<torch::jit::Function*> seen_;
};

class Lister {
 public:
  explicit Lister(int module) : module_(module) {}

  void list(const std::string& path, const torch::nn::Module& m) {
    for (const auto& p : own_parameters(m))
      if (p.value().defined()) add(parameters, join(path, p.key()), p.value());
    for (const auto& b : own_buffers(m))
      if (b.value().defined()) add(buffers, join(path, b.key()), b.value());
    for (const auto& child : own_children(m))
      if (child.value()) list(join(path, child.key()), *child.value());
  }

  void list(const std::string& path, const torch::jit::Module& m) {
    const auto& type = *m.type();
    const auto& slots = m._ivalue()->slots();
    for (size_t i = 0; i < slots.size(); ++i) {
      const std::string name = join(path, type.getAttributeName(i));
      if (type.getAttribute(i)->is_module()) {
        if (slots[i].isObject()) list(name, torch::jit::Module(slots[i].toObject()));
      } else {
        auto& list = type.is_parameter(i) ? parameters : type.is_buffer(i) ? buffers : attributes;
        for_each_tensor(name, slots[i], [&](const std::string& n, const at::Tensor& t) { add(list, n, t); });
      }
    }
    std::vector<std::pair<std::string, at::Tensor>> found;
    Constants constants_of(found);
    for (torch::jit::Function* method : type.methods()) constants_of.of(join(path, method->name()), *method);
    for (auto& [name, tensor] : found) add(constants, name, tensor);
  }

  std::vector<ModuleTensor> parameters, buffers, attributes, constants;

 private:
  void add(std::vector<ModuleTensor>& to, const std::string& name, const at::Tensor& t) {
    to.push_back({name, module_, &to != &parameters, t});
  }
  int module_;
};

}  // namespace

void require_module(const detail::ModuleRef& ref, size_t i) {
  if (!ref.module && !(ref.script && ref.script->_ivalue()))
    throw PrecompileError("module " + std::to_string(i) + ": expected a module, found an empty handle");
}

std::vector<ModuleTensor> module_tensors(std::span<const detail::ModuleRef> modules) {
  std::vector<ModuleTensor> parameters, buffers;
  const auto append = [](std::vector<ModuleTensor>& to, std::vector<ModuleTensor>& from) {
    std::move(from.begin(), from.end(), std::back_inserter(to));
  };
  for (size_t i = 0; i < modules.size(); ++i) {
    require_module(modules[i], i);
    Lister lister(static_cast<int>(i));
    modules[i].module ? lister.list("", *modules[i].module) : lister.list("", *modules[i].script);
    append(parameters, lister.parameters);
    append(buffers, lister.buffers);
    append(buffers, lister.attributes);
    append(buffers, lister.constants);
  }
  append(parameters, buffers);
  return parameters;
}

}  // namespace precast::host_torch
