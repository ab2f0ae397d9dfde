// A small convolutional network with BatchNorm on the real handwritten digits of scikit-learn.
#pragma once
#include "models/data.h"
#include "models/workload.h"

namespace precast::demo {

struct DigitsNet : torch::nn::Module {
  torch::nn::Conv2d conv1{nullptr}, conv2{nullptr};
  torch::nn::BatchNorm2d norm1{nullptr}, norm2{nullptr};
  torch::nn::Linear out{nullptr};

  DigitsNet() {
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

struct DigitsData {
  at::Tensor images, labels;  // [N, 1, 8, 8], [N]
};
/// The first 1,437 (80 %) to train on, the other 360 to test with.
inline std::pair<DigitsData, DigitsData> digits_split() {
  constexpr int64_t kTrain = 1437;
  static const Digits digits = read_digits();
  const auto count = static_cast<int64_t>(digits.labels.size());
  const auto images = torch::tensor(digits.images).reshape({count, 1, 8, 8});
  const auto labels = torch::tensor(digits.labels);
  return {{images.slice(0, 0, kTrain).clone(), labels.slice(0, 0, kTrain).clone()},
          {images.slice(0, kTrain).clone(), labels.slice(0, kTrain).clone()}};
}

constexpr int64_t kDigitsBatch = 64;
inline Tensors digits_batch(const DigitsData& data, int64_t step) {
  const int64_t batches = data.labels.size(0) / kDigitsBatch, begin = step % batches * kDigitsBatch;
  return {data.images.slice(0, begin, begin + kDigitsBatch).clone(),
          data.labels.slice(0, begin, begin + kDigitsBatch).clone()};
}

inline Tensors digits_inference(DigitsNet& net, const Tensors& in) {
  torch::NoGradGuard no_grad;
  return {net.forward(in[0])};
}
inline Tensors digits_training(DigitsNet& net, const Tensors& in) {
  const auto loss = torch::nn::functional::cross_entropy(net.forward(in[0]), in[1]);
  loss.backward();
  return {loss.detach()};
}

}  // namespace precast::demo
