// Open sizes where the recording has to tell a size from what is in the example: found by random programs (tests/fuzz).
#include <doctest/doctest.h>
#include <precast/precast.h>
#include <torch/torch.h>

#include "api/agree.h"

using namespace precast;
using namespace precast::testing;
namespace nn = torch::nn;

TEST_CASE("open sizes: a list that is written is no other tensor's business") {
  const Tensor x = torch::randn({4}), a = torch::randn({6}), b = torch::randn({6}), before = a.clone();
  mark_unbacked(x, 0);
  const auto fn = [](const Tensor& t, const Tensor& u, const Tensor& v) {
    at::_foreach_add_(at::TensorList(u), at::TensorList(v));
    return t * 2;
  };
  const auto f = load_from_memory<Tensor(Tensor, Tensor, Tensor)>(precompile(LowerOptions{}, fn, x, a, b));
  CHECK(a.equal(before + b));
  const Tensor y = torch::randn({7}), c = torch::randn({6}), expected = c + b;
  CHECK(f(y, c, b).equal(y * 2));
  CHECK(c.equal(expected));
}

TEST_CASE("open sizes: indices of the example bound no size") {
  const Tensor table = torch::randn({6, 3}), at = torch::tensor({0, 5, 2}, torch::kLong);
  mark_unbacked(table, 0);
  const auto fn = [](const Tensor& t, const Tensor& i) { return t.index_select(0, i) * 2; };
  const auto f = load_from_memory<Tensor(Tensor, Tensor)>(precompile(LowerOptions{}, fn, table, at));
  for (const int64_t n : {1, 2, 9}) {
    const Tensor rows = torch::randn({n, 3}), i = torch::tensor({n - 1, int64_t{0}, n / 2}, torch::kLong);
    CHECK(f(rows, i).equal(fn(rows, i)));
    CHECK_THROWS(f(rows, torch::tensor({n, int64_t{0}, int64_t{0}}, torch::kLong)));
  }
  contains(message_of([&] { f(torch::randn({0, 3}), at); }), "expected a size of at least 1");
}

TEST_CASE("open sizes: attention where queries and keys are open apart") {
  const auto fn = [](const Tensor& q, const Tensor& k) { return at::scaled_dot_product_attention(q, k, k); };
  const Tensor q = torch::randn({1, 2, 5, 8}), k = torch::randn({1, 2, 7, 8});
  mark_unbacked(q, 2), mark_unbacked(k, 2);
  const auto f = load_from_memory<Tensor(Tensor, Tensor)>(precompile(LowerOptions{}, fn, q, k));
  for (const auto& [n, m] : {std::pair{5, 7}, {1, 1}, {3, 40}, {33, 2}, {0, 4}}) {
    const Tensor a = torch::randn({1, 2, n, 8}), b = torch::randn({1, 2, m, 8});
    CHECK(at::allclose(f(a, b), fn(a, b), 1e-4, 1e-5));
  }
  contains(message_of([&] { f(q, torch::randn({1, 2, 0, 8})); }), "expected a size of at least 1");
}

// Gradients included; the mask is of [queries, keys], of [batch, 1, 1, keys], or none. With a mask, eager asks for 1.
TEST_CASE("open sizes: attention whose batch and lengths are open") {
  enum Mask { none, scores, keys };
  struct Form {
    at::ScalarType dtype;
    bool causal;
    Mask mask;
    double relative, absolute;
  };
  for (const Form& form : {Form{at::kFloat, false, none, 1e-4, 1e-5},
                           {at::kFloat, true, none, 1e-4, 1e-5},
                           {at::kDouble, false, scores, 1e-10, 1e-11},
                           {at::kFloat, false, keys, 1e-4, 1e-5},
                           {at::kBFloat16, true, none, 5e-2, 3e-2}}) {
    const auto fn = [&](const Tensors& x) {
      Tensors leaves, results;
      for (size_t i = 0; i < 3; ++i) leaves.push_back(x[i].detach().requires_grad_());
      const std::optional<Tensor> mask = x.size() > 3 ? std::optional(x[3]) : std::nullopt;
      const Tensor y = at::scaled_dot_product_attention(leaves[0], leaves[1], leaves[2], mask, 0.0, form.causal);
      results = torch::autograd::grad({y}, leaves, {x[0] * 2});
      results.push_back(y.detach());
      return results;
    };
    const auto inputs = [&](int64_t b, int64_t n, int64_t m) {
      Tensors x = {torch::randn({b, 2, n, 16}), torch::randn({b, 2, m, 16}), torch::randn({b, 2, m, 16})};
      if (form.mask == scores) x.push_back(torch::randn({n, m}));
      if (form.mask == keys) x.push_back(torch::randn({b, 1, 1, m}));
      for (Tensor& t : x) t = t.to(form.dtype);
      return x;
    };
    const Tensors example = inputs(3, 5, 7);
    const auto mark = [&](size_t i, int64_t dim, const char* name) {
      mark_unbacked(example[i], dim, {.shape_id = name, .min = form.mask == none ? std::nullopt : std::optional(2)});
    };
    for (size_t i = 0; i < 3; ++i) mark(i, 0, "batch"), mark(i, 2, i == 0 ? "queries" : "keys");
    if (form.mask == scores) mark(3, 0, "queries"), mark(3, 1, "keys");
    if (form.mask == keys) mark(3, 0, "batch"), mark(3, 3, "keys");
    const Pair pair = precompile(LowerOptions{}, fn, example);
    contains(pair.code, "\"HOST_OPS\": []");
    const auto f = load_from_memory<Tensors(Tensors)>(pair);
    const int64_t sizes[][3] = {{3, 5, 7},   {2, 2, 33}, {2, 300, 33}, {2, 7, 300}, {1, 1, 1},
                                {2, 1, 300}, {1, 33, 2}, {0, 3, 4},    {2, 0, 4}};
    for (const auto& [b, n, m] : sizes) {
      if (form.mask != none && std::min({b, n, m}) < 2) continue;
      const Tensors x = inputs(b, n, m), eager = fn(x), artifact = f(x);
      for (size_t i = 0; i < eager.size(); ++i)
        CHECK_MESSAGE(at::allclose(artifact[i], eager[i], form.relative, form.absolute),
                      i << " of " << at::toString(form.dtype) << " at " << b << ", " << n << ", " << m);
    }
  }
}

TEST_CASE("open sizes: the median of nothing") {
  for (const at::ScalarType dtype : {at::kFloat, at::kHalf, at::kDouble}) {
    const Tensor x = torch::randn({4, 3}).to(dtype);
    mark_unbacked(x, 0);
    const auto fn = [](const Tensor& t) { return Tensors{t.median(), t.nanmedian(), t * 2}; };
    const auto f = load_from_memory<Tensors(Tensor)>(precompile(LowerOptions{}, fn, x));
    for (const int64_t n : {0, 1, 2, 7}) {
      const Tensor y = torch::randn({n, 3}).to(dtype);
      const Tensors eager = fn(y), artifact = f(y);
      for (size_t i = 0; i < eager.size(); ++i) CHECK(at::allclose(artifact[i], eager[i], 0, 0, true));
    }
  }
}

// LibTorch's gradient of a convolution may hand out what was not asked for, at some sizes.
TEST_CASE("open sizes: a convolution of which only the bias is trained") {
  nn::Conv2d net(nn::Conv2dOptions(4, 2, {3, 2}).stride({2, 1}).padding({0, 2}));
  net->weight.set_requires_grad(false);
  const auto fn = [](nn::Conv2dImpl& m, const Tensor& x) {
    const Tensor y = m.forward(x).sum();
    y.backward();
    return y.detach();
  };
  const auto input = [](int64_t n) { return at::arange(n * 204, at::kFloat).remainder(7).reshape({n, 4, 3, 17}); };
  const Tensor x = input(3);
  mark_unbacked(x, 0);
  const auto f = load_from_memory<Tensor(nn::Conv2dImpl&, Tensor)>(precompile(LowerOptions{}, fn, *net, x));
  for (const int64_t n : {0, 1, 2, 5}) {
    net->zero_grad();
    const Tensor expected = fn(*net, input(n)), gradient = net->bias.grad().clone();
    net->zero_grad();
    CHECK(close(f(*net, input(n)), expected));
    CHECK(close(net->bias.grad(), gradient));
  }
}

TEST_CASE("open sizes: a window of nothing lies anywhere") {
  const Tensor x = torch::randn({4, 2, 4});
  mark_unbacked(x, 0);
  const auto fn = [](const Tensor& t) { return Tensors{t.mT().slice(2, -1, -2) * 2, t * 2}; };
  const auto f = load_from_memory<Tensors(Tensor)>(precompile(LowerOptions{}, fn, x));
  for (const int64_t n : {0, 1, 7}) {
    const Tensor y = torch::randn({n, 2, 4});
    const Tensors eager = fn(y), artifact = f(y);
    CHECK(artifact[0].sizes() == eager[0].sizes());
    CHECK(artifact[1].equal(eager[1]));
  }
}

// What is the same at all sizes that a recording tries, and not beyond them, is refused there or here.
TEST_CASE("open sizes: thresholds far from the example") {
  using Fn = std::function<Tensors(const Tensor&)>;
  const std::vector<std::pair<const char*, Fn>> functions = {
      {"diagonal", [](const Tensor& t) { return Tensors{t.diagonal() * 2}; }},
      {"trace", [](const Tensor& t) { return Tensors{t.trace()}; }},
      {"tril", [](const Tensor& t) { return Tensors{t.tril(), t.triu(-30)}; }},
      {"slice", [](const Tensor& t) { return Tensors{t.slice(0, 0, 30) * 2}; }},
      {"slice from the end", [](const Tensor& t) { return Tensors{t.slice(0, -30) * 2}; }},
      {"chunk", [](const Tensor& t) { return Tensors{t.chunk(3, 0)[0] * 2, t.chunk(2, 0)[1] * 2}; }},
      {"split", [](const Tensor& t) { return Tensors{t.split(30, 0)[0] * 2}; }},
      {"tensor_split", [](const Tensor& t) { return Tensors{t.tensor_split(3, 0)[1] * 2}; }},
      {"tensor_split at places", [](const Tensor& t) { return Tensors{t.tensor_split({2, 30}, 0)[1] * 2}; }},
      {"unfold", [](const Tensor& t) { return Tensors{t.unfold(0, 3, 2) * 2, t.roll(35, 0) * 2}; }},
      {"cdist", [](const Tensor& t) { return Tensors{torch::cdist(t, t)}; }},
      {"pad", [](const Tensor& t) { return Tensors{torch::constant_pad_nd(t, {0, 0, -2, 3})}; }},
  };
  for (const auto& [name, fn] : functions) {
    const Tensor x = torch::randn({4, 40});
    mark_unbacked(x, 0);
    Pair pair;
    try {
      pair = precompile(LowerOptions{.isa = {"baseline"}}, fn, x);
    } catch (const PrecompileError& e) {
      contains(e.what(), "mark");
      continue;
    }
    const auto f = load_from_memory<Tensors(Tensor)>(pair);
    for (const int64_t n : {3, 4, 29, 30, 31, 39, 40, 41, 100}) {
      const Tensor y = torch::randn({n, 40});
      const Tensors eager = fn(y);
      Tensors artifact;
      try {
        artifact = f(y);
      } catch (const PrecompileError&) {
        continue;
      }
      for (size_t i = 0; i < eager.size(); ++i)
        CHECK_MESSAGE((eager[i].sizes() == artifact[i].sizes() && close(eager[i], artifact[i])), name << " at " << n);
    }
  }
}
