// A GPT stack (Radford et al. 2019): 4 layers, width 256, 8 heads, causal attention, tied embedding.
#pragma once
#include "models/workload.h"

namespace precast::demo {

constexpr int64_t kGptWidth = 256, kGptHeads = 8, kGptLayers = 4, kGptWords = 512, kGptTokens = 64;

struct GptBlock : torch::nn::Module {
  int64_t n_heads;
  torch::nn::LayerNorm norm1{nullptr}, norm2{nullptr};
  torch::nn::Linear qkv{nullptr}, project{nullptr}, up{nullptr}, down{nullptr};

  explicit GptBlock(int64_t width = kGptWidth, int64_t n_heads = kGptHeads) : n_heads(n_heads) {
    const torch::nn::LayerNormOptions over_width({width});
    norm1 = register_module("norm1", torch::nn::LayerNorm(over_width));
    qkv = register_module("qkv", torch::nn::Linear(width, 3 * width));
    project = register_module("project", torch::nn::Linear(width, width));
    norm2 = register_module("norm2", torch::nn::LayerNorm(over_width));
    up = register_module("up", torch::nn::Linear(width, 4 * width));
    down = register_module("down", torch::nn::Linear(4 * width, width));
  }
  at::Tensor forward(at::Tensor x) {
    const int64_t batch = x.size(0), tokens = x.size(1), width = x.size(2);
    const auto heads = qkv(norm1(x)).view({batch, tokens, 3, n_heads, width / n_heads}).permute({2, 0, 3, 1, 4});
    const auto attended = at::scaled_dot_product_attention(heads[0], heads[1], heads[2], {}, 0.0, /*is_causal=*/true);
    x = x + project(attended.transpose(1, 2).reshape({batch, tokens, width}));
    return x + down(torch::gelu(up(norm2(x)), "tanh"));
  }
};

struct Gpt : torch::nn::Module {
  torch::nn::Embedding words{nullptr}, positions{nullptr};
  std::vector<std::shared_ptr<GptBlock>> blocks;
  torch::nn::LayerNorm norm{nullptr};

  Gpt() {
    words = register_module("words", torch::nn::Embedding(kGptWords, kGptWidth));
    positions = register_module("positions", torch::nn::Embedding(kGptTokens, kGptWidth));
    for (int64_t i = 0; i < kGptLayers; ++i)
      blocks.push_back(register_module("block" + std::to_string(i), std::make_shared<GptBlock>()));
    norm = register_module("norm", torch::nn::LayerNorm(torch::nn::LayerNormOptions({kGptWidth})));
    torch::NoGradGuard no_grad;
    words->weight.mul_(0.02);
    positions->weight.mul_(0.02);
  }
  at::Tensor forward(const at::Tensor& tokens) {
    auto x = words(tokens) + positions(torch::arange(tokens.size(1)));
    for (const auto& block : blocks) x = block->forward(x);
    return torch::matmul(norm(x), words->weight.t());
  }
};

inline Tensors gpt_inference(Gpt& gpt, const Tensors& in) {
  torch::NoGradGuard no_grad;
  return {gpt.forward(in[0])};
}
/// Next-token prediction on [batch, tokens + 1].
inline Tensors gpt_training(Gpt& gpt, const Tensors& in) {
  const auto logits = gpt.forward(in[0].slice(1, 0, -1));
  const auto loss = torch::nn::functional::cross_entropy(logits.flatten(0, 1), in[0].slice(1, 1).reshape({-1}));
  loss.backward();
  return {loss.detach()};
}

}  // namespace precast::demo
