// What modules are made of. A torch::nn::Module's own members without the copies that named_parameters(),
// named_buffers() and named_children() make. They are private; naming them in an explicit instantiation is allowed.
#pragma once
#include <ATen/core/ivalue.h>
#include <torch/nn/module.h>

namespace precast::host_torch {

namespace members {

using Tensors = torch::OrderedDict<std::string, at::Tensor>;
using Children = torch::OrderedDict<std::string, std::shared_ptr<torch::nn::Module>>;

template <class Tag, auto Member>
struct Expose {
  friend constexpr auto member(Tag) { return Member; }
};
struct Parameters {
  friend constexpr auto member(Parameters);
};
struct Buffers {
  friend constexpr auto member(Buffers);
};
struct Submodules {
  friend constexpr auto member(Submodules);
};
struct Training {
  friend constexpr auto member(Training);
};
template struct Expose<Parameters, &torch::nn::Module::parameters_>;
template struct Expose<Buffers, &torch::nn::Module::buffers_>;
template struct Expose<Submodules, &torch::nn::Module::children_>;
template struct Expose<Training, &torch::nn::Module::is_training_>;

}  // namespace members

inline const members::Tensors& own_parameters(const torch::nn::Module& m) { return m.*member(members::Parameters{}); }
inline const members::Tensors& own_buffers(const torch::nn::Module& m) { return m.*member(members::Buffers{}); }
inline const members::Children& own_children(const torch::nn::Module& m) { return m.*member(members::Submodules{}); }
inline const bool& training_flag(const torch::nn::Module& m) { return m.*member(members::Training{}); }

/// Calls f(key, tensor) for the tensors of a value: itself, or the entries of a container.
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

}  // namespace precast::host_torch
