#include "network.h"

#include <torch/torch.h>

#include "host_torch/host_op.h"
#include "io/input.h"

namespace precast::zoo {

std::span<const Family> families() {
  static const Family all[] = {{"image", image_networks},
                               {"picture", picture_networks},
                               {"text", text_networks},
                               {"signal", signal_networks},
                               {"structure", structure_networks}};
  return all;
}

Module make_module(const Network& n, Size size) {
  torch::manual_seed(0);
  return n.make(size);
}

namespace {

at::Tensor tensor(const std::string& words, uint64_t seed) {
  const io::Input input = io::parse_input(words, seed);
  return host_torch::borrow(input.array->data, input.array->type).clone();
}

}  // namespace

std::vector<at::Tensor> make_inputs(const Network& n, Size size, uint64_t seed) {
  std::vector<at::Tensor> inputs;
  for (const std::string& words : n.example(size).inputs) inputs.push_back(tensor(words, seed + inputs.size()));
  return inputs;
}
at::Tensor make_target(const Network& n, Size size, uint64_t seed) {
  return tensor(n.example(size).target, seed + 1000);
}

at::Tensor cross_entropy(const at::Tensor& output, const at::Tensor& target) {
  return torch::cross_entropy_loss(output, target);
}
at::Tensor token_loss(const at::Tensor& output, const at::Tensor& target) {
  return torch::cross_entropy_loss(output.flatten(0, -2), target.flatten());
}
at::Tensor squared_error(const at::Tensor& output, const at::Tensor& target) { return torch::mse_loss(output, target); }

}  // namespace precast::zoo
