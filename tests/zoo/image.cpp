// Networks that say what an image shows.
#include "blocks.h"
#include "network.h"

namespace precast::zoo {
namespace {

std::string image(int64_t batch, int64_t side) {
  return "f32[" + std::to_string(batch) + ",3," + std::to_string(side) + "," + std::to_string(side) + "]";
}

Network::Example classify(Size size) {
  return size == Size::small ? Network::Example{{image(2, 32)}, "i64[2]:0..10"}
                             : Network::Example{{image(4, 128)}, "i64[4]:0..1000"};
}
int64_t classes(Size size) { return size == Size::small ? 10 : 1000; }

// MobileNet with squeeze and excite.

Module conv_norm(int64_t in, int64_t out, int64_t kernel, Conv c, const char* activation = "x") {
  c.padding = kernel / 2;
  return sequential({conv2d(in, out, kernel, c), batch_norm(out), activation});
}

Module squeeze_excite(int64_t channels) {
  return script("SqueezeExcite",
                {{"reduce", conv2d(channels, channels / 4, 1)}, {"expand", conv2d(channels / 4, channels, 1)}}, R"(
def forward(self, x):
    s = torch.adaptive_avg_pool2d(x, [1, 1])
    s = torch.relu(self.reduce.forward(s))
    return x * torch.hardsigmoid(self.expand.forward(s))
)");
}

Module inverted_residual(int64_t in, int64_t out, int64_t kernel, int64_t stride, const char* activation) {
  const int64_t inner = 4 * in;
  return script("InvertedResidual",
                {{"expand", conv_norm(in, inner, 1, {}, activation)},
                 {"depthwise", conv_norm(inner, inner, kernel, {.stride = stride, .groups = inner}, activation)},
                 {"excite", squeeze_excite(inner)},
                 {"project", conv_norm(inner, out, 1, {})},
                 {"residual", in == out && stride == 1}},
                R"(
def forward(self, x):
    y = self.expand.forward(x)
    y = self.depthwise.forward(y)
    y = self.excite.forward(y)
    y = self.project.forward(y)
    if self.residual:
        y = x + y
    return y
)");
}

Module mobile_net(Size size) {
  constexpr const char *kHardswish = "torch.hardswish(x)", *kRelu = "torch.relu_(x)";
  const int64_t w = size == Size::small ? 4 : 16;
  std::vector<Stage> stages = {conv_norm(3, w, 3, {.stride = 2}, kHardswish), inverted_residual(w, w, 3, 1, kRelu),
                               inverted_residual(w, 2 * w, 5, 2, kHardswish)};
  if (size == Size::full)
    for (const auto& [in, out, kernel, stride] : {std::array<int64_t, 4>{32, 32, 3, 1},
                                                  {32, 64, 3, 2},
                                                  {64, 64, 5, 1},
                                                  {64, 64, 5, 1},
                                                  {64, 128, 5, 2},
                                                  {128, 128, 5, 1}})
      stages.emplace_back(inverted_residual(in, out, kernel, stride, kHardswish));
  const int64_t last = size == Size::small ? 2 * w : 128;
  stages.insert(stages.end(),
                {conv_norm(last, 4 * last, 1, {}, kHardswish), "torch.adaptive_avg_pool2d(x, [1, 1])",
                 "torch.flatten(x, 1)", linear(4 * last, 4 * last), kHardswish, linear(4 * last, classes(size))});
  return sequential(stages);
}

// DenseNet: every layer sees all before it.

Module dense_layer(int64_t in, int64_t growth) {
  return script("DenseLayer",
                {{"norm1", batch_norm(in)},
                 {"conv1", conv2d(in, 4 * growth, 1)},
                 {"norm2", batch_norm(4 * growth)},
                 {"conv2", conv2d(4 * growth, growth, 3, {.padding = 1})}},
                R"(
def forward(self, x):
    y = self.conv1.forward(torch.relu(self.norm1.forward(x)))
    y = self.conv2.forward(torch.relu(self.norm2.forward(y)))
    return torch.cat([x, y], 1)
)");
}

Module dense_net(Size size) {
  const bool small = size == Size::small;
  const int64_t growth = small ? 4 : 32;
  int64_t channels = 2 * growth;
  std::vector<Stage> stages = {conv2d(3, channels, 7, {.stride = 2, .padding = 3}), batch_norm(channels),
                               "torch.relu(x)", "torch.max_pool2d(x, [3, 3], [2, 2], [1, 1])"};
  const std::vector<int> blocks = small ? std::vector<int>{2, 2} : std::vector<int>{4, 6, 6};
  for (size_t b = 0; b < blocks.size(); ++b) {
    if (b) {  // a transition
      stages.insert(stages.end(), {batch_norm(channels), "torch.relu(x)", conv2d(channels, channels / 2, 1),
                                   "torch.avg_pool2d(x, [2, 2])"});
      channels /= 2;
    }
    for (int i = 0; i < blocks[b]; ++i, channels += growth) stages.emplace_back(dense_layer(channels, growth));
  }
  stages.insert(stages.end(),
                {batch_norm(channels), "torch.relu(x)", "x.mean([2, 3])", linear(channels, classes(size))});
  return sequential(stages);
}

// ConvNeXt: depthwise convolutions between layer norms over channels.

Module conv_next_block(int64_t width) {
  return script("ConvNeXtBlock",
                {{"depthwise", conv2d(width, width, 7, {.padding = 3, .groups = width})},
                 {"norm", layer_norm(width)},
                 {"mlp", mlp(width, 4 * width)},
                 {"scale", constant({width}, 0.1)}},
                R"(
def forward(self, x):
    y = self.depthwise.forward(x).permute(0, 2, 3, 1)
    y = self.scale * self.mlp.forward(self.norm.forward(y))
    return x + y.permute(0, 3, 1, 2)
)");
}

Module conv_next(Size size) {
  const bool small = size == Size::small;
  const std::vector<int64_t> widths = small ? std::vector<int64_t>{8, 12} : std::vector<int64_t>{48, 96, 192};
  const auto norm = [](int64_t width) {
    return sequential({"x.permute(0, 2, 3, 1)", layer_norm(width), "x.permute(0, 3, 1, 2)"});
  };
  std::vector<Stage> stages = {conv2d(3, widths[0], 4, {.stride = 4}), norm(widths[0])};
  for (size_t i = 0; i < widths.size(); ++i) {
    if (i) stages.insert(stages.end(), {norm(widths[i - 1]), conv2d(widths[i - 1], widths[i], 2, {.stride = 2})});
    for (int block = 0; block < (small ? 1 : 2); ++block) stages.emplace_back(conv_next_block(widths[i]));
  }
  stages.insert(stages.end(), {"x.mean([-2, -1])", layer_norm(widths.back()), linear(widths.back(), classes(size))});
  return sequential(stages);
}

// MLP-Mixer: one perceptron over patches, one over channels.

Module mixer(Size size) {
  const bool small = size == Size::small;
  const int64_t width = small ? 12 : 192, patch = small ? 8 : 16, patches = small ? 16 : 64;
  const std::string cut = std::to_string(patch);
  std::vector<Stage> stages = {conv2d(3, width, patch, {.stride = patch}), "x.flatten(2).transpose(1, 2)"};
  for (int i = 0; i < (small ? 2 : 6); ++i) {
    stages.emplace_back(
        residual({layer_norm(width), "x.transpose(1, 2)", mlp(patches, 2 * patches), "x.transpose(1, 2)"}));
    stages.emplace_back(residual({layer_norm(width), mlp(width, 3 * width)}));
  }
  stages.insert(stages.end(), {layer_norm(width), "x.mean(1)", linear(width, classes(size))});
  return sequential(stages);
}

// Vision transformer.

Module vision_transformer(Size size) {
  const bool small = size == Size::small;
  const int64_t width = small ? 16 : 192, heads = small ? 2 : 3, patch = small ? 8 : 16, patches = small ? 16 : 64;
  std::vector<Stage> blocks;
  for (int i = 0; i < (small ? 2 : 6); ++i) {
    blocks.emplace_back(residual({layer_norm(width), self_attention(width, heads), dropout(0.1)}));
    blocks.emplace_back(residual({layer_norm(width), mlp(width, 4 * width), dropout(0.1)}));
  }
  return script("VisionTransformer",
                {{"cut", conv2d(3, width, patch, {.stride = patch})},
                 {"token", noise({1, 1, width})},
                 {"positions", noise({1, patches + 1, width})},
                 {"blocks", sequential(blocks)},
                 {"norm", layer_norm(width)},
                 {"head", linear(width, classes(size))}},
                R"(
def forward(self, x):
    x = self.cut.forward(x).flatten(2).transpose(1, 2)
    token = self.token.expand(x.size(0), -1, -1)
    x = torch.cat([token, x], 1) + self.positions
    x = self.norm.forward(self.blocks.forward(x))
    return self.head.forward(x[:, 0])
)");
}

}  // namespace

std::span<const Network> image_networks() {
  static const Network all[] = {
      {"mobile_net", mobile_net, classify, cross_entropy},
      {"dense_net", dense_net, classify, cross_entropy},
      {"conv_next", conv_next, classify, cross_entropy},
      {"mixer", mixer, classify, cross_entropy},
      {"vision_transformer", vision_transformer, classify, cross_entropy},
  };
  return all;
}

}  // namespace precast::zoo
