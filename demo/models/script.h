// A small network as TorchScript, traced and frozen, with tensor constants and in-place index assignment; saved to
// bytes and loaded again, as a user's file would be.
#pragma once
#include <torch/csrc/jit/frontend/tracer.h>

#include <sstream>

#include "models/workload.h"

namespace precast::demo {

constexpr const char* kScriptSource = R"(
def forward(self, x):
    y = torch.tanh(torch.linear(x, self.weight, self.bias))
    y[:, 0] = 0.5
    y[:, 1:5] *= self.scale
    y[0] += self.offsets
    return torch.softmax(y, 1), y
)";

/// The same network as kScriptSource by hand: what is traced.
inline Tensors script_network(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias,
                              const at::Tensor& scale, const at::Tensor& offsets) {
  using at::indexing::Slice;
  auto y = torch::tanh(torch::linear(x, weight, bias));
  y.index_put_({Slice(), 0}, 0.5);
  y.slice(1, 1, 5).mul_(scale);
  y.select(0, 0).add_(offsets);
  return {torch::softmax(y, 1), y};
}

inline torch::jit::Module script_module() {
  torch::manual_seed(0);
  torch::jit::Module m("precast_demo.Network");
  m.register_parameter("weight", torch::randn({16, 12}) * 0.3, false);
  m.register_parameter("bias", torch::randn({16}), false);
  m.register_buffer("scale", torch::linspace(0.5, 2, 4));
  m.register_buffer("offsets", torch::arange(16) * 0.25);
  return m;
}
inline at::Tensor script_input() {
  torch::manual_seed(1);
  return torch::randn({6, 12});
}

inline torch::jit::Module through_file(const torch::jit::Module& m) {
  std::stringstream file;
  m.save(file);
  auto loaded = torch::jit::load(file);
  loaded.eval();
  return loaded;
}

inline AnyModule frozen_module() {
  auto m = script_module();
  m.define(kScriptSource);
  m.eval();
  return through_file(torch::jit::freeze(m));
}

inline AnyModule traced_module() {
  namespace tracer = torch::jit::tracer;
  auto m = script_module();
  const auto offsets = m.attr("offsets").toTensor().clone();  // no attribute: a constant of the trace
  const auto fn = [&](torch::jit::Stack stack) -> torch::jit::Stack {
    const auto out = script_network(stack.at(0).toTensor(), m.attr("weight").toTensor(), m.attr("bias").toTensor(),
                                    m.attr("scale").toTensor(), offsets);
    return {c10::ivalue::Tuple::create({out[0], out[1]})};
  };
  const auto traced = tracer::trace({script_input()}, fn, [](const at::Tensor&) { return std::string(); },
                                    /*strict=*/true, /*force_outplace=*/false, &m, {"x"});
  auto* method = m._ivalue()->compilation_unit()->create_function(c10::QualifiedName(*m.type()->name(), "forward"),
                                                                  traced.first->graph);
  m.type()->addMethod(method);
  return through_file(m);
}

inline Tensors script_inference(torch::jit::Module& m, const Tensors& in) {
  torch::NoGradGuard no_grad;
  const auto out = m.forward({in[0]}).toTuple();
  return {out->elements()[0].toTensor(), out->elements()[1].toTensor()};
}

}  // namespace precast::demo
