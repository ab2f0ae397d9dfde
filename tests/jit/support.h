// What the tests of compile() share.
#pragma once
#include <doctest/doctest.h>
#include <precast/compile.h>

#include <string>
#include <vector>

#include "util/warn.h"

namespace precast::test {

struct Mlp : torch::nn::Module {
  torch::nn::Linear a{nullptr}, b{nullptr};
  explicit Mlp(int64_t width = 16) {
    a = register_module("a", torch::nn::Linear(8, width));
    b = register_module("b", torch::nn::Linear(width, 4));
  }
  at::Tensor forward(at::Tensor x) { return b(torch::relu(a(x))); }
};

struct Warnings {
  std::vector<std::string> seen;
  WarningSink before = set_warning_sink([this](std::string_view w) { seen.emplace_back(w); });
  ~Warnings() { set_warning_sink(before); }
};

inline bool contains(const std::string& text, const std::string& part) {
  const bool has = text.find(part) != text.npos;
  CHECK_MESSAGE(has, text);
  return has;
}
inline bool close(const at::Tensor& a, const at::Tensor& b) { return at::allclose(a, b, 1e-4, 1e-5, true); }

/// The same parameters and buffers.
inline void copy_state(const torch::nn::Module& from, torch::nn::Module& to) {
  const torch::NoGradGuard no_grad;
  for (size_t i = 0; i < to.parameters().size(); ++i) to.parameters()[i].copy_(from.parameters()[i]);
  for (size_t i = 0; i < to.buffers().size(); ++i) to.buffers()[i].copy_(from.buffers()[i]);
}

}  // namespace precast::test
