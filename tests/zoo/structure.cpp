// Networks of graphs, tables, points and rays.
#include <torch/torch.h>

#include "blocks.h"
#include "network.h"

namespace precast::zoo {
namespace {

// A graph network: convolutions that add what neighbours send, then attention over each node's incoming edges.

Module graph_convolution(int64_t in, int64_t out) {
  return script("GraphConvolution", {{"linear", projection(in, out)}, {"bias", constant({out}, 0)}}, R"(
def forward(self, x, edges):
    source, target = edges[0], edges[1]
    degree = torch.ones([x.size(0)], dtype=x.dtype).index_add(0, target, torch.ones([target.size(0)], dtype=x.dtype))
    scale = degree.rsqrt()
    x = self.linear.forward(x)
    sent = x.index_select(0, source) * (scale[source] * scale[target]).unsqueeze(1)
    y = (x / degree.unsqueeze(1)).index_add(0, target, sent)
    return torch.relu(y + self.bias)
)");
}

Module graph_attention(int64_t width, int64_t heads) {
  return script("GraphAttention",
                {{"heads", heads},
                 {"linear", projection(width, width)},
                 {"from_source", noise({heads, width / heads}, 0.3)},
                 {"from_target", noise({heads, width / heads}, 0.3)}},
                R"(
def forward(self, x, edges):
    source, target = edges[0], edges[1]
    n = x.size(0)
    h = self.linear.forward(x).view(n, self.heads, -1)
    score = (h * self.from_source).sum(-1)[source] + (h * self.from_target).sum(-1)[target]
    score = torch.leaky_relu(score, 0.2)
    index = target.unsqueeze(1).expand_as(score)
    most = torch.zeros([n, self.heads], dtype=x.dtype).scatter_reduce(0, index, score.detach(), "amax", include_self=False)
    share = torch.exp(score - most.gather(0, index))
    total = torch.zeros([n, self.heads], dtype=x.dtype).index_add(0, target, share)
    share = share / (total[target] + 1e-16)
    y = torch.zeros_like(h).index_add(0, target, share.unsqueeze(-1) * h[source])
    return x + torch.elu(y.flatten(1))
)");
}

Module graph_network(Size size) {
  const bool small = size == Size::small;
  const int64_t in = small ? 5 : 256, width = small ? 8 : 512;
  std::vector<Member> members = {
      {"first", graph_convolution(in, width)},      {"second", graph_convolution(width, width)},
      {"third", graph_attention(width, 4)},         {"fourth", graph_attention(width, 4)},
      {"head", mlp(width, width, "torch.selu(x)")}, {"classes", linear(width, small ? 3 : 16)}};
  return script("GraphNetwork", members, R"(
def forward(self, x, edges):
    x = self.second.forward(self.first.forward(x, edges), edges)
    x = self.fourth.forward(self.third.forward(x, edges), edges)
    return self.classes.forward(self.head.forward(x))
)");
}
Network::Example sort_of_node(Size size) {
  return size == Size::small ? Network::Example{{"f32[12,5]", "i64[2,40]:0..12"}, "i64[12]:0..3"}
                             : Network::Example{{"f32[1000,256]", "i64[2,8000]:0..1000"}, "i64[1000]:0..16"};
}

// A recommender: numbers through a perceptron, bags of categories through tables, then what they have in common.

Module recommender(Size size) {
  const bool small = size == Size::small;
  const int64_t width = small ? 4 : 32, rows = small ? 30 : 20000, hidden = small ? 8 : 256, features = 5;
  return script("Recommender",
                {{"sums", noise({rows, width}, 0.3)},
                 {"means", noise({rows, width}, 0.3)},
                 {"tops", noise({rows, width}, 0.3)},
                 {"weighted", noise({rows, width}, 0.3)},
                 {"bottom", sequential({linear(13, hidden), "torch.relu(x)", linear(hidden, width), "torch.relu(x)"})},
                 {"pairs_a", torch::tril_indices(features, features, -1, torch::kLong)[0].clone()},
                 {"pairs_b", torch::tril_indices(features, features, -1, torch::kLong)[1].clone()},
                 {"top", sequential({linear(width + features * (features - 1) / 2, hidden), "torch.relu(x)",
                                     linear(hidden, hidden), "torch.relu(x)", linear(hidden, hidden), "torch.relu(x)",
                                     linear(hidden, hidden), "torch.relu(x)", linear(hidden, hidden), "torch.relu(x)",
                                     linear(hidden, 1)})}},
                R"(
def bag(self, table, ids, mode: int, weights: Optional[Tensor]):
    offsets = torch.arange(0, ids.numel(), ids.size(1))
    return torch.embedding_bag(table, ids.reshape(-1), offsets, False, mode, False, weights)[0]

def forward(self, numbers, a, b, c, d, shares):
    x = self.bottom.forward(torch.log1p(numbers.abs()))
    e = [x, self.bag(self.sums, a, 0, None), self.bag(self.means, b, 1, None), self.bag(self.tops, c, 2, None),
         self.bag(self.weighted, d, 0, shares.reshape(-1))]
    t = torch.stack(e, 1)
    products = torch.bmm(t, t.transpose(1, 2))[:, self.pairs_a, self.pairs_b]
    return self.top.forward(torch.cat([x, products], 1)).squeeze(1)
)");
}
Network::Example clicked(Size size) {
  if (size == Size::small)
    return {{"f32[6,13]", "i64[6,3]:0..30", "i64[6,2]:0..30", "i64[6,4]:0..30", "i64[6,3]:0..30", "f32[6,3]"},
            "f32[6]:0..1"};
  return {{"f32[256,13]", "i64[256,20]:0..20000", "i64[256,10]:0..20000", "i64[256,8]:0..20000", "i64[256,16]:0..20000",
           "f32[256,16]"},
          "f32[256]:0..1"};
}
at::Tensor logits_loss(const at::Tensor& output, const at::Tensor& target) {
  return torch::binary_cross_entropy_with_logits(output, target);
}

// Points: each looks at its nearest neighbours, found anew in every layer.

Module edge_convolution(int64_t in, int64_t out, int64_t neighbours) {
  return script(
      "EdgeConvolution",
      {{"k", neighbours}, {"mlp", sequential({linear(2 * in, out), "torch.leaky_relu(x, 0.2)", linear(out, out)})}}, R"(
def forward(self, x):
    batch, n, width = x.shape
    distance = torch.cdist(x, x).detach()
    near = torch.topk(distance, self.k, -1, False)[1]
    index = near.reshape(batch, -1).unsqueeze(-1).expand(-1, -1, width)
    other = torch.gather(x, 1, index).view(batch, n, self.k, width)
    here = x.unsqueeze(2).expand_as(other)
    return self.mlp.forward(torch.cat([here, other - here], -1)).max(2)[0]
)");
}

Module point_cloud(Size size) {
  const bool small = size == Size::small;
  const int64_t w = small ? 6 : 128, k = small ? 3 : 12;
  return script("PointCloud",
                {{"first", edge_convolution(3, w, k)},
                 {"second", edge_convolution(w, w, k)},
                 {"third", edge_convolution(w, 2 * w, k)},
                 {"whole", linear(4 * w, 4 * w)},
                 {"norm", batch_norm(4 * w)},
                 {"head", sequential({linear(8 * w, 4 * w), "torch.gelu(x)", linear(4 * w, small ? 5 : 40)})}},
                R"(
def forward(self, x):
    a = self.first.forward(x)
    b = self.second.forward(a)
    c = self.third.forward(b)
    y = self.norm.forward(self.whole.forward(torch.cat([a, b, c], -1)).transpose(1, 2))
    y = torch.cat([torch.amax(y, -1), y.mean(-1)], 1)
    return self.head.forward(y)
)");
}
Network::Example shape_of_points(Size size) {
  return size == Size::small ? Network::Example{{"f32[2,10,3]"}, "i64[2]:0..5"}
                             : Network::Example{{"f32[2,256,3]"}, "i64[2]:0..40"};
}

// A radiance field: waves of the position, a deep perceptron, and light summed up along each ray.

Module radiance_field(Size size) {
  const bool small = size == Size::small;
  const int64_t w = small ? 8 : 384, octaves = small ? 3 : 10, encoded = 3 + 6 * octaves;
  std::vector<Stage> before = {linear(encoded, w), "torch.relu(x)"}, after = {linear(w + encoded, w), "torch.relu(x)"};
  for (int i = 0; i < (small ? 1 : 3); ++i) {
    before.insert(before.end(), {linear(w, w), "torch.relu(x)"});
    after.insert(after.end(), {linear(w, w), "torch.relu(x)"});
  }
  return script("RadianceField",
                {{"octaves", torch::pow(2.0, torch::arange(octaves, torch::kFloat))},
                 {"before", sequential(before)},
                 {"after", sequential(after)},
                 {"head", linear(w, 4)}},
                R"(
def forward(self, points, lengths):
    waves = (points.unsqueeze(-1) * self.octaves).flatten(-2)
    x = torch.cat([points, waves.sin(), waves.cos()], -1)
    y = self.before.forward(x)
    y = self.head.forward(self.after.forward(torch.cat([y, x], -1)))
    density, color = torch.softplus(y[..., 3]), torch.sigmoid(y[..., :3])
    opacity = 1.0 - torch.exp(-density * lengths.abs())
    passed = torch.cumprod(1.0 - opacity + 1e-10, -1)
    passed = torch.cat([torch.ones_like(passed[:, :1]), passed[:, :-1]], -1)
    return ((opacity * passed).unsqueeze(-1) * color).sum(1)
)");
}
Network::Example rays(Size size) {
  return size == Size::small ? Network::Example{{"f32[5,6,3]:-1..1", "f32[5,6]:0..1"}, "f32[5,3]:0..1"}
                             : Network::Example{{"f32[64,32,3]:-1..1", "f32[64,32]:0..1"}, "f32[64,3]:0..1"};
}

}  // namespace

std::span<const Network> structure_networks() {
  static const Network all[] = {
      {"graph_network", graph_network, sort_of_node, cross_entropy},
      {"recommender", recommender, clicked, logits_loss},
      {"point_cloud", point_cloud, shape_of_points, cross_entropy},
      {"radiance_field", radiance_field, rays, squared_error},
  };
  return all;
}

}  // namespace precast::zoo
