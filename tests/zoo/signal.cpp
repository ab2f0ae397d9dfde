// Networks of sound and other series.
#include <torch/torch.h>

#include "blocks.h"
#include "network.h"

namespace precast::zoo {
namespace {

std::string sizes_of(std::initializer_list<int64_t> sizes) {
  std::string text;
  for (const int64_t n : sizes) text += (text.empty() ? "[" : ",") + std::to_string(n);
  return text + "]";
}

// WaveNet: dilated causal convolutions with gates; each layer adds to the residual and to the skipped sum.

Module wave_layer(int64_t channels, int64_t skip, int64_t dilation) {
  return script("WaveLayer",
                {{"dilation", dilation},
                 {"filter", conv1d(channels, channels, 2, {.dilation = dilation})},
                 {"gate", conv1d(channels, channels, 2, {.dilation = dilation})},
                 {"skip", conv1d(channels, skip, 1)},
                 {"residual", conv1d(channels, channels, 1)}},
                R"(
def forward(self, x):
    past = torch.constant_pad_nd(x, [self.dilation, 0])
    y = torch.tanh(self.filter.forward(past)) * torch.sigmoid(self.gate.forward(past))
    return x + self.residual.forward(y), self.skip.forward(y)
)");
}

Module wave_net(Size size) {
  const bool small = size == Size::small;
  const int64_t channels = small ? 6 : 64, skip = small ? 8 : 160, levels = small ? 16 : 256;
  std::vector<Member> members = {
      {"levels", embedding(levels, channels)},
      {"head", sequential({"torch.relu(x)", conv1d(skip, skip, 1), "torch.relu(x)", conv1d(skip, levels, 1)})}};
  std::string layers;
  for (int i = 0; i < (small ? 4 : 32); ++i) {
    members.emplace_back("layer" + std::to_string(i), wave_layer(channels, skip, int64_t{1} << i % 8));
    layers += "    x, s = self.layer" + std::to_string(i) + ".forward(x)\n    total = " + (i ? "total + s\n" : "s\n");
  }
  return script("WaveNet", members,
                "def forward(self, samples):\n    x = self.levels.forward(samples).transpose(1, 2)\n" + layers +
                    "    return self.head.forward(total)\n");
}
Network::Example next_sample(Size size) {
  const std::string samples = size == Size::small ? "i64[2,40]:0..16" : "i64[2,512]:0..256";
  return {{samples}, samples};
}

// Conformer: half a perceptron, attention, convolution with a gate, half a perceptron; trained to align letters.

Module convolution_module(int64_t width, int64_t kernel) {
  return sequential({layer_norm(width), "x.transpose(1, 2)", conv1d(width, 2 * width, 1), "torch.glu(x, 1)",
                     conv1d(width, width, kernel, {.padding = kernel / 2, .groups = width}), batch_norm(width),
                     "torch.silu(x)", conv1d(width, width, 1), "x.transpose(1, 2)"});
}

Module conformer(Size size) {
  const bool small = size == Size::small;
  const int64_t width = small ? 12 : 144, heads = small ? 2 : 4, bands = small ? 12 : 80, letters = small ? 7 : 32;
  std::vector<Stage> stages = {"x.unsqueeze(1)",
                               conv2d(1, width / 4, 3, {.stride = 2, .padding = 1}),
                               "torch.relu(x)",
                               conv2d(width / 4, width / 4, 3, {.stride = 2, .padding = 1}),
                               "torch.relu(x)",
                               "x.transpose(1, 2).flatten(2)",
                               linear(width / 4 * (bands / 4), width)};
  for (int i = 0; i < (small ? 1 : 4); ++i) {
    const auto half = [&] { return residual({layer_norm(width), mlp(width, 4 * width, "torch.silu(x)"), "x * 0.5"}); };
    stages.insert(stages.end(), {half(), residual({layer_norm(width), self_attention(width, heads)}),
                                 residual({convolution_module(width, small ? 5 : 15)}), half(), layer_norm(width)});
  }
  stages.insert(stages.end(), {linear(width, letters), "torch.log_softmax(x, -1)"});
  return sequential(stages);
}
Network::Example spoken(Size size) {
  return size == Size::small ? Network::Example{{"f32" + sizes_of({2, 36, 12})}, "i64[2,4]:1..7"}
                             : Network::Example{{"f32" + sizes_of({2, 256, 80})}, "i64[2,24]:1..32"};
}
at::Tensor alignment(const at::Tensor& output, const at::Tensor& target) {
  const std::vector<int64_t> times(output.size(0), output.size(1)), letters(target.size(0), target.size(1));
  return at::ctc_loss(output.transpose(0, 1), target, times, letters);
}

// Conv-TasNet: learned filters there and back by a transposed convolution; norms over all channels and times.

Module separation_block(int64_t width, int64_t hidden, int64_t dilation) {
  const auto prelu = [] {
    return script("PRelu", {{"weight", constant({1}, 0.25)}},
                  "def forward(self, x):\n    return torch.prelu(x, self.weight)\n");
  };
  return residual({conv1d(width, hidden, 1), prelu(), group_norm(1, hidden),
                   conv1d(hidden, hidden, 3, {.padding = dilation, .dilation = dilation, .groups = hidden}), prelu(),
                   group_norm(1, hidden), conv1d(hidden, width, 1)});
}

Module tas_net(Size size) {
  const bool small = size == Size::small;
  const int64_t filters = small ? 10 : 256, width = small ? 8 : 128, hidden = small ? 12 : 256;
  std::vector<Stage> blocks = {group_norm(1, filters), conv1d(filters, width, 1)};
  for (int i = 0; i < (small ? 3 : 16); ++i) blocks.emplace_back(separation_block(width, hidden, int64_t{1} << i % 8));
  blocks.insert(blocks.end(), {"torch.relu(x)", conv1d(width, 2 * filters, 1), "torch.sigmoid(x)"});
  return script("TasNet",
                {{"encoder", conv1d(1, filters, 16, {.stride = 8})},
                 {"masks", sequential(blocks)},
                 {"weight", noise({filters, 1, 16}, 0.1)}},
                R"(
def forward(self, x):
    y = torch.relu(self.encoder.forward(x.unsqueeze(1)))
    masks = self.masks.forward(y).view(y.size(0), 2, y.size(1), y.size(2))
    parts = (masks * y.unsqueeze(1)).flatten(0, 1)
    return torch.conv_transpose1d(parts, self.weight, None, [8]).view(x.size(0), 2, -1)
)");
}
Network::Example two_voices(Size size) {
  return size == Size::small ? Network::Example{{"f32[2,96]"}, "f32[2,2,96]"}
                             : Network::Example{{"f32[2,4000]"}, "f32[2,2,4000]"};
}

// A selective state space, stepped through time.

Module state_space(int64_t width, int64_t states) {
  return script(
      "StateSpace",
      {{"norm", layer_norm(width)},
       {"in_proj", projection(width, 4 * width)},
       {"conv", conv1d(2 * width, 2 * width, 4, {.padding = 3, .groups = 2 * width})},
       {"select", linear(2 * width, 2 * width + 2 * states)},
       {"log_decay", torch::arange(1, states + 1, torch::kFloat).log().repeat({2 * width, 1}).requires_grad_()},
       {"direct", constant({2 * width}, 1)},
       {"out", projection(2 * width, width)}},
      R"(
def forward(self, x0):
    x, gate = self.in_proj.forward(self.norm.forward(x0)).chunk(2, -1)
    x = torch.silu(self.conv.forward(x.transpose(1, 2))[:, :, :x.size(1)].transpose(1, 2))
    width, states = self.log_decay.size(0), self.log_decay.size(1)
    step, into, out_of = self.select.forward(x).split([width, states, states], -1)
    step = torch.softplus(step)
    decay = torch.exp(step.unsqueeze(-1) * -torch.exp(self.log_decay))
    drive = (step * x).unsqueeze(-1) * into.unsqueeze(2)
    state = torch.zeros_like(drive[:, 0])
    ys = []
    for t in range(x.size(1)):
        state = decay[:, t] * state + drive[:, t]
        ys.append((state * out_of[:, t].unsqueeze(1)).sum(-1))
    y = torch.stack(ys, 1) + x * self.direct
    return x0 + self.out.forward(y * torch.silu(gate))
)");
}

Module state_spaces(Size size) {
  const bool small = size == Size::small;
  const int64_t width = small ? 6 : 192, states = small ? 4 : 8;
  std::vector<Stage> stages = {linear(small ? 3 : 16, width)};
  for (int i = 0; i < (small ? 1 : 4); ++i) stages.emplace_back(state_space(width, states));
  stages.insert(stages.end(), {layer_norm(width), linear(width, 1)});
  return sequential(stages);
}
Network::Example forecast(Size size) {
  return size == Size::small ? Network::Example{{"f32[2,6,3]"}, "f32[2,6,1]"}
                             : Network::Example{{"f32[4,32,16]"}, "f32[4,32,1]"};
}

}  // namespace

std::span<const Network> signal_networks() {
  static const Network all[] = {
      {"wave_net", wave_net, next_sample, cross_entropy},
      {"conformer", conformer, spoken, alignment},
      {"tas_net", tas_net, two_voices, squared_error},
      {"state_spaces", state_spaces, forecast, squared_error},
  };
  return all;
}

}  // namespace precast::zoo
