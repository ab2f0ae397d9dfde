#include "plugin/script.h"

#include <ATen/ATen.h>
#include <torch/csrc/jit/runtime/graph_executor.h>
#include <torch/csrc/jit/serialization/import.h>

#include <algorithm>
#include <sstream>

#include "io/file.h"
#include "precast/detail/structure.h"
#include "precast/error.h"

namespace precast::plugin {
namespace {

template <class Names>
std::string listed(const Names& names) {
  std::string text;
  for (const auto& name : names) text += (text.empty() ? "" : ", ") + name;
  return text.empty() ? "none" : text;
}

// LibTorch's reason, without what it supposes about corruption.
std::string load_failure(const std::string& text) {
  if (text.find("constants.pkl") != std::string::npos)
    return "it is a file of torch.save, which holds tensors or a Python object and no program";
  const std::string reason = text.substr(0, text.find(". This is an internal miniz error"));
  return reason.substr(0, reason.find_last_not_of(".\n ") + 1);
}

torch::jit::Module load(const std::string& file) {
  io::map_file(file);  // says why a file that cannot be read cannot
  try {
    return torch::jit::load(file, at::kCPU);
  } catch (const c10::Error& e) {
    throw PrecompileError(file +
                          " is no TorchScript file that can be loaded: " + load_failure(e.what_without_backtrace()) +
                          ". Make one with torch.jit.trace or torch.jit.script and save()");
  }
}

torch::jit::Module descend(torch::jit::Module module, const std::string& path) {
  if (path.empty()) return module;
  std::string walked;
  for (size_t at = 0; at <= path.size();) {
    const size_t dot = std::min(path.find('.', at), path.size());
    const std::string name = path.substr(at, dot - at);
    std::vector<std::string> names;
    std::optional<torch::jit::Module> next;
    for (const auto& child : module.named_children()) {
      names.push_back(child.name);
      if (child.name == name) next = child.value;
    }
    if (!next)
      throw PrecompileError("submodule '" + path + "': " + (walked.empty() ? "the model" : "'" + walked + "'") +
                            " has no module '" + name + "'; it has: " + listed(names));
    module = *next;
    walked = path.substr(0, dot);
    at = dot + 1;
  }
  return module;
}

}  // namespace

Script::Script(const precast_callable& c)
    : file_(c.file),
      submodule_(c.submodule),
      method_(c.method),
      whole_(load(file_)),
      module_(descend(whole_, submodule_)) {
  whole_.train(c.train != 0);
  if (!module_.find_method(method_)) {
    std::vector<std::string> names;
    for (const auto& m : module_.get_methods()) names.push_back(m.name());
    throw PrecompileError("method '" + method_ + "': the module has none of that name; it has: " + listed(names));
  }
}

torch::jit::Module Script::copy() const { return descend(whole_.deepcopy(), submodule_); }

c10::IValue Script::run(torch::jit::Module module, const std::vector<c10::IValue>& inputs) const {
  const at::NoGradGuard no_gradients;
  const torch::jit::GraphOptimizerEnabledGuard as_written(false);
  return module.get_method(method_)(inputs);
}

std::string model_failure(const std::string& text) {
  std::string line;
  std::istringstream lines(text.substr(0, text.find("\nException raised from")));
  for (std::string next; std::getline(lines, next);)
    if (next.find_first_not_of(' ') != std::string::npos) line = next;
  return "the model fails on these inputs: " + line;
}

namespace {

std::string described(const c10::Argument& parameter, bool optional) {
  return parameter.name() + ": " + parameter.type()->str() + (optional ? " (optional)" : "");
}

// Whether a value of the type can be written on the command line.
bool has_words(const c10::Type& type) {
  if (const auto* optional = type.castRaw<c10::OptionalType>()) return has_words(*optional->getElementType());
  static constexpr c10::TypeKind kKinds[] = {
      c10::TypeKind::TensorType, c10::TypeKind::IntType,    c10::TypeKind::FloatType, c10::TypeKind::NumberType,
      c10::TypeKind::BoolType,   c10::TypeKind::StringType, c10::TypeKind::NoneType,  c10::TypeKind::AnyType};
  return std::find(std::begin(kKinds), std::end(kKinds), type.kind()) != std::end(kKinds);
}

// An integer serves where a float is taken, as in Python.
void fit(c10::IValue& value, const c10::Argument& parameter, const std::string& where) {
  const auto is = [&](const c10::IValue& v) { return v.type()->isSubtypeOf(*parameter.type()); };
  if (is(value)) return;
  if (value.isInt() && is(c10::IValue(0.0))) {
    value = static_cast<double>(value.toInt());
    return;
  }
  throw PrecompileError(where + " is " + described(parameter, false) + ", and was given a value of type " +
                        value.type()->str() +
                        (has_words(*parameter.type())
                             ? ""
                             : "; the command line has tensors, numbers and strings only: record this method in C++, "
                               "with precast::capture"));
}

}  // namespace

std::vector<c10::IValue> Script::complete(std::vector<c10::IValue> inputs) const {
  const auto& parameters = module_.get_method(method_).function().getSchema().arguments();
  const size_t takes = parameters.size() - 1;  // without self
  size_t needs = takes;
  while (needs > 0 && parameters[needs].default_value()) --needs;
  if (inputs.size() < needs || inputs.size() > takes) {
    std::string names;
    for (size_t i = 1; i < parameters.size(); ++i) names += (i > 1 ? ", " : "") + described(parameters[i], i > needs);
    throw PrecompileError("method '" + method_ + "' takes " +
                          (needs < takes ? std::to_string(needs) + " to " : std::string()) + std::to_string(takes) +
                          (takes == 1 ? " argument" : " arguments") + (names.empty() ? "" : " (" + names + ")") +
                          ", and " + std::to_string(inputs.size()) + " were given");
  }
  for (size_t i = 0; i < inputs.size(); ++i)
    fit(inputs[i], parameters[i + 1], "argument " + std::to_string(i + 1) + " of '" + method_ + "'");
  for (size_t i = inputs.size(); i < takes; ++i) inputs.push_back(*parameters[i + 1].default_value());
  return inputs;
}

std::vector<c10::IValue> to_ivalues(const precast_leaf* leaves, int n) {
  std::vector<c10::IValue> values;
  for (int i = 0; i < n; ++i) {
    const precast_leaf& leaf = leaves[i];
    switch (leaf.kind) {
      case PRECAST_BOOL:
        values.emplace_back(leaf.i != 0);
        break;
      case PRECAST_INT:
        values.emplace_back(static_cast<int64_t>(leaf.i));
        break;
      case PRECAST_DOUBLE:
        values.emplace_back(leaf.d);
        break;
      case PRECAST_STRING:
        values.emplace_back(std::string(leaf.s, static_cast<size_t>(leaf.length)));
        break;
      case PRECAST_TENSOR: {
        const precast_tensor& t = leaf.t;
        const std::vector<int64_t> sizes(t.sizes, t.sizes + t.ndim), strides(t.strides, t.strides + t.ndim);
        values.emplace_back(
            at::from_blob(t.data, sizes, strides, at::dtype(static_cast<at::ScalarType>(t.dtype))).clone());
        break;
      }
      default:
        values.emplace_back();
        break;
    }
  }
  return values;
}

void Flat::add(const c10::IValue& v, const std::string& where) {
  const auto leaf = [&](detail::Kind kind) -> detail::Leaf& {
    spec += '*';
    detail::Leaf& l = leaves.emplace_back();
    l.kind = kind;
    return l;
  };
  const auto list = [&](const char* open, const auto& items, const char* close) {
    spec += open;
    size_t i = 0;
    for (const c10::IValue& item : items) {
      if (i) spec += ", ";
      add(item, where + "[" + std::to_string(i++) + "]");
    }
    spec += close;
  };
  if (v.isTensor()) {
    leaf(detail::Kind::tensor).tensor = &tensors.emplace_back(v.toTensor());
  } else if (v.isNone()) {
    leaf(detail::Kind::none);
  } else if (v.isBool()) {
    leaf(detail::Kind::boolean).integer = v.toBool();
  } else if (v.isInt()) {
    leaf(detail::Kind::integer).integer = v.toInt();
  } else if (v.isDouble()) {
    leaf(detail::Kind::real).real = v.toDouble();
  } else if (v.isString()) {
    detail::Leaf& l = leaf(detail::Kind::string);
    const std::string& text = strings.emplace_back(v.toStringRef());
    l.text = text.c_str();
    l.length = static_cast<int32_t>(text.size());
  } else if (v.isTuple()) {
    const auto& items = v.toTupleRef().elements();
    list("(", items, items.size() == 1 ? ",)" : ")");
  } else if (v.isList()) {
    list("[", v.toListRef(), "]");
  } else if (v.isGenericDict()) {
    std::vector<std::pair<std::string, c10::IValue>> entries;
    for (const auto& entry : v.toGenericDict()) {
      if (!entry.key().isString()) throw PrecompileError(where + " is a dict with keys that are no strings");
      entries.emplace_back(entry.key().toStringRef(), entry.value());
    }
    std::sort(entries.begin(), entries.end(), [](auto& a, auto& b) { return a.first < b.first; });
    spec += '{';
    for (size_t i = 0; i < entries.size(); ++i) {
      if (i) spec += ", ";
      detail::append_key(entries[i].first, spec);
      spec += ": ";
      add(entries[i].second, where + "['" + entries[i].first + "']");
    }
    spec += '}';
  } else {
    throw PrecompileError(
        where + " is a " + v.tagKind() +
        "; precast takes tensors, numbers, strings, and lists, tuples and string-keyed dicts of them");
  }
}

Flat flatten_arguments(const std::vector<c10::IValue>& inputs) {
  Flat flat;
  flat.spec = "(";
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (i) flat.spec += ", ";
    flat.add(inputs[i], "argument " + std::to_string(i));
  }
  flat.spec += inputs.size() == 1 ? ",)" : ")";
  return flat;
}

detail::Arguments arguments_of(const torch::jit::Module& module, const Flat& flat, int n_user) {
  detail::Arguments arguments;
  arguments.positional = n_user + 1;
  arguments.modules.push_back({nullptr, &module});
  arguments.module_positions.push_back(0);
  arguments.leaves = flat.leaves;
  arguments.spec = flat.spec.c_str();
  return arguments;
}

}  // namespace precast::plugin
