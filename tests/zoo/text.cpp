// Networks of words.
#include <torch/torch.h>

#include "blocks.h"
#include "network.h"

namespace precast::zoo {
namespace {

std::string tokens(int64_t batch, int64_t time, int64_t count) {
  return "i64[" + std::to_string(batch) + "," + std::to_string(time) + "]:0.." + std::to_string(count);
}
Network::Example next_words(Size size) {
  const std::string t = size == Size::small ? tokens(2, 9, 40) : tokens(4, 64, 4000);
  return {{t}, t};
}
Network::Example sort_of_text(Size size) {
  return size == Size::small ? Network::Example{{tokens(3, 10, 40)}, "i64[3]:0..3"}
                             : Network::Example{{tokens(8, 64, 4000)}, "i64[8]:0..3"};
}
int64_t words(Size size) { return size == Size::small ? 40 : 4000; }

// BERT: attention by hand, where padding (word 0) is masked; dropout; the first position tells the class.

Module masked_attention(int64_t width, int64_t heads) {
  return script("MaskedAttention",
                {{"heads", heads},
                 {"query", linear(width, width)},
                 {"key", linear(width, width)},
                 {"value", linear(width, width)},
                 {"out", linear(width, width)},
                 {"drop", dropout(0.1)}},
                R"(
def split(self, x):
    return x.view(x.size(0), x.size(1), self.heads, -1).transpose(1, 2)

def forward(self, x, padding):
    q, k, v = self.split(self.query.forward(x)), self.split(self.key.forward(x)), self.split(self.value.forward(x))
    scores = torch.matmul(q, k.transpose(-1, -2)) / float(q.size(-1)) ** 0.5
    scores = scores.masked_fill(padding[:, None, None, :], -10000.0)
    y = torch.matmul(self.drop.forward(torch.softmax(scores, -1)), v)
    return self.out.forward(y.permute(0, 2, 1, 3).contiguous().view(x.size(0), x.size(1), x.size(2)))
)");
}

Module bert(Size size) {
  const bool small = size == Size::small;
  const int64_t width = small ? 12 : 192, heads = small ? 3 : 6;
  std::vector<Member> members = {{"words", embedding(words(size), width)},
                                 {"positions", embedding(small ? 10 : 64, width)},
                                 {"kinds", embedding(2, width)},
                                 {"norm", layer_norm(width)},
                                 {"drop", dropout(0.1)},
                                 {"pooler", linear(width, width)},
                                 {"head", linear(width, 3)}};
  std::string layers;
  for (int i = 0; i < (small ? 2 : 4); ++i) {
    const std::string n = std::to_string(i);
    members.insert(members.end(), {{"attention" + n, masked_attention(width, heads)},
                                   {"norm_a" + n, layer_norm(width)},
                                   {"mlp" + n, mlp(width, 4 * width)},
                                   {"norm_b" + n, layer_norm(width)}});
    layers += "    x = self.norm_a" + n + ".forward(x + self.drop.forward(self.attention" + n +
              ".forward(x, padding)))\n    x = self.norm_b" + n + ".forward(x + self.drop.forward(self.mlp" + n +
              ".forward(x)))\n";
  }
  return script("Bert", members, R"(
def forward(self, ids):
    padding = ids == 0
    positions = torch.arange(ids.size(1), device=ids.device).unsqueeze(0).expand_as(ids)
    kinds = torch.zeros_like(ids)
    x = self.words.forward(ids) + self.positions.forward(positions) + self.kinds.forward(kinds)
    x = self.drop.forward(self.norm.forward(x))
)" + layers + R"(
    return self.head.forward(torch.tanh(self.pooler.forward(x[:, 0])))
)");
}

// Llama: rotary positions, RMS norm, few heads of keys for many of queries, gated perceptrons.

Module rms_norm(int64_t width) {
  return script("RMSNorm", {{"weight", constant({width}, 1)}}, R"(
def forward(self, x):
    return self.weight * (x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6))
)");
}

Module rotary_attention(int64_t width, int64_t heads, int64_t groups) {
  const int64_t each = width / heads;
  return script("RotaryAttention",
                {{"heads", heads},
                 {"groups", groups},
                 {"query", projection(width, width)},
                 {"key", projection(width, groups * each)},
                 {"value", projection(width, groups * each)},
                 {"out", projection(width, width)}},
                R"(
def turn(self, x, cos, sin):
    a, b = x.chunk(2, -1)
    return x * cos + torch.cat([-b, a], -1) * sin

def forward(self, x, cos, sin):
    batch, time, width = x.shape
    q = self.query.forward(x).view(batch, time, self.heads, -1).transpose(1, 2)
    k = self.key.forward(x).view(batch, time, self.groups, -1).transpose(1, 2)
    v = self.value.forward(x).view(batch, time, self.groups, -1).transpose(1, 2)
    k = self.turn(k, cos, sin).repeat_interleave(self.heads // self.groups, 1)
    v = v.repeat_interleave(self.heads // self.groups, 1)
    y = torch.scaled_dot_product_attention(self.turn(q, cos, sin), k, v, is_causal=True)
    return self.out.forward(y.transpose(1, 2).reshape(batch, time, width))
)");
}

Module gated_mlp(int64_t width, int64_t hidden) {
  return script(
      "GatedMlp",
      {{"gate", projection(width, hidden)}, {"up", projection(width, hidden)}, {"down", projection(hidden, width)}},
      R"(
def forward(self, x):
    return self.down.forward(torch.silu(self.gate.forward(x)) * self.up.forward(x))
)");
}

Module llama(Size size) {
  const bool small = size == Size::small;
  const int64_t width = small ? 16 : 192, heads = small ? 4 : 6, groups = 2, each = width / heads;
  const at::Tensor frequencies = torch::pow(10000.0, -torch::arange(0, each, 2, torch::kFloat) / double(each));
  std::vector<Member> members = {{"words", embedding(words(size), width)},
                                 {"frequencies", frequencies},
                                 {"norm", rms_norm(width)},
                                 {"head", projection(width, words(size))}};
  std::string layers;
  for (int i = 0; i < (small ? 2 : 4); ++i) {
    const std::string n = std::to_string(i);
    members.insert(members.end(), {{"norm_a" + n, rms_norm(width)},
                                   {"attention" + n, rotary_attention(width, heads, groups)},
                                   {"norm_b" + n, rms_norm(width)},
                                   {"mlp" + n, gated_mlp(width, 3 * width)}});
    layers += "    x = x + self.attention" + n + ".forward(self.norm_a" + n +
              ".forward(x), cos, sin)\n    x = x + self.mlp" + n + ".forward(self.norm_b" + n + ".forward(x))\n";
  }
  return script("Llama", members, R"(
def forward(self, ids):
    x = self.words.forward(ids)
    angles = torch.outer(torch.arange(ids.size(1), dtype=x.dtype), self.frequencies)
    angles = torch.cat([angles, angles], -1)
    cos, sin = angles.cos(), angles.sin()
)" + layers + R"(
    return self.head.forward(self.norm.forward(x))
)");
}

// Bidirectional GRU of two layers; attention over time makes one vector of it.

Module bidirectional_gru(Size size) {
  const bool small = size == Size::small;
  const int64_t in = small ? 6 : 128, hidden = small ? 5 : 192;
  std::vector<Member> members = {
      {"words", embedding(words(size), in)}, {"score", linear(2 * hidden, 1)}, {"head", linear(2 * hidden, 3)}};
  std::string weights;
  for (int layer = 0; layer < 2; ++layer)
    for (const char* direction : {"", "_reverse"}) {
      const std::string end = "_l" + std::to_string(layer) + direction;
      members.insert(members.end(), {{"weight_ih" + end, weight({3 * hidden, layer ? 2 * hidden : in})},
                                     {"weight_hh" + end, weight({3 * hidden, hidden})},
                                     {"bias_ih" + end, noise({3 * hidden})},
                                     {"bias_hh" + end, noise({3 * hidden})}});
      for (const char* w : {"weight_ih", "weight_hh", "bias_ih", "bias_hh"})
        weights += (weights.empty() ? "self." : ", self.") + std::string(w) + end;
    }
  return script("BidirectionalGru", members,
                R"(
def forward(self, ids):
    x = self.words.forward(ids)
    h = torch.zeros([4, x.size(0), )" +
                    std::to_string(hidden) + R"(], dtype=x.dtype)
    y, last = torch.gru(x, h, [)" +
                    weights + R"(], True, 2, 0.0, self.training, True, True)
    a = torch.softmax(self.score.forward(torch.tanh(y)), 1)
    return self.head.forward((a * y).sum(1))
)");
}

// Mixture of experts: each word goes to its two best ones.

Module mixture(int64_t width, int64_t experts) {
  std::vector<Member> members = {{"gate", projection(width, experts)}};
  std::string sum;
  for (int64_t e = 0; e < experts; ++e) {
    const std::string n = std::to_string(e);
    members.emplace_back("expert" + n, mlp(width, 2 * width, "torch.mish(x)"));
    sum += "    y = y + shares[..., " + n + "].unsqueeze(-1) * self.expert" + n + ".forward(x)\n";
  }
  return script("Mixture", members,
                R"(
def forward(self, x):
    best, which = torch.topk(self.gate.forward(x), 2)
    shares = torch.zeros([x.size(0), x.size(1), )" +
                    std::to_string(experts) + R"(], dtype=x.dtype)
    shares = shares.scatter(-1, which, torch.softmax(best, -1))
    y = torch.zeros_like(x)
)" + sum + "    return y\n");
}

Module mixture_of_experts(Size size) {
  const bool small = size == Size::small;
  const int64_t width = small ? 12 : 192, heads = small ? 2 : 4, experts = small ? 3 : 4;
  std::vector<Stage> stages = {embedding(words(size), width)};
  for (int i = 0; i < (small ? 1 : 3); ++i) {
    stages.emplace_back(residual({layer_norm(width), self_attention(width, heads)}));
    stages.emplace_back(residual({layer_norm(width), mixture(width, experts)}));
  }
  stages.insert(stages.end(), {layer_norm(width), linear(width, words(size))});
  return sequential(stages);
}

}  // namespace

std::span<const Network> text_networks() {
  static const Network all[] = {
      {"bert", bert, sort_of_text, cross_entropy},
      {"llama", llama, next_words, token_loss},
      {"bidirectional_gru", bidirectional_gru, sort_of_text, cross_entropy},
      {"mixture_of_experts", mixture_of_experts, next_words, token_loss},
  };
  return all;
}

}  // namespace precast::zoo
