// Building blocks of networks, as torch.nn has them, as modules of TorchScript.
#pragma once
#include <torch/script.h>

#include <optional>
#include <string>
#include <type_traits>
#include <vector>

namespace precast::zoo {

using torch::jit::Module;

/// What a module holds under a name: a module, a parameter (a tensor that requires grad), a buffer, or a plain value.
struct Member {
  template <class T>
  Member(std::string n, const T& v) : name(std::move(n)) {
    if constexpr (std::is_same_v<T, Module>)
      module = v;
    else
      value = c10::IValue(v);
  }
  std::string name;
  std::optional<Module> module;
  c10::IValue value;
};

/// A module whose methods are `source`.
Module script(const std::string& name, const std::vector<Member>& members, const std::string& source);

/// One after the other: modules, and expressions of `x`.
struct Stage {
  Stage(const Module& m) : module(m) {}                     // NOLINT: converts
  Stage(const char* text) : expression(text) {}             // NOLINT: converts
  Stage(std::string text) : expression(std::move(text)) {}  // NOLINT: converts
  std::optional<Module> module;
  std::string expression;
};
Module sequential(const std::vector<Stage>& stages);
/// `x + inner(x)`.
Module residual(const std::vector<Stage>& inner);

/// Tensors that a module learns, scaled so that what passes through keeps its size.
at::Tensor weight(at::IntArrayRef sizes);  // by the fan-in of dimensions 1, 2, ...
at::Tensor noise(at::IntArrayRef sizes, double scale = 0.02);
at::Tensor constant(at::IntArrayRef sizes, double value);

struct Conv {
  int64_t stride = 1, padding = 0, dilation = 1, groups = 1;
};
Module conv1d(int64_t in, int64_t out, int64_t kernel, Conv = {});
Module conv2d(int64_t in, int64_t out, int64_t kernel, Conv = {});
Module conv_transpose2d(int64_t in, int64_t out, int64_t kernel, int64_t stride, int64_t padding);
Module linear(int64_t in, int64_t out);
Module projection(int64_t in, int64_t out);  // without bias
Module embedding(int64_t count, int64_t width);
Module dropout(double p);

Module batch_norm(int64_t channels);
Module group_norm(int64_t groups, int64_t channels);
Module instance_norm(int64_t channels);
Module layer_norm(int64_t width);

/// linear, activation (an expression of x), linear.
Module mlp(int64_t width, int64_t hidden, const char* activation = "torch.gelu(x)");
/// Self-attention of `heads` heads over [batch, time, width].
Module self_attention(int64_t width, int64_t heads);

}  // namespace precast::zoo
