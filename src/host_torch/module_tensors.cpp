#include "host_torch/module_tensors.h"

#include <torch/csrc/jit/api/function_impl.h>
#include <torch/csrc/jit/api/module.h>

#include <algorithm>
#include <bit>
#include <sstream>
#include <unordered_set>

#include "host_torch/module_members.h"
#include "precast/error.h"

namespace precast::host_torch {

namespace {

std::string join(const std::string& prefix, const std::string& key) {
  return prefix.empty() ? key : prefix + "." + key;
}

/// Calls f(key, tensor, is_buffer) for the tensors of a value: itself, or the entries of a container.
template <class F>
void for_each_tensor(const std::string& key, const c10::IValue& v, F&& f) {
  if (v.isTensor()) {
    if (v.toTensor().defined()) f(key, v.toTensor());
  } else if (v.isList()) {
    int i = 0;
    for (const c10::IValue& e : v.toListRef()) for_each_tensor(key + "." + std::to_string(i++), e, f);
  } else if (v.isTuple()) {
    int i = 0;
    for (const c10::IValue& e : v.toTupleRef().elements()) for_each_tensor(key + "." + std::to_string(i++), e, f);
  } else if (v.isGenericDict()) {
    for (const auto& e : v.toGenericDict())
      if (e.key().isString()) for_each_tensor(key + "." + e.key().toStringRef(), e.value(), f);
  }
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

void require(const detail::ModuleRef& ref, size_t i) {
  if (!ref.module && !(ref.script && ref.script->_ivalue()))
    throw PrecompileError("module " + std::to_string(i) + ": expected a module, found an empty handle");
}

}  // namespace

std::vector<ModuleTensor> module_tensors(std::span<const detail::ModuleRef> modules) {
  std::vector<ModuleTensor> parameters, buffers;
  const auto append = [](std::vector<ModuleTensor>& to, std::vector<ModuleTensor>& from) {
    std::move(from.begin(), from.end(), std::back_inserter(to));
  };
  for (size_t i = 0; i < modules.size(); ++i) {
    require(modules[i], i);
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

namespace {

const std::string kEnd;  // closes a module, so that nesting shows

/// mark(key, identity, tensor) returns whether to go on; the tensor is null for what is none.
template <class F>
bool walk_module(const torch::nn::Module& m, F& mark) {
  for (const auto& p : own_parameters(m))
    if (!mark(p.key(), p.value().unsafeGetTensorImpl(), &p.value())) return false;
  for (const auto& b : own_buffers(m))
    if (!mark(b.key(), b.value().unsafeGetTensorImpl(), &b.value())) return false;
  for (const auto& child : own_children(m))
    if (!mark(child.key(), nullptr, nullptr) || (child.value() && !walk_module(*child.value(), mark))) return false;
  return mark(kEnd, m.is_training() ? &m : nullptr, nullptr);
}

/// Stands for the value of an attribute that is no tensor.
const void* fingerprint(const c10::IValue& v) {
  size_t bits = 0;
  if (v.isBool()) bits = v.toBool();
  if (v.isInt()) bits = static_cast<size_t>(v.toInt());
  if (v.isDouble()) bits = std::bit_cast<size_t>(v.toDouble());
  if (v.isString()) bits = std::hash<std::string>()(v.toStringRef());
  if (v.isList() || v.isTuple() || v.isGenericDict()) {
    std::ostringstream text;
    text << v;
    bits = std::hash<std::string>()(text.str());
  }
  return reinterpret_cast<const void*>(bits);  // NOLINT: compared, never followed
}

bool holds_tensors(const c10::IValue& v) {
  bool any = false;
  for_each_tensor(kEnd, v, [&](const std::string&, const at::Tensor&) { any = true; });
  return any;
}

/// A TorchScript class fixes names and constants, so its identity stands for them.
template <class F>
bool walk_script(const c10::ivalue::Object& object, F& mark) {
  if (!mark(kEnd, object.type().get(), nullptr)) return false;
  for (const c10::IValue& slot : object.slots()) {
    if (slot.isObject()) {
      if (!walk_script(slot.toObjectRef(), mark)) return false;
    } else if (slot.isTensor()) {
      if (!mark(kEnd, slot.toTensor().unsafeGetTensorImpl(), &slot.toTensor())) return false;
    } else if ((slot.isList() || slot.isTuple() || slot.isGenericDict()) && holds_tensors(slot)) {
      bool same = true;
      for_each_tensor(kEnd, slot, [&](const std::string& key, const at::Tensor& t) {
        same = same && mark(key, t.unsafeGetTensorImpl(), nullptr);  // `t` may be a copy
      });
      if (!same) return false;
    } else if (!mark(kEnd, fingerprint(slot), nullptr)) {
      return false;
    }
  }
  return mark(kEnd, nullptr, nullptr);
}

template <class F>
void walk(std::span<const detail::ModuleRef> modules, F&& mark) {
  for (size_t i = 0; i < modules.size(); ++i) {
    require(modules[i], i);
    if (modules[i].module ? !walk_module(*modules[i].module, mark) : !walk_script(*modules[i].script->_ivalue(), mark))
      return;
  }
}

}  // namespace

ModuleImprint::ModuleImprint(std::span<const detail::ModuleRef> modules) {
  walk(modules, [&](const std::string& key, const void* identity, const at::Tensor* tensor) {
    marks_.push_back({identity, &key, tensor != nullptr});
    keys_.push_back(key);
    if (tensor && tensor->defined()) held_.emplace_back(tensor->getIntrusivePtr());
    return true;
  });
  if (std::ranges::any_of(modules, [](const detail::ModuleRef& ref) { return !ref.module; })) return;
  size_t mark = 0;
  for (const detail::ModuleRef& ref : modules) {
    roots_.push_back(ref.module);
    hold(*ref.module, mark);
  }
}

/// Follows walk_module.
void ModuleImprint::hold(const torch::nn::Module& m, size_t& mark) {
  const auto &parameters = own_parameters(m).items(), &buffers = own_buffers(m).items();
  const auto& children = own_children(m).items();
  modules_.push_back({&m, parameters.data(), buffers.data(), children.data(), parameters.size(), buffers.size(),
                      children.size(), mark, children_.size(), m.is_training()});
  mark += parameters.size() + buffers.size();
  for (const auto& child : children) children_.push_back(child.value().get());
  for (const auto& child : children) {
    ++mark;
    if (child.value()) hold(*child.value(), mark);
  }
  ++mark;  // its end
}

bool ModuleImprint::matches_held(std::span<const detail::ModuleRef> modules,
                                 c10::SmallVectorImpl<const at::Tensor*>& at) const {
  if (modules_.empty() || modules.size() != roots_.size()) return false;
  for (size_t i = 0; i < modules.size(); ++i)
    if (modules[i].module != roots_[i]) return false;
  at.resize(marks_.size());
  for (const Held& h : modules_) {  // its parent has been seen to hold it, so it is there
    size_t mark = h.first_mark;
    const auto same = [&](const auto& items, const void* where, size_t n) {
      if (items.data() != where || items.size() != n) return false;
      for (const auto& item : items) {
        if (item.value().unsafeGetTensorImpl() != marks_[mark].identity) return false;
        at[mark++] = &item.value();
      }
      return true;
    };
    if (!same(own_parameters(*h.module).items(), h.parameters, h.n_parameters) ||
        !same(own_buffers(*h.module).items(), h.buffers, h.n_buffers) || h.module->is_training() != h.training)
      return false;
    const auto& children = own_children(*h.module).items();
    if (children.data() != h.children || children.size() != h.n_children) return false;
    for (size_t i = 0; i < h.n_children; ++i)
      if (children[i].value().get() != children_[h.first_child + i]) return false;
  }
  return true;
}

bool ModuleImprint::matches(std::span<const detail::ModuleRef> modules,
                            c10::SmallVectorImpl<const at::Tensor*>& at) const {
  if (matches_held(modules, at)) return true;
  at.clear();
  bool same = true;
  walk(modules, [&](const std::string& key, const void* identity, const at::Tensor* tensor) {
    const size_t next = at.size();
    same = next < marks_.size() && marks_[next].identity == identity &&
           (marks_[next].address == &key || keys_[next] == key);
    at.push_back(tensor);
    return same;
  });
  return same && at.size() == marks_.size();
}

int ModuleImprint::place(const at::Tensor& t) const {
  for (size_t i = 0; i < marks_.size(); ++i)
    if (marks_[i].is_tensor && marks_[i].identity == t.unsafeGetTensorImpl()) return static_cast<int>(i);
  return -1;
}

}  // namespace precast::host_torch
