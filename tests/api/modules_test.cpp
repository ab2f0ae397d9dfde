// Models of every build: tied, shared, nested, odd in layout, trained, frozen.
#include "api/agree.h"

using namespace precast;
using namespace precast::testing;

namespace nn = torch::nn;
using torch::randn;

namespace {

Tensors rows() { return {randn({4, 6})}; }

struct NestImpl : nn::Module {
  nn::Sequential seq{nullptr};
  nn::ModuleList list;
  nn::ModuleDict dict;
  nn::ParameterList params;
  nn::ParameterDict named;
  NestImpl() {
    seq = register_module("seq", nn::Sequential(nn::Linear(6, 5), nn::Functional(torch::relu), nn::Dropout(0.2)));
    list = register_module("list", nn::ModuleList(nn::Linear(5, 5), nn::LayerNorm(nn::LayerNormOptions({5}))));
    dict = register_module("dict", nn::ModuleDict());
    dict->update({{"b", nn::Linear(5, 5).ptr()}, {"c", nn::BatchNorm1d(5).ptr()}});
    params = register_module("params", nn::ParameterList());
    params->append(randn({5}));
    named = register_module("named", nn::ParameterDict());
    named->insert("scale", randn({5}));
  }
  Tensor forward(Tensor x) {
    x = seq->forward(x);
    for (auto& m : *list)
      x = m->as<nn::Linear>() ? m->as<nn::Linear>()->forward(x) : m->as<nn::LayerNorm>()->forward(x);
    x = dict["c"]->as<nn::BatchNorm1d>()->forward(x);
    return x * params[0] + named["scale"];
  }
};
TORCH_MODULE(Nest);

struct SharedImpl : nn::Module {
  nn::Linear one{nullptr}, other{nullptr};
  Tensor w, same, b;
  SharedImpl() {
    one = register_module("one", nn::Linear(6, 6));
    other = register_module("other", one);  // the same module under two names
    w = register_parameter("w", randn({6, 6}));
    same = register_parameter("same", w);  // the same tensor under two names
    b = register_buffer("b", w);           // and as a buffer
  }
  Tensor forward(const Tensor& x) { return torch::mm(other->forward(one->forward(x)), w) + same.sum() + b[0]; }
};
TORCH_MODULE(Shared);

struct OddImpl : nn::Module {
  Tensor t, strided, expanded, flat, part, view_of_part, no_grad, empty, scalar, undefined, complex, half;
  OddImpl() {
    t = register_parameter("t", randn({6, 4}).t());
    strided = register_parameter("strided", randn({4, 12}).slice(1, 0, 12, 2));
    flat = randn({20});
    part = register_parameter("part", flat.narrow(0, 0, 12).view({2, 6}));
    view_of_part = register_parameter("other", flat.narrow(0, 12, 6));
    expanded = register_buffer("expanded", randn({1, 6}).expand({4, 6}));
    no_grad = register_parameter("no_grad", randn({6}), false);
    empty = register_parameter("empty", torch::zeros({0, 3}));
    scalar = register_parameter("scalar", randn({}));
    undefined = register_parameter("undefined", Tensor(), false);
    register_buffer("undefined_buffer", Tensor());
    half = register_buffer("half", randn({6}).to(torch::kBFloat16));
  }
  Tensor forward(const Tensor& x) {
    return x * strided + torch::mm(x, t.t()).mm(t) + part.sum(0) * view_of_part + expanded * no_grad + empty.sum() +
           scalar + half.to(torch::kFloat);
  }
};
TORCH_MODULE(Odd);

struct StatefulImpl : nn::Module {
  nn::BatchNorm2d norm{nullptr};
  nn::Conv2d conv{nullptr};
  Tensor calls;
  StatefulImpl() {
    conv = register_module("conv", nn::Conv2d(nn::Conv2dOptions(2, 3, 3).padding(1)));
    norm = register_module("norm", nn::BatchNorm2d(3));
    calls = register_buffer("calls", torch::zeros({}, torch::kLong));
  }
  Tensor forward(const Tensor& x) {
    calls.add_(1);
    return norm->forward(conv->forward(x)) * calls;
  }
};
TORCH_MODULE(Stateful);

const auto forward = [](auto& m, auto& x) { return Tensors{m.forward(x[0])}; };
const auto train = [](auto& m, auto& x) {
  Tensor y = m.forward(x[0]);
  y.pow(2).mean().backward();
  return Tensors{y.detach()};
};

template <class Holder>
void both(const std::string& name, std::function<Holder()> make, std::function<Tensors()> in) {
  using M = typename Holder::ContainedType;
  agree(with<Holder>(name + ", inference", make, in, [](M& m, const Tensors& x) { return forward(m, x); }));
  agree(with<Holder>(name + ", training", make, in, [](M& m, const Tensors& x) { return train(m, x); }));
}

struct EmbeddedImpl : nn::Module {
  nn::Embedding embed{nullptr};
  Tensor weight;
  EmbeddedImpl() {
    embed = register_module("embed", nn::Embedding(10, 6));
    weight = register_parameter("head", embed->weight);
  }
  Tensor forward(const Tensor& i) { return torch::linear(embed->forward(i), weight); }
};
TORCH_MODULE(Embedded);

}  // namespace

TEST_CASE("modules of every build") {
  both<Nest>("nested containers", [] { return Nest(); }, rows);
  both<Shared>("shared modules and tensors", [] { return Shared(); }, rows);
  both<Embedded>("tied embedding", [] { return Embedded(); }, [] { return Tensors{torch::randint(10, {4})}; });
  both<Odd>("odd parameters", [] { return Odd(); }, rows);
  both<Stateful>("statistics and counters", [] { return Stateful(); }, [] { return Tensors{randn({2, 2, 4, 4})}; });
  both<Stateful>(
      "channels_last",
      [] {
        Stateful m;
        m->conv->weight.set_data(m->conv->weight.contiguous(torch::MemoryFormat::ChannelsLast));
        return m;
      },
      [] { return Tensors{randn({2, 2, 4, 4}).contiguous(torch::MemoryFormat::ChannelsLast)}; });
  both<Stateful>(
      "evaluation",
      [] {
        Stateful m;
        m->eval();
        return m;
      },
      [] { return Tensors{randn({2, 2, 4, 4})}; });
  both<Stateful>(
      "double",
      [] {
        Stateful m;
        m->to(torch::kDouble);
        return m;
      },
      [] { return Tensors{randn({2, 2, 4, 4}, torch::kDouble)}; });
  agree(with<nn::LSTM>(
      "a recurrent network with dropout", [] { return nn::LSTM(nn::LSTMOptions(6, 5).num_layers(2).dropout(0.3)); },
      [] { return Tensors{randn({4, 3, 6}), randn({2, 3, 5}), randn({2, 3, 5})}; },
      [](nn::LSTMImpl& m, const Tensors& x) {
        auto [y, state] = m.forward(x[0], std::tuple(x[1], x[2]));
        y.sum().backward();
        return Tensors{y.detach(), std::get<0>(state).detach(), std::get<1>(state)};
      }));
  agree(with<nn::Linear>(
      "a parameter that is an argument too", [] { return nn::Linear(6, 3); }, rows,
      [](nn::LinearImpl& m, const Tensors& x) { return Tensors{torch::linear(x[0], m.weight * 2)}; }));
}

TEST_CASE("modules: tying across several of them is refused with their prefixes") {
  struct Scale : nn::Module {
    Tensor w;
    explicit Scale(const Tensor& t) : w(register_parameter("w", t)) {}
  };
  const Tensor shared = randn({3});
  Scale a(shared), tied(shared), b(randn({3}));
  const auto fn = [](Scale& m, Scale& n, const Tensor& t) { return t * m.w * n.w; };
  const Tensor x = randn({2, 3});
  const auto load = [](const Pair& p) { return load_from_memory<Tensor(Scale&, Scale&, Tensor)>(p); };
  const auto apart = load(precompile(LowerOptions{.isa = {"baseline"}}, fn, a, b, x));
  const auto together = load(precompile(LowerOptions{.isa = {"baseline"}}, fn, a, tied, x));
  contains(message_of([&] { apart(a, tied, x); }),
           "parameter 'm0.w' and 'm1.w': expected two tensors, as at capture, found one shared by both");
  contains(message_of([&] { together(a, b, x); }),
           "parameter 'm0.w' and 'm1.w': expected one shared tensor, as at capture, found two");
}
