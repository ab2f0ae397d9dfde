// Records one training step of a small network on handwritten digits, its optimizer included, and its inference, as two
// artifacts. Needs LibTorch, once.   capture FOLDER
#include <torch/torch.h>

#include <precast/precast.h>

#include <iostream>

struct Net : torch::nn::Module {
  torch::nn::Conv2d conv1{nullptr}, conv2{nullptr};
  torch::nn::BatchNorm2d norm1{nullptr}, norm2{nullptr};
  torch::nn::Linear out{nullptr};

  Net() {
    using torch::nn::Conv2dOptions;
    conv1 = register_module("conv1", torch::nn::Conv2d(Conv2dOptions(1, 16, 3).padding(1)));
    norm1 = register_module("norm1", torch::nn::BatchNorm2d(16));
    conv2 = register_module("conv2", torch::nn::Conv2d(Conv2dOptions(16, 32, 3).padding(1)));
    norm2 = register_module("norm2", torch::nn::BatchNorm2d(32));
    out = register_module("out", torch::nn::Linear(32 * 4 * 4, 10));
  }
  at::Tensor forward(at::Tensor x) {
    x = torch::relu(norm1(conv1(x)));
    x = torch::max_pool2d(torch::relu(norm2(conv2(x))), 2);
    return out(x.flatten(1));
  }
};

/// Loss, gradients, and SGD with momentum; `momenta` belong to the caller, one for each parameter.
at::Tensor train(Net& net, at::Tensor images, at::Tensor labels, std::vector<at::Tensor> momenta) {
  net.zero_grad();
  const auto loss = torch::cross_entropy_loss(net.forward(images), labels);
  loss.backward();
  const torch::NoGradGuard no_grad;
  const auto parameters = net.parameters();
  for (size_t i = 0; i < parameters.size(); ++i) {
    momenta[i].mul_(0.9).add_(parameters[i].grad());
    parameters[i].sub_(momenta[i], 0.05);
  }
  net.zero_grad();
  return loss.detach();
}

at::Tensor classify(Net& net, at::Tensor images) {
  const torch::NoGradGuard no_grad;
  return net.forward(images).argmax(1);
}

int main(int argc, char** argv) {
  if (argc != 2) {
    std::cerr << "usage: capture FOLDER\n";
    return 2;
  }
  const std::filesystem::path folder = argv[1];
  try {
    Net net;
    std::vector<at::Tensor> momenta;
    for (const auto& p : net.parameters()) momenta.push_back(torch::zeros_like(p));
    const auto images = torch::rand({64, 1, 8, 8});
    precast::capture(train, {folder / "digits_train.cpp", folder / "digits_train.cache"}, {.symbol = "digits_train"},
                     [&](auto& capture) { capture(net, images, torch::randint(10, {64}), momenta); });
    net.eval();
    precast::capture(classify, {folder / "digits_eval.cpp", folder / "digits_eval.cache"}, {.symbol = "digits_eval"},
                     [&](auto& capture) { capture(net, torch::rand({360, 1, 8, 8})); });
    return 0;
  } catch (const precast::PrecompileError& e) {
    std::cerr << e.what() << "\n";
    return 1;
  }
}
