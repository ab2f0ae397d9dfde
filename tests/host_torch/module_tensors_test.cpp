#include "host_torch/module_tensors.h"

#include <doctest/doctest.h>
#include <torch/csrc/jit/passes/freeze_module.h>
#include <torch/script.h>
#include <torch/torch.h>

#include "host_torch/module_imprint.h"

using precast::detail::ModuleRef;
using precast::host_torch::module_tensors;
using precast::host_torch::ModuleImprint;

namespace {

struct InnerImpl : torch::nn::Module {
  InnerImpl()
      : bn(register_module("bn", torch::nn::BatchNorm1d(3))), fc(register_module("fc", torch::nn::Linear(3, 3))) {
    scale = register_parameter("scale", torch::ones({3}));
    steps = register_buffer("steps", torch::zeros({1}));
    register_parameter("absent", at::Tensor(), false);
  }
  torch::nn::BatchNorm1d bn;
  torch::nn::Linear fc;
  at::Tensor scale, steps;
};
TORCH_MODULE(Inner);

struct OuterImpl : torch::nn::Module {
  OuterImpl() {
    left = register_module("left", Inner());
    right = register_module("right", left);
    head = register_parameter("head", torch::randn({2}));
    register_parameter("tied", head);
  }
  Inner left{nullptr}, right{nullptr};
  at::Tensor head;
};
TORCH_MODULE(Outer);

bool same(const ModuleImprint& imprint, const ModuleRef& ref) {
  c10::SmallVector<const at::Tensor*, 16> at;
  return imprint.matches({&ref, 1}, at);
}

}  // namespace

TEST_CASE("names and order are those of named_parameters() and named_buffers(), duplicates kept") {
  Outer model;
  std::vector<std::pair<std::string, at::Tensor>> expected;
  for (auto& p : model->named_parameters()) expected.emplace_back(p.key(), p.value());
  const size_t parameters = expected.size();
  for (auto& b : model->named_buffers()) expected.emplace_back(b.key(), b.value());
  const ModuleRef ref{model.ptr().get(), nullptr};
  const auto found = module_tensors({&ref, 1});
  REQUIRE(found.size() == expected.size());
  for (size_t i = 0; i < found.size(); ++i) {
    CHECK(found[i].name == expected[i].first);
    CHECK(found[i].tensor.is_same(expected[i].second));
    CHECK(found[i].is_buffer == (i >= parameters));
  }
}

TEST_CASE("an imprint notices another tensor, another name, another model") {
  Outer model, other;
  const ModuleRef ref{model.ptr().get(), nullptr}, second{other.ptr().get(), nullptr};
  const ModuleImprint imprint({&ref, 1});
  CHECK(same(imprint, ref));
  CHECK_FALSE(same(imprint, second));
  model->left->bn->weight.data().mul_(2);
  CHECK(same(imprint, ref));
  model->left->register_buffer("more", torch::zeros({1}));
  CHECK_FALSE(same(imprint, ref));
  const ModuleImprint with_more({&ref, 1});
  model->left->named_buffers(false)["more"] = torch::zeros({1});
  CHECK(same(with_more, ref));  // a copy of the list was changed, not the module
}

TEST_CASE("TorchScript: parameters, buffers, attributes and constants of methods are named inputs") {
  torch::jit::Module inner("inner"), m("m");
  inner.register_buffer("mean", torch::ones({2}));
  m.register_module("inner", inner);
  m.register_parameter("w", torch::randn({2}), false);
  m.register_attribute("state", c10::TensorType::get(), torch::zeros({2}));
  m.define("def forward(self, x):\n  return x * self.w + self.inner.mean + self.state\n");
  const ModuleRef ref{nullptr, &m};
  auto found = module_tensors({&ref, 1});
  REQUIRE(found.size() == 3);
  CHECK(found[0].name == "w");
  CHECK_FALSE(found[0].is_buffer);
  CHECK(found[1].name == "inner.mean");
  CHECK(found[2].name == "state");
  CHECK(found[2].is_buffer);

  const ModuleImprint imprint({&ref, 1});
  CHECK(same(imprint, ref));
  m.setattr("state", torch::full({2}, 3.f));
  CHECK_FALSE(same(imprint, ref));

  m.eval();
  torch::jit::Module frozen = torch::jit::freeze_module(m);
  const ModuleRef frozen_ref{nullptr, &frozen};
  found = module_tensors({&frozen_ref, 1});
  REQUIRE(found.size() == 3);
  for (const auto& t : found) {
    CHECK(t.is_buffer);
    CHECK(t.name.find("forward.constant") == 0);
  }
}
