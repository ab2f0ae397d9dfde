// ResNet-18 (He et al. 2015, "Deep Residual Learning for Image Recognition") in plain LibTorch C++.
#pragma once
#include "models/workload.h"

namespace precast::demo {

struct ResidualBlock : torch::nn::Module {
  torch::nn::Conv2d conv1{nullptr}, conv2{nullptr}, short_cut{nullptr};
  torch::nn::BatchNorm2d norm1{nullptr}, norm2{nullptr}, short_norm{nullptr};

  ResidualBlock(int64_t in, int64_t out, int64_t stride) {
    const auto conv = [](int64_t i, int64_t o, int64_t kernel, int64_t s) {
      return torch::nn::Conv2d(torch::nn::Conv2dOptions(i, o, kernel).stride(s).padding(kernel / 2).bias(false));
    };
    conv1 = register_module("conv1", conv(in, out, 3, stride));
    norm1 = register_module("norm1", torch::nn::BatchNorm2d(out));
    conv2 = register_module("conv2", conv(out, out, 3, 1));
    norm2 = register_module("norm2", torch::nn::BatchNorm2d(out));
    if (stride != 1 || in != out) {
      short_cut = register_module("short_cut", conv(in, out, 1, stride));
      short_norm = register_module("short_norm", torch::nn::BatchNorm2d(out));
    }
  }
  at::Tensor forward(const at::Tensor& x) {
    const auto y = norm2(conv2(torch::relu(norm1(conv1(x)))));
    return torch::relu(y + (short_cut ? short_norm(short_cut(x)) : x));
  }
};

struct ResNet18 : torch::nn::Module {
  torch::nn::Conv2d stem{nullptr};
  torch::nn::BatchNorm2d norm{nullptr};
  std::vector<std::shared_ptr<ResidualBlock>> blocks;
  torch::nn::Linear out{nullptr};

  explicit ResNet18(int64_t classes = 1000) {
    stem =
        register_module("stem", torch::nn::Conv2d(torch::nn::Conv2dOptions(3, 64, 7).stride(2).padding(3).bias(false)));
    norm = register_module("norm", torch::nn::BatchNorm2d(64));
    int64_t channels = 64;
    for (const int64_t width : {64, 128, 256, 512})
      for (const int64_t stride : {width == 64 ? 1 : 2, 1}) {
        blocks.push_back(register_module("block" + std::to_string(blocks.size()),
                                         std::make_shared<ResidualBlock>(channels, width, stride)));
        channels = width;
      }
    out = register_module("out", torch::nn::Linear(512, classes));
  }
  at::Tensor forward(at::Tensor x) {
    x = torch::max_pool2d(torch::relu(norm(stem(x))), 3, 2, 1);
    for (const auto& block : blocks) x = block->forward(x);
    return out(torch::adaptive_avg_pool2d(x, {1, 1}).flatten(1));
  }
};

inline Tensors resnet_inference(ResNet18& net, const Tensors& in) {
  torch::NoGradGuard no_grad;
  return {net.forward(in[0])};
}
inline Tensors resnet_training(ResNet18& net, const Tensors& in) {
  const auto loss = torch::nn::functional::cross_entropy(net.forward(in[0]), in[1]);
  loss.backward();
  return {loss.detach()};
}

}  // namespace precast::demo
