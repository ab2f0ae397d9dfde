// Networks that make a picture of a picture.
#include <torch/torch.h>

#include "blocks.h"
#include "network.h"

namespace precast::zoo {
namespace {

std::string pictures(int64_t batch, int64_t channels, int64_t side) {
  return "f32[" + std::to_string(batch) + "," + std::to_string(channels) + "," + std::to_string(side) + "," +
         std::to_string(side) + "]";
}

// U-Net: one half goes up by transposed convolutions, and takes what the other half saw at that size.

Module twice(int64_t in, int64_t out) {
  return sequential({conv2d(in, out, 3, {.padding = 1}), batch_norm(out), "torch.relu(x)",
                     conv2d(out, out, 3, {.padding = 1}), batch_norm(out), "torch.relu(x)"});
}

Module u_net(Size size) {
  const int64_t w = size == Size::small ? 4 : 32;
  return script("UNet",
                {{"down1", twice(3, w)},
                 {"down2", twice(w, 2 * w)},
                 {"down3", twice(2 * w, 4 * w)},
                 {"bottom", twice(4 * w, 8 * w)},
                 {"up3", conv_transpose2d(8 * w, 4 * w, 2, 2, 0)},
                 {"join3", twice(8 * w, 4 * w)},
                 {"join2", twice(6 * w, 2 * w)},
                 {"up1", conv_transpose2d(2 * w, w, 2, 2, 0)},
                 {"join1", twice(2 * w, w)},
                 {"head", conv2d(w, 5, 1)}},
                R"(
def forward(self, x):
    a = self.down1.forward(x)
    b = self.down2.forward(torch.max_pool2d(a, [2, 2]))
    c = self.down3.forward(torch.max_pool2d(b, [2, 2]))
    y = self.bottom.forward(torch.max_pool2d(c, [2, 2]))
    y = self.join3.forward(torch.cat([c, self.up3.forward(y)], 1))
    y = torch.upsample_bilinear2d(y, [b.size(2), b.size(3)], False)
    y = self.join2.forward(torch.cat([b, y], 1))
    y = self.join1.forward(torch.cat([a, self.up1.forward(y)], 1))
    return self.head.forward(y)
)");
}
Network::Example segment(Size size) {
  return size == Size::small ? Network::Example{{pictures(2, 3, 24)}, "i64[2,24,24]:0..5"}
                             : Network::Example{{pictures(2, 3, 96)}, "i64[2,96,96]:0..5"};
}

// An autoencoder with transposed convolutions; instance norm and leaky rectifiers.

Module autoencoder(Size size) {
  const bool small = size == Size::small;
  const int64_t w = small ? 4 : 32, side = small ? 4 : 8, code = small ? 6 : 128, deep = 4 * w * side * side;
  const char* leaky = "torch.leaky_relu(x, 0.2)";
  const auto down = [&](int64_t in, int64_t out) {
    return sequential({conv2d(in, out, 4, {.stride = 2, .padding = 1}), instance_norm(out), leaky});
  };
  const auto up = [&](int64_t in, int64_t out) {
    return sequential({conv_transpose2d(in, out, 4, 2, 1), instance_norm(out), leaky});
  };
  return sequential({conv2d(3, w, 3, {.padding = 1}), leaky, down(w, w), down(w, 2 * w), down(2 * w, 4 * w),
                     "torch.flatten(x, 1)", linear(deep, code), "torch.tanh(x)", linear(code, deep),
                     "x.reshape(x.size(0), " + std::to_string(4 * w) + ", " + std::to_string(side) + ", " +
                         std::to_string(side) + ")",
                     up(4 * w, 2 * w), up(2 * w, w), up(w, w), conv2d(w, 3, 3, {.padding = 1}), "torch.sigmoid(x)"});
}
Network::Example picture_itself(Size size) {
  const std::string p = size == Size::small ? pictures(2, 3, 32) : pictures(4, 3, 64);
  return {{p + ":0..1"}, p + ":0..1"};
}
at::Tensor binary_cross_entropy(const at::Tensor& output, const at::Tensor& target) {
  return torch::binary_cross_entropy(output, target);
}

// Super-resolution: residual blocks, pixel shuffle, and the picture itself enlarged by cubic interpolation.

Module super_resolution(Size size) {
  const bool small = size == Size::small;
  const int64_t w = small ? 8 : 64;
  std::vector<Stage> blocks;
  for (int i = 0; i < (small ? 2 : 12); ++i)
    blocks.emplace_back(residual({conv2d(w, w, 3, {.padding = 1}),
                                  script("PRelu", {{"weight", constant({w}, 0.25)}},
                                         "def forward(self, x):\n    return torch.prelu(x, self.weight)\n"),
                                  conv2d(w, w, 3, {.padding = 1}), "x * 0.1"}));
  return script("SuperResolution",
                {{"head", conv2d(3, w, 5, {.padding = 2})},
                 {"body", residual(blocks)},
                 {"up1", conv2d(w, 4 * w, 3, {.padding = 1})},
                 {"up2", conv2d(w, 12, 3, {.padding = 1})}},
                R"(
def forward(self, x):
    y = self.body.forward(self.head.forward(x))
    y = torch.relu(torch.pixel_shuffle(self.up1.forward(y), 2))
    y = torch.pixel_shuffle(self.up2.forward(y), 2)
    return y + torch.upsample_bicubic2d(x, [y.size(2), y.size(3)], False)
)");
}
Network::Example enlarge(Size size) {
  return size == Size::small ? Network::Example{{pictures(2, 3, 10)}, pictures(2, 3, 40)}
                             : Network::Example{{pictures(1, 3, 64)}, pictures(1, 3, 256)};
}
at::Tensor smooth_error(const at::Tensor& output, const at::Tensor& target) {
  return torch::smooth_l1_loss(output, target);
}

// A spatial transformer turns the picture upright, and a residual network with group norm reads it.

Module spatial_transformer(Size size) {
  const bool small = size == Size::small;
  const int64_t w = small ? 8 : 64;
  const auto block = [](int64_t n) {
    return residual({group_norm(4, n), "torch.silu(x)", conv2d(n, n, 3, {.padding = 2, .dilation = 2}),
                     group_norm(4, n), "torch.elu(x)", conv2d(n, n, 3, {.padding = 1})});
  };
  std::vector<Stage> blocks;
  for (int i = 0; i < (small ? 2 : 14); ++i) blocks.emplace_back(block(w));
  return script("SpatialTransformer",
                {{"look", sequential({conv2d(3, 8, 7, {.stride = 2}), "torch.relu(x)",
                                      "torch.adaptive_max_pool2d(x, [3, 3])[0].flatten(1)", linear(72, 6)})},
                 {"identity", torch::tensor({1.f, 0.f, 0.f, 0.f, 1.f, 0.f})},
                 {"stem", conv2d(3, w, 3, {.padding = 1})},
                 {"blocks", sequential(blocks)},
                 {"head", conv2d(w, 3, 1)}},
                R"(
def forward(self, x):
    theta = (self.identity + 0.1 * self.look.forward(x)).reshape(-1, 2, 3)
    grid = torch.affine_grid_generator(theta, x.shape, False)
    x = torch.grid_sampler(x, grid, 0, 0, False)
    return self.head.forward(self.blocks.forward(self.stem.forward(torch.reflection_pad2d(x, [1, 1, 1, 1]))))
)");
}
Network::Example upright(Size size) {
  return size == Size::small ? Network::Example{{pictures(2, 3, 16)}, pictures(2, 3, 18)}
                             : Network::Example{{pictures(2, 3, 64)}, pictures(2, 3, 66)};
}

}  // namespace

std::span<const Network> picture_networks() {
  static const Network all[] = {
      {"u_net", u_net, segment, cross_entropy},
      {"autoencoder", autoencoder, picture_itself, binary_cross_entropy},
      {"super_resolution", super_resolution, enlarge, smooth_error},
      {"spatial_transformer", spatial_transformer, upright, squared_error},
  };
  return all;
}

}  // namespace precast::zoo
