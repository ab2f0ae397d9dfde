#include "blocks.h"

#include <cmath>

namespace precast::zoo {

Module script(const std::string& name, const std::vector<Member>& members, const std::string& source) {
  Module m(name);
  m.register_attribute("training", c10::BoolType::get(), true);
  for (const Member& member : members) {
    if (member.module)
      m.register_module(member.name, *member.module);
    else if (!member.value.isTensor())
      m.register_attribute(member.name, member.value.type(), member.value);
    else if (const at::Tensor& t = member.value.toTensor(); t.requires_grad())
      m.register_parameter(member.name, t, /*is_buffer=*/false);
    else
      m.register_buffer(member.name, t);
  }
  m.define(source);
  return m;
}

namespace {

Module chain(const std::string& name, const std::vector<Stage>& stages, const std::string& result) {
  std::vector<Member> members;
  std::string source = "def forward(self, x0):\n    x = x0\n";
  for (const Stage& stage : stages) {
    std::string value = stage.expression;
    if (stage.module) {
      const std::string member = "stage" + std::to_string(members.size());
      members.emplace_back(member, *stage.module);
      value = "self." + member + ".forward(x)";
    }
    source += "    x = " + value + "\n";
  }
  return script(name, members, source + "    return " + result + "\n");
}

Module conv(const std::string& dims, const std::vector<int64_t>& sizes, Conv c) {
  const size_t n = sizes.size() - 2;
  const auto each = [&](int64_t value) { return std::vector<int64_t>(n, value); };
  return script("Conv" + dims,
                {{"weight", weight(sizes)},
                 {"bias", noise({sizes[0]})},
                 {"stride", each(c.stride)},
                 {"padding", each(c.padding)},
                 {"dilation", each(c.dilation)},
                 {"groups", c.groups}},
                "def forward(self, x):\n    return torch.conv" + dims +
                    "(x, self.weight, self.bias, self.stride, self.padding, self.dilation, self.groups)\n");
}

}  // namespace

Module sequential(const std::vector<Stage>& stages) { return chain("Sequential", stages, "x"); }
Module residual(const std::vector<Stage>& inner) { return chain("Residual", inner, "x0 + x"); }

at::Tensor weight(at::IntArrayRef sizes) {
  double fan_in = 1;
  for (const int64_t size : sizes.slice(1)) fan_in *= static_cast<double>(size);
  return noise(sizes, 1 / std::sqrt(fan_in));
}
at::Tensor noise(at::IntArrayRef sizes, double scale) { return (torch::randn(sizes) * scale).requires_grad_(); }
at::Tensor constant(at::IntArrayRef sizes, double value) { return torch::full(sizes, value).requires_grad_(); }

Module conv1d(int64_t in, int64_t out, int64_t kernel, Conv c) { return conv("1d", {out, in / c.groups, kernel}, c); }
Module conv2d(int64_t in, int64_t out, int64_t kernel, Conv c) {
  return conv("2d", {out, in / c.groups, kernel, kernel}, c);
}
Module conv_transpose2d(int64_t in, int64_t out, int64_t kernel, int64_t stride, int64_t padding) {
  return script("ConvTranspose2d",
                {{"weight", noise({in, out, kernel, kernel}, 1 / std::sqrt(static_cast<double>(in * kernel)))},
                 {"bias", noise({out})},
                 {"stride", std::vector<int64_t>{stride, stride}},
                 {"padding", std::vector<int64_t>{padding, padding}}},
                R"(
def forward(self, x):
    return torch.conv_transpose2d(x, self.weight, self.bias, self.stride, self.padding)
)");
}

Module linear(int64_t in, int64_t out) {
  return script("Linear", {{"weight", weight({out, in})}, {"bias", noise({out})}}, R"(
def forward(self, x):
    return torch.linear(x, self.weight, self.bias)
)");
}
Module projection(int64_t in, int64_t out) {
  return script("Projection", {{"weight", weight({out, in})}}, R"(
def forward(self, x):
    return torch.linear(x, self.weight)
)");
}
Module embedding(int64_t count, int64_t width) {
  return script("Embedding", {{"weight", noise({count, width}, 1)}}, R"(
def forward(self, x):
    return torch.embedding(self.weight, x)
)");
}
Module dropout(double p) {
  return script("Dropout", {{"p", p}}, R"(
def forward(self, x):
    return torch.dropout(x, self.p, self.training)
)");
}

Module batch_norm(int64_t channels) {
  return script("BatchNorm",
                {{"weight", constant({channels}, 1)},
                 {"bias", constant({channels}, 0)},
                 {"running_mean", torch::zeros({channels})},
                 {"running_var", torch::ones({channels})},
                 {"num_batches_tracked", torch::zeros({}, torch::kLong)}},
                R"(
def forward(self, x):
    if self.training:
        self.num_batches_tracked.add_(1)
    return torch.batch_norm(x, self.weight, self.bias, self.running_mean, self.running_var, self.training, 0.1, 1e-5,
                            False)
)");
}
Module group_norm(int64_t groups, int64_t channels) {
  return script("GroupNorm",
                {{"groups", groups}, {"weight", constant({channels}, 1)}, {"bias", constant({channels}, 0)}}, R"(
def forward(self, x):
    return torch.group_norm(x, self.groups, self.weight, self.bias)
)");
}
Module instance_norm(int64_t channels) {
  return script("InstanceNorm", {{"weight", constant({channels}, 1)}, {"bias", constant({channels}, 0)}}, R"(
def forward(self, x):
    return torch.instance_norm(x, self.weight, self.bias, None, None, True, 0.1, 1e-5, False)
)");
}
Module layer_norm(int64_t width) {
  return script(
      "LayerNorm",
      {{"sizes", std::vector<int64_t>{width}}, {"weight", constant({width}, 1)}, {"bias", constant({width}, 0)}},
      R"(
def forward(self, x):
    return torch.layer_norm(x, self.sizes, self.weight, self.bias)
)");
}

Module mlp(int64_t width, int64_t hidden, const char* activation) {
  return sequential({linear(width, hidden), activation, linear(hidden, width)});
}

Module self_attention(int64_t width, int64_t heads) {
  return script("SelfAttention", {{"heads", heads}, {"qkv", linear(width, 3 * width)}, {"out", linear(width, width)}},
                R"(
def forward(self, x):
    batch, time, width = x.shape
    q, k, v = self.qkv.forward(x).reshape(batch, time, 3, self.heads, width // self.heads).permute(2, 0, 3, 1, 4).unbind(0)
    y = torch.scaled_dot_product_attention(q, k, v)
    return self.out.forward(y.transpose(1, 2).reshape(batch, time, width))
)");
}

}  // namespace precast::zoo
