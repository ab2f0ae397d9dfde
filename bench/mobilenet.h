// MobileNetV3-Small (Howard et al. 2019, table 2).
#pragma once
#include "models/workload.h"

namespace precast::bench {

class MobileNetImpl : public torch::nn::Module {
 public:
  MobileNetImpl() {
    using namespace torch::nn;
    struct Row {
      int64_t kernel, wide, out;
      bool squeeze, hard;
      int64_t stride;
    };
    const Row rows[] = {{3, 16, 16, true, false, 2}, {3, 72, 24, false, false, 2}, {3, 88, 24, false, false, 1},
                        {5, 96, 40, true, true, 2},  {5, 240, 40, true, true, 1},  {5, 240, 40, true, true, 1},
                        {5, 120, 48, true, true, 1}, {5, 144, 48, true, true, 1},  {5, 288, 96, true, true, 2},
                        {5, 576, 96, true, true, 1}, {5, 576, 96, true, true, 1}};
    stem_ = register_module("stem", Layer(3, 16, 3, 2, 1, Act::hardswish));
    int64_t in = 16;
    for (const Row& r : rows) {
      blocks_.push_back(register_module("block" + std::to_string(blocks_.size()), std::make_shared<Block>(in, r)));
      in = r.out;
    }
    last_ = register_module("last", Layer(in, 576, 1, 1, 1, Act::hardswish));
    hidden_ = register_module("hidden", Linear(576, 1024));
    out_ = register_module("out", Linear(1024, 1000));
  }
  at::Tensor forward(at::Tensor x) {
    x = stem_(x);
    for (const auto& block : blocks_) x = block->forward(x);
    return out_(torch::hardswish(hidden_(last_(x).mean({2, 3}))));
  }

 private:
  enum class Act { none, relu, hardswish };

  struct LayerImpl : torch::nn::Module {
    LayerImpl(int64_t in, int64_t out, int64_t kernel, int64_t stride, int64_t groups, Act act) : act(act) {
      conv = register_module(
          "conv",
          torch::nn::Conv2d(
              torch::nn::Conv2dOptions(in, out, kernel).stride(stride).padding(kernel / 2).groups(groups).bias(false)));
      norm =
          register_module("norm", torch::nn::BatchNorm2d(torch::nn::BatchNorm2dOptions(out).eps(1e-3).momentum(0.01)));
    }
    at::Tensor forward(at::Tensor x) {
      x = norm(conv(x));
      return act == Act::relu ? torch::relu(x) : act == Act::hardswish ? torch::hardswish(x) : x;
    }
    Act act;
    torch::nn::Conv2d conv{nullptr};
    torch::nn::BatchNorm2d norm{nullptr};
  };
  TORCH_MODULE(Layer);

  struct Block : torch::nn::Module {
    template <class Row>
    Block(int64_t in, const Row& r) : residual(r.stride == 1 && in == r.out) {
      const Act act = r.hard ? Act::hardswish : Act::relu;
      if (r.wide != in) expand = register_module("expand", Layer(in, r.wide, 1, 1, 1, act));
      depthwise = register_module("depthwise", Layer(r.wide, r.wide, r.kernel, r.stride, r.wide, act));
      if (r.squeeze) {
        const int64_t few = std::max<int64_t>(8, (r.wide / 4 + 4) / 8 * 8);
        down = register_module("down", torch::nn::Conv2d(torch::nn::Conv2dOptions(r.wide, few, 1)));
        up = register_module("up", torch::nn::Conv2d(torch::nn::Conv2dOptions(few, r.wide, 1)));
      }
      project = register_module("project", Layer(r.wide, r.out, 1, 1, 1, Act::none));
    }
    at::Tensor forward(at::Tensor in) {
      at::Tensor x = depthwise(expand.is_empty() ? in : expand(in));
      if (!down.is_empty()) x = x * torch::hardsigmoid(up(torch::relu(down(torch::adaptive_avg_pool2d(x, {1, 1})))));
      x = project(x);
      return residual ? x + in : x;
    }
    bool residual;
    Layer expand{nullptr}, depthwise{nullptr}, project{nullptr};
    torch::nn::Conv2d down{nullptr}, up{nullptr};
  };

  Layer stem_{nullptr}, last_{nullptr};
  std::vector<std::shared_ptr<Block>> blocks_;
  torch::nn::Linear hidden_{nullptr}, out_{nullptr};
};

inline demo::Tensors run_mobilenet(MobileNetImpl& net, const demo::Tensors& in) {
  torch::NoGradGuard no_grad;
  return {net.forward(in[0])};
}

}  // namespace precast::bench
