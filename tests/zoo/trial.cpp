#include "trial.h"

#include <torch/torch.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <string_view>

#include "models/workload.h"

namespace precast::zoo {

at::Tensor Task::operator()(Module m, const Tensors& in) const {
  if (!training) {
    const torch::NoGradGuard no_grad;
    return m.forward({in.begin(), in.end()}).toTensor();
  }
  const at::Tensor loss = network.loss(m.forward({in.begin(), in.end() - 1}).toTensor(), in.back());
  loss.backward();
  return loss.detach();
}

Module Task::module() const {
  Module m = make_module(network, size);
  m.train(training);
  return m;
}

Tensors Task::inputs(uint64_t seed) const {
  Tensors in = make_inputs(network, size, seed);
  if (training) in.push_back(make_target(network, size, seed));
  return in;
}

namespace {

/// A module with its inputs, and what calls have made of them.
struct Side {
  Module module;
  Tensors in;
  at::Tensor result;

  Named seen() const {
    Named all = {{"the result", result}};
    for (size_t i = 0; i < in.size(); ++i) all.emplace_back("input " + std::to_string(i), in[i]);
    const Named state = demo::state_of(module);
    all.insert(all.end(), state.begin(), state.end());
    return all;
  }
  void run(const Call& call) {
    torch::manual_seed(7);
    result = call(module, in);
  }
};

void as_double(Side& side) {
  const auto convert = [](at::Tensor t) {
    if (t.is_floating_point()) t.set_data(t.detach().to(at::kDouble));
  };
  for (const at::Tensor& t : side.module.parameters()) convert(t);
  for (const at::Tensor& t : side.module.buffers()) convert(t);
  for (const at::Tensor& t : side.in) convert(t);
}

constexpr uint64_t kSeed = 100;  // other inputs than those of the capture

}  // namespace

Comparison compare_with_eager(const Task& task, const Call& ours) {
  const auto side = [&] { return Side{task.module(), task.inputs(kSeed), {}}; };
  Side eager = side(), artifact = side(), other = side(), exact = side();
  as_double(exact);
  Comparison c;
  for (int call = 0; call < 2; ++call) {  // the second sees what the first has left behind
    eager.run(task);
    artifact.run(ours);
    exact.run(task);
    demo::with_other_threads([&] { other.run(task); });
    c.compare(eager.seen(), artifact.seen(), other.seen(), exact.seen());
  }
  return c;
}

bool may_stay(const std::string& op) {
  static constexpr std::string_view kBeginnings[] = {"bernoulli", "native_dropout",  "rand",
                                                     "normal",    "uniform",         "multinomial",
                                                     "_fft_",     "linalg_cholesky", "_linalg_svd",
                                                     "linalg_qr", "_linalg_eigh",    "linalg_eig",
                                                     "linalg_lu", "linalg_lstsq",    "_linalg_solve",
                                                     "quantize",  "fake_quantize",   "_unique",
                                                     "unique_",   "nonzero",         "_local_scalar_dense"};
  const std::string_view name = std::string_view(op).substr(op.find(':') + 2);  // aten::NAME
  return std::any_of(std::begin(kBeginnings), std::end(kBeginnings),
                     [&](std::string_view beginning) { return name.starts_with(beginning); });
}

Coverage coverage_of(const std::string& text) {
  const auto metadata = nlohmann::json::parse(text);
  Coverage c;
  for (const auto& host_op : metadata.at("HOST_OPS")) {
    const auto op = host_op.at("op").get<std::string>();
    c.needs_torch = true;
    if (!may_stay(op)) c.host_ops.insert(op);
  }
  metadata.at("TOTAL_OPS").get_to(c.ops);
  metadata.at("LOWERED_OPS").get_to(c.lowered);
  c.kernels = static_cast<int>(metadata.at("KERNELS").size());
  return c;
}

}  // namespace precast::zoo
