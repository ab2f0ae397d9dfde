#include "api/call_arguments.h"

#include <algorithm>
#include <unordered_map>

#include "artifact/spec.h"
#include "host_torch/attributes.h"
#include "host_torch/module_state.h"
#include "host_torch/tensor_types.h"
#include "util/errors.h"

namespace precast::api {

using artifact::Signature;
using artifact::UserLeaf;
using detail::Kind;
using detail::Leaf;

namespace {

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

}  // namespace

std::vector<trace::Leaf> recorded_leaves(const detail::Leaves& leaves) {
  std::vector<trace::Leaf> recorded;
  for (const Leaf& leaf : leaves) {
    trace::Leaf& out = recorded.emplace_back();
    out.is_tensor = leaf.kind == Kind::tensor;
    if (out.is_tensor)
      out.tensor = *leaf.tensor;
    else
      out.value = value_of(leaf);
  }
  return recorded;
}

CallArguments::CallArguments(const detail::Arguments& a)
    : arguments_(a),
      attributes_(host_torch::module_attributes(refs())),
      modes_(host_torch::module_modes(refs())),
      tensors_(host_torch::module_tensors(refs())) {
  places_ = argument_places();
  intern();
  for (size_t i = 0; i < a.leaves.size(); ++i) {
    values_.push_back(value_of(a.leaves[i]));  // fn may consume the argument
    if (a.leaves[i].kind == Kind::tensor) {
      auto* handle = const_cast<at::Tensor*>(a.leaves[i].tensor);  // recording puts it back
      sources_.user.push_back({*handle, places_[i], handle});
    }
  }
  sources_.modules = std::make_shared<host_torch::ModuleState>(refs());
}

void CallArguments::complete(Signature& s) const {
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

std::vector<std::string> CallArguments::in_words() const {
  std::vector<std::string> lines = {"structure: " + std::to_string(arguments_.positional) + " arguments, " +
                                    arguments_.spec};
  const auto type = [](const at::Tensor& t) {
    return !t.defined()                 ? std::string("an undefined tensor")
           : t.layout() != at::kStrided ? c10::str(t.layout())
                                        : ir::to_string(host_torch::type_of(t));
  };
  for (size_t i = 0; i < arguments_.leaves.size(); ++i) {
    const Leaf& leaf = arguments_.leaves[i];
    lines.push_back(places_[i] + ": " +
                    (leaf.kind == Kind::tensor ? type(*leaf.tensor) : host_torch::in_words(values_[i])));
  }
  for (const auto& list : {sources_.params, sources_.buffers})
    for (const trace::Source& s : list) lines.push_back(s.name + ": " + type(s.tensor));
  return lines;
}

std::string CallArguments::qualified(const host_torch::ModuleTensor& t) const {
  return arguments_.modules.size() > 1 ? "m" + std::to_string(t.module) + "." + t.name : t.name;
}

/// Each tensor once, by identity: parameters, then buffers.
void CallArguments::intern() {
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

std::vector<std::string> CallArguments::argument_places() const {
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

}  // namespace precast::api
