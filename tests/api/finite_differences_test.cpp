// Gradients of artifacts against central differences of the artifact's own forward pass, in float64: many functions in
// one artifact, each with an input of its own, so that one call shifts an entry of all inputs.
#include <cmath>

#include "api/agree.h"

using namespace precast::testing;

namespace F = torch::nn::functional;

namespace {

struct Function {
  const char* name;
  std::vector<int64_t> shape;
  Tensor (*of)(const Tensor&);
};

// Constants as functions of the shape: a captured program may not close over tensors.
Tensor wave(at::IntArrayRef shape, double from) {
  int64_t n = 1;
  for (int64_t s : shape) n *= s;
  return torch::sin(torch::arange(n, at::kDouble) * 1.7 + from).view(shape);
}
Tensor to(at::Reduction::Reduction how, Tensor (*loss)(const Tensor&, const Tensor&, int64_t), const Tensor& x) {
  return loss(x, wave(x.sizes(), 4), how);
}
Tensor classes(std::vector<int64_t> v) {
  Tensor t = torch::zeros({static_cast<int64_t>(v.size())}, at::kLong);
  for (size_t i = 0; i < v.size(); ++i) t.slice(0, static_cast<int64_t>(i), static_cast<int64_t>(i) + 1).fill_(v[i]);
  return t;
}

const Function kFunctions[] = {
    {"exp", {5}, [](auto& x) { return x.exp(); }},
    {"log", {5}, [](auto& x) { return (x * x + 1).log(); }},
    {"sqrt", {5}, [](auto& x) { return (x * x + 1).sqrt(); }},
    {"rsqrt", {5}, [](auto& x) { return (x * x + 1).rsqrt(); }},
    {"sin cos", {5}, [](auto& x) { return x.sin() * x.cos(); }},
    {"tan", {5}, [](auto& x) { return (0.3 * x).tan(); }},
    {"asin acos", {5}, [](auto& x) { return (0.3 * x).asin() * (0.2 * x).acos(); }},
    {"atan", {5}, [](auto& x) { return x.atan(); }},
    {"atan2", {5}, [](auto& x) { return torch::atan2(x, wave({5}, 2)); }},
    {"sinh cosh", {5}, [](auto& x) { return x.sinh() + x.cosh(); }},
    {"asinh acosh atanh", {5}, [](auto& x) { return x.asinh() + (x * x + 2).acosh() + (0.3 * x).atanh(); }},
    {"tanh", {5}, [](auto& x) { return x.tanh(); }},
    {"sigmoid", {5}, [](auto& x) { return x.sigmoid(); }},
    {"erf erfc", {5}, [](auto& x) { return x.erf() * x.erfc(); }},
    {"erfinv", {5}, [](auto& x) { return (0.3 * x).erfinv(); }},
    {"expm1 log1p", {5}, [](auto& x) { return x.expm1() + (x * x).log1p(); }},
    {"exp2 log2 log10", {5}, [](auto& x) { return x.exp2() + (x * x + 1).log2() + (x * x + 1).log10(); }},
    {"lgamma digamma", {5}, [](auto& x) { return (x * x + 1).lgamma(); }},
    {"pow", {5}, [](auto& x) { return (x * x + 0.5).pow(1.7) + torch::pow(1.3, x) + x.pow(3); }},
    {"pow of a tensor", {5}, [](auto& x) { return torch::pow(x * x + 0.5, x); }},
    {"division", {5}, [](auto& x) { return wave({5}, 1) / (x * x + 1); }},
    {"hypot", {5}, [](auto& x) { return torch::hypot(x, wave({5}, 3) + 2); }},
    {"gelu", {6}, [](auto& x) { return torch::gelu(x) + torch::gelu(x, "tanh"); }},
    {"silu mish", {6}, [](auto& x) { return torch::silu(x) * torch::mish(x); }},
    {"softplus", {6}, [](auto& x) { return torch::softplus(x, 1.5, 20); }},
    {"elu selu celu", {6}, [](auto& x) { return torch::elu(x, 0.7) + torch::selu(x) + torch::celu(x, 1.3); }},
    {"logsigmoid", {6}, [](auto& x) { return torch::log_sigmoid(x); }},
    {"leaky relu and kin",
     {6},
     [](auto& x) { return torch::leaky_relu(x, 0.1) + torch::hardswish(x) * torch::hardsigmoid(x) + torch::relu6(x); }},
    {"glu", {2, 4}, [](auto& x) { return torch::glu(x, 1); }},
    {"prelu", {2, 3}, [](auto& x) { return torch::prelu(x, wave({3}, 5)); }},
    {"softmax", {2, 4}, [](auto& x) { return torch::softmax(x, 1); }},
    {"log_softmax", {2, 4}, [](auto& x) { return torch::log_softmax(x, 0); }},
    {"logsumexp", {2, 4}, [](auto& x) { return torch::logsumexp(x, 1); }},
    {"layer_norm", {2, 4}, [](auto& x) { return torch::layer_norm(x, {4}, wave({4}, 1), wave({4}, 2)); }},
    {"layer_norm of two dimensions", {2, 2, 3}, [](auto& x) { return torch::layer_norm(x, {2, 3}); }},
    {"rms_norm", {2, 4}, [](auto& x) { return torch::rms_norm(x, {4}, wave({4}, 1), 1e-5); }},
    {"group_norm", {2, 4, 2}, [](auto& x) { return torch::group_norm(x, 2, wave({4}, 1), wave({4}, 2)); }},
    {"instance_norm",
     {1, 2, 4},
     [](auto& x) { return torch::instance_norm(x, {}, {}, {}, {}, true, 0.1, 1e-5, false); }},
    {"batch_norm",
     {3, 2, 2},
     [](auto& x) { return torch::batch_norm(x, wave({2}, 1), wave({2}, 2), {}, {}, true, 0.1, 1e-5, false); }},
    {"var std", {3, 4}, [](auto& x) { return x.var(1) + x.std(1, false); }},
    {"norm", {3, 4}, [](auto& x) { return x.norm(2, 1) + torch::linalg_vector_norm(x, 3, at::IntArrayRef{1}); }},
    {"prod", {2, 4}, [](auto& x) { return x.prod(1); }},
    {"mean amax", {2, 4}, [](auto& x) { return x.mean(1) * x.amax(1); }},
    {"max min", {2, 4}, [](auto& x) { return std::get<0>(x.max(1)) * std::get<0>(x.min(1)); }},
    {"cumsum", {2, 4}, [](auto& x) { return x.cumsum(1) * x; }},
    {"cumprod", {2, 4}, [](auto& x) { return x.cumprod(1); }},
    {"mm", {3, 4}, [](auto& x) { return torch::mm(x, x.t()); }},
    {"bmm", {2, 2, 3}, [](auto& x) { return torch::bmm(x, x.transpose(1, 2)); }},
    {"baddbmm", {2, 2, 2}, [](auto& x) { return torch::baddbmm(x, x, x, 0.5, 2); }},
    {"einsum", {2, 2, 3}, [](auto& x) { return torch::einsum("bij,bkj->ik", {x, x}); }},
    {"linear", {3, 4}, [](auto& x) { return torch::linear(x, wave({2, 4}, 1), wave({2}, 2)); }},
    {"weights of linear", {2, 4}, [](auto& w) { return torch::linear(wave({3, 4}, 1), w); }},
    {"conv1d", {1, 2, 6}, [](auto& x) { return torch::conv1d(x, wave({3, 2, 3}, 1), wave({3}, 2), 2, 1); }},
    {"conv2d", {1, 2, 3, 3}, [](auto& x) { return torch::conv2d(x, wave({2, 2, 2, 2}, 1), {}, 1, 1, 2); }},
    {"weights of conv2d",
     {2, 1, 2, 2},
     [](auto& w) { return torch::conv2d(wave({2, 2, 4, 3}, 1), w, {}, 1, at::IntArrayRef{0}, 1, 2); }},
    {"conv3d", {1, 1, 2, 3, 2}, [](auto& x) { return torch::conv3d(x, wave({2, 1, 2, 2, 1}, 1)); }},
    {"conv_transpose2d",
     {1, 2, 2, 3},
     [](auto& x) { return torch::conv_transpose2d(x, wave({2, 2, 2, 2}, 1), {}, 2, 1, 1); }},
    {"weights of conv_transpose1d", {2, 2, 3}, [](auto& w) { return torch::conv_transpose1d(wave({1, 2, 4}, 1), w); }},
    {"max_pool2d", {1, 1, 4, 4}, [](auto& x) { return torch::max_pool2d(x, 2, 1, 1); }},
    {"avg_pool2d", {1, 1, 4, 4}, [](auto& x) { return torch::avg_pool2d(x, 3, 2, 1, true, false); }},
    {"adaptive_avg_pool2d", {1, 1, 3, 5}, [](auto& x) { return torch::adaptive_avg_pool2d(x, {2, 2}); }},
    {"adaptive_max_pool1d", {1, 2, 5}, [](auto& x) { return std::get<0>(torch::adaptive_max_pool1d(x, 2)); }},
    {"attention", {1, 2, 4, 2}, [](auto& x) { return torch::scaled_dot_product_attention(x, x.flip(2), x * 2); }},
    {"causal attention",
     {1, 1, 5, 3},
     [](auto& x) { return torch::scaled_dot_product_attention(x, x, x, {}, 0.0, true); }},
    {"gru cell",
     {2, 3},
     [](auto& x) {
       return torch::gru_cell(x, wave({2, 2}, 1), wave({6, 3}, 2), wave({6, 2}, 3), wave({6}, 4), wave({6}, 5));
     }},
    {"lstm cell",
     {2, 3},
     [](auto& x) {
       const std::vector<Tensor> state{wave({2, 2}, 1), wave({2, 2}, 6)};
       const auto [h, c] = torch::lstm_cell(x, state, wave({8, 3}, 2), wave({8, 2}, 3), wave({8}, 4), wave({8}, 5));
       return h * c;
     }},
    {"interpolation",
     {1, 1, 3, 3},
     [](auto& x) {
       return torch::upsample_bilinear2d(x, {5, 4}, false) + torch::upsample_bicubic2d(x, {5, 4}, true) +
              torch::upsample_nearest2d(x, {5, 4});
     }},
    {"padding",
     {1, 1, 3, 4},
     [](auto& x) {
       return torch::reflection_pad2d(x, {1, 2, 1, 0}) * torch::replication_pad2d(x, {1, 2, 1, 0}) +
              torch::constant_pad_nd(x, {1, 2, 1, 0}, 0.5);
     }},
    {"pixel_shuffle", {1, 4, 2, 2}, [](auto& x) { return torch::pixel_shuffle(x, 2) * 2; }},
    {"grid_sampler",
     {1, 2, 2, 2},
     [](auto& grid) { return torch::grid_sampler(wave({1, 1, 4, 5}, 1), 0.37 * grid, 0, 0, false); }},
    {"embedding", {4, 3}, [](auto& w) { return torch::embedding(w, classes({1, 3, 1})); }},
    {"index", {4, 3}, [](auto& x) { return x.index({classes({3, 0, 3})}); }},
    {"gather", {3, 3}, [](auto& x) { return x.gather(1, classes({2, 0, 1}).view({3, 1})); }},
    {"index_add",
     {4, 2},
     [](auto& x) { return torch::zeros({2, 2}, at::kDouble).index_add(0, classes({1, 0, 1, 1}), x * x); }},
    {"index_put", {3, 2}, [](auto& x) { return wave({4, 2}, 2).index_put({classes({1, 1, 3})}, x * x, true); }},
    {"scatter_add",
     {2, 2},
     [](auto& x) {
       return torch::zeros({2, 3}, at::kDouble).scatter_add(1, classes({2, 0, 1, 1}).view({2, 2}), x * x);
     }},
    {"where masked_fill",
     {2, 4},
     [](auto& x) { return torch::where(wave({2, 4}, 1) > 0, x * x, x).masked_fill(wave({4}, 2) > 0.5, 3); }},
    {"clamp", {6}, [](auto& x) { return x.clamp(-0.4, 0.6) * x; }},
    {"roll flip tril", {3, 3}, [](auto& x) { return x.roll(1, 0) * x.flip(1) + x.tril() * x.triu(); }},
    {"cat stack split",
     {2, 4},
     [](auto& x) {
       const auto parts = x.split(2, 1);
       return torch::cat({parts[0] * parts[1], parts[1]}, 1).sin() + torch::stack({x, x}, 0).sum(0);
     }},
    {"unfold", {1, 1, 4, 4}, [](auto& x) { return torch::im2col(x, {2, 2}, {1, 1}, {0, 0}, {1, 1}).square(); }},
    {"as_strided", {6}, [](auto& x) { return (x * 1).as_strided({3, 3}, {1, 1}).square(); }},
    {"cdist", {3, 2}, [](auto& x) { return torch::cdist(x, wave({2, 2}, 1)); }},
    {"mse_loss", {2, 3}, [](auto& x) { return to(at::Reduction::Mean, torch::mse_loss, x); }},
    {"l1_loss", {2, 3}, [](auto& x) { return to(at::Reduction::Sum, torch::l1_loss, x); }},
    {"smooth_l1_loss",
     {2, 3},
     [](auto& x) { return torch::smooth_l1_loss(x, wave({2, 3}, 4), at::Reduction::Mean, 0.5); }},
    {"huber_loss", {2, 3}, [](auto& x) { return torch::huber_loss(x, wave({2, 3}, 4), at::Reduction::Mean, 0.5); }},
    {"cross_entropy",
     {3, 4},
     [](auto& x) { return torch::cross_entropy_loss(x, classes({1, 3, 0}), wave({4}, 1).abs()); }},
    {"label smoothing",
     {3, 4},
     [](auto& x) { return torch::cross_entropy_loss(x, classes({1, 3, 0}), {}, at::Reduction::Mean, -100, 0.1); }},
    {"binary_cross_entropy",
     {5},
     [](auto& x) {
       return torch::binary_cross_entropy(x.sigmoid(), wave({5}, 1).abs()) +
              torch::binary_cross_entropy_with_logits(x, wave({5}, 1).abs());
     }},
    {"ctc_loss",
     {6, 3, 4},
     [](auto& x) {
       const Tensor labels = classes({1, 2, 2, 2, 3, 0}).view({3, 2});
       return torch::ctc_loss(x.log_softmax(2), labels, at::IntArrayRef{6, 5, 4}, at::IntArrayRef{2, 2, 1}, 0,
                              at::Reduction::None) +
              torch::ctc_loss(x.log_softmax(2), labels, at::IntArrayRef{6, 1, 4}, at::IntArrayRef{2, 2, 0}, 0,
                              at::Reduction::Sum, true);
     }},
    {"kl_div", {2, 3}, [](auto& x) { return torch::kl_div(x, wave({2, 3}, 1).abs() + 0.1, at::Reduction::Sum); }},
    {"poisson, gaussian",
     {5},
     [](auto& x) { return torch::poisson_nll_loss(x, wave({5}, 1).abs(), true, false, 1e-8, at::Reduction::Mean); }},
    {"cosine, triplet, margin",
     {2, 3},
     [](auto& x) {
       return torch::cosine_similarity(x, wave({2, 3}, 1), 1).sum() +
              torch::triplet_margin_loss(x, wave({2, 3}, 1), wave({2, 3}, 4)) +
              torch::soft_margin_loss(x, wave({2, 3}, 2).sign());
     }},
};

// The inputs are parameters, since gradients are carried over for those.
struct Inputs : torch::nn::Module {
  Tensors x;
  /// All from one seed; the entry of each that has it is shifted.
  explicit Inputs(int64_t entry = 0, double by = 0) {
    torch::manual_seed(5);
    for (const Function& f : kFunctions) {
      const Tensor t = torch::randn(f.shape, at::kDouble);
      if (entry < t.numel()) t.view(-1)[entry] += by;
      x.push_back(register_parameter("x" + std::to_string(x.size()), t));
    }
  }
};

Tensors losses(Inputs& inputs) {
  Tensors all;
  Tensor total;
  for (size_t i = 0; i < inputs.x.size(); ++i) {
    const Tensor y = kFunctions[i].of(inputs.x[i]);
    const Tensor loss = (y * wave(y.sizes(), 0.3)).sum();
    total = total.defined() ? total + loss : loss;
    all.push_back(loss.detach());
  }
  total.backward();
  return all;
}

}  // namespace

TEST_CASE("gradients are the slopes of the artifact's own values") {
  Inputs recorded, here, eager;
  const auto f = precast::load_from_memory<Tensors(Inputs&)>(precast::precompile({}, losses, recorded));
  f(here);
  losses(eager);

  constexpr double kStep = 1e-5;
  int64_t most = 0;
  for (const Tensor& x : here.x) most = std::max(most, x.numel());
  for (int64_t entry = 0; entry < most; ++entry) {
    Inputs up(entry, kStep), down(entry, -kStep);
    const Tensors above = f(up), below = f(down);
    for (size_t i = 0; i < here.x.size(); ++i) {
      if (entry >= here.x[i].numel()) continue;
      INFO(std::string(kFunctions[i].name), ", entry ", entry);
      const double slope = (above[i] - below[i]).item<double>() / (2 * kStep);
      const double gradient = here.x[i].grad().view(-1)[entry].item<double>();
      CHECK(gradient == doctest::Approx(slope).epsilon(1e-6).scale(1));
      CHECK(gradient == doctest::Approx(eager.x[i].grad().view(-1)[entry].item<double>()).epsilon(1e-9));
    }
  }
}
