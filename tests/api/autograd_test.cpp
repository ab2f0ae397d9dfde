// Gradients, modes, hooks, random numbers and optimizers inside fn, through the public interface.
#include <ATen/autocast_mode.h>

#include "api/agree.h"

using namespace precast::testing;

namespace nn = torch::nn;
namespace optim = torch::optim;
using torch::randn;
using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

namespace {

struct NetImpl : nn::Module {
  nn::Linear a{nullptr}, b{nullptr};
  NetImpl() {
    a = register_module("a", nn::Linear(6, 8));
    b = register_module("b", nn::Linear(8, 3));
  }
  Tensor forward(const Tensor& x) { return b(torch::tanh(a(x))); }
};
TORCH_MODULE(Net);

Tensors data() { return {randn({4, 6}), randn({4, 3})}; }

Program net(std::string name, std::function<Tensors(NetImpl&, const Tensors&)> fn) {
  return with<Net>(std::move(name), [] { return Net(); }, data, std::move(fn));
}
/// The same with a gradient there before the call, laid out by `layout`.
Program net_with_grads(std::string name, std::function<Tensor(const Tensor&)> layout,
                       std::function<Tensors(NetImpl&, const Tensors&)> fn) {
  Program p = net(std::move(name), std::move(fn));
  p.make = [make = p.make, layout] {
    World w = make();
    for (auto& q : w.module->parameters()) q.mutable_grad() = layout(torch::randn_like(q));
    return w;
  };
  return p;
}

Program in_halves(Program p) {
  p.halves = true;
  return p;
}

Tensor loss_of(NetImpl& m, const Tensors& x) { return torch::mse_loss(m.forward(x[0]), x[1]); }

struct Cube : torch::autograd::Function<Cube> {
  static Tensor forward(AutogradContext* ctx, const Tensor& x) {
    ctx->save_for_backward({x});
    return x * x * x;
  }
  static variable_list backward(AutogradContext* ctx, variable_list g) {
    const Tensor x = ctx->get_saved_variables()[0];
    return {g[0] * 3 * x * x};
  }
};

/// Recomputes the first layer in the backward, as checkpointing does.
struct Checkpoint : torch::autograd::Function<Checkpoint> {
  static Tensor forward(AutogradContext* ctx, const Tensor& x, const Tensor& w, const Tensor& b) {
    ctx->save_for_backward({x, w, b});
    at::NoGradGuard no_grad;
    return torch::tanh(torch::linear(x, w, b));
  }
  static variable_list backward(AutogradContext* ctx, variable_list g) {
    variable_list saved = ctx->get_saved_variables(), inputs;
    for (auto& s : saved) inputs.push_back(s.detach().requires_grad_());
    at::AutoGradMode on(true);
    Tensor y = torch::tanh(torch::linear(inputs[0], inputs[1], inputs[2]));
    return torch::autograd::grad({y}, inputs, {g[0]});
  }
};

}  // namespace

TEST_CASE("autograd inside fn") {
  agree_all({
      net("backward",
          [](auto& m, auto& x) {
            Tensor l = loss_of(m, x);
            l.backward();
            return Tensors{l.detach()};
          }),
      net("a loss that keeps its graph", [](auto& m, auto& x) { return Tensors{loss_of(m, x)}; }),
      net("zero_grad, backward",
          [](auto& m, auto& x) {
            m.zero_grad();
            loss_of(m, x).backward();
            return Tensors{};
          }),
      net("zero_grad to zeros, backward",
          [](auto& m, auto& x) {
            m.zero_grad(false);
            loss_of(m, x).backward();
            return Tensors{};
          }),
      net("backward twice",
          [](auto& m, auto& x) {
            Tensor l = loss_of(m, x);
            l.backward({}, true);
            l.backward();
            return Tensors{};
          }),
      net("double backward",
          [](auto& m, auto& x) {
            auto g = torch::autograd::grad({loss_of(m, x)}, m.parameters(), {}, true, true);
            Tensor penalty = torch::zeros({});
            for (auto& one : g) penalty = penalty + one.pow(2).sum();
            penalty.backward();
            return Tensors{penalty.detach(), g[0].detach()};
          }),
      net("gradient of an input",
          [](auto& m, auto& x) {
            Tensor h = x[0].detach().clone().requires_grad_();
            return Tensors{torch::autograd::grad({m.forward(h).sum()}, {h})[0]};
          }),
      net("gradient of a view of an input",
          [](auto& m, auto& x) {
            Tensor h = x[0].detach().requires_grad_();
            return Tensors{torch::autograd::grad({m.forward(h).sum()}, {h})[0], h.detach()};
          }),
      net("custom function",
          [](auto& m, auto& x) {
            Cube::apply(m.forward(x[0])).sum().backward();
            return Tensors{};
          }),
      net("recomputation in the backward",
          [](auto& m, auto& x) {
            Tensor h = Checkpoint::apply(x[0], m.a->weight, m.a->bias);
            torch::mse_loss(m.b(h), x[1]).backward();
            return Tensors{h.detach()};
          }),
      net("hooks and retain_grad",
          [](auto& m, auto& x) {
            Tensor h = torch::tanh(m.a(x[0]));
            h.register_hook([](Tensor g) { return g * 2; });
            h.retain_grad();
            auto handle = m.b->weight.register_hook([](Tensor g) { return g.clamp(-0.1, 0.1); });
            torch::mse_loss(m.b(h), x[1]).backward();
            m.b->weight.remove_hook(handle);
            return Tensors{h.grad() + 0, h.grad()};
          }),
      net("no_grad block",
          [](auto& m, auto& x) {
            Tensor y;
            {
              at::NoGradGuard no_grad;
              y = m.a(x[0]);
            }
            m.b(torch::tanh(y)).sum().backward();
            return Tensors{y};
          }),
      net("inference mode",
          [](auto& m, auto& x) {
            c10::InferenceMode guard;
            return Tensors{m.forward(x[0]), torch::softmax(x[0], 1)};
          }),
      net("inference mode, then gradients",
          [](auto& m, auto& x) {
            Tensor y;
            {
              c10::InferenceMode guard;
              y = torch::sigmoid(x[0]);
            }
            m.forward(y.clone()).sum().backward();
            return Tensors{y};
          }),
      in_halves(net("autocast",
                    [](auto& m, auto& x) {
                      at::autocast::set_autocast_enabled(at::kCPU, true);
                      at::autocast::set_autocast_dtype(at::kCPU, at::kBFloat16);
                      at::autocast::increment_nesting();
                      Tensor y = m.forward(x[0]);
                      if (at::autocast::decrement_nesting() == 0) at::autocast::clear_cache();
                      at::autocast::set_autocast_enabled(at::kCPU, false);
                      y.to(torch::kFloat).sum().backward();
                      return Tensors{y.detach()};
                    })),
      net("set_data on a local, resize_, set_",
          [](auto& m, auto& x) {
            Tensor y = x[0] * 1, z = torch::empty({0});
            z.set_(y);
            z.add_(1);
            Tensor g = x[1] * 2;
            g.resize_({2, 3});
            y.set_data(y * 2);
            return Tensors{z, g, y, m.forward(y).detach()};
          }),
      net("clipping by value",
          [](auto& m, auto& x) {
            m.zero_grad();
            loss_of(m, x).backward();
            nn::utils::clip_grad_value_(m.parameters(), 0.05);
            return Tensors{};
          }),
      net("the norm of gradients",
          [](auto& m, auto& x) {
            m.zero_grad();
            loss_of(m, x).backward();
            at::NoGradGuard no_grad;
            Tensor total = torch::zeros({});
            for (auto& p : m.parameters()) total = total + p.grad().pow(2).sum();
            total = total.sqrt();
            for (auto& p : m.parameters()) p.mutable_grad().mul_(torch::clamp(0.1 / (total + 1e-6), {}, 1.0));
            return Tensors{total};
          }),
      net("parameters frozen inside",
          [](auto& m, auto& x) {
            torch::linear(torch::tanh(m.a(x[0])), m.b->weight.detach(), m.b->bias).sum().backward();
            return Tensors{};
          }),
      with<Net>(
          "frozen parameters",
          [] {
            Net m;
            m->a->weight.requires_grad_(false);
            return m;
          },
          data,
          [](auto& m, auto& x) {
            loss_of(m, x).backward();
            return Tensors{};
          }),
      net("gradient of only one layer",
          [](auto& m, auto& x) {
            m.a(x[0]).sum().backward();
            return Tensors{};
          }),
      net("assigned gradients of another layout",
          [](auto& m, auto& x) {
            auto g = torch::autograd::grad({loss_of(m, x)}, m.parameters());
            for (size_t i = 0; i < g.size(); ++i)
              m.parameters()[i].mutable_grad() = g[i].dim() == 2 ? g[i].t().contiguous().t() : g[i] * 2;
            return Tensors{};
          }),
      net("cleared gradients",
          [](auto& m, auto& x) {
            loss_of(m, x).backward();
            m.zero_grad();
            return Tensors{};
          }),
      net("inputs that require grad", [](auto& m, auto& x) { return Tensors{m.forward(x[0] * 2)}; }),
  });
}

TEST_CASE("gradients there before the call") {
  const auto plain = [](const Tensor& g) { return g; };
  const auto transposed = [](const Tensor& g) { return g.dim() == 2 ? g.t().contiguous().t() : g; };
  const auto strided = [](const Tensor& g) {
    auto sizes = g.sizes().vec();
    sizes.back() *= 2;
    Tensor wide = torch::zeros(sizes);
    Tensor part = wide.slice(-1, 0, sizes.back(), 2);
    part.copy_(g);
    return part;
  };
  const auto expanded = [](const Tensor& g) { return torch::ones({1}).expand(g.sizes()); };
  const std::vector<std::pair<std::string, std::function<Tensors(NetImpl&, const Tensors&)>>> fns = {
      {"backward",
       [](auto& m, auto& x) {
         loss_of(m, x).backward();
         return Tensors{};
       }},
      {"zero_grad, backward",
       [](auto& m, auto& x) {
         m.zero_grad();
         loss_of(m, x).backward();
         return Tensors{};
       }},
      {"zero_grad to zeros, backward",
       [](auto& m, auto& x) {
         m.zero_grad(false);
         loss_of(m, x).backward();
         return Tensors{};
       }},
      {"backward, zero_grad",
       [](auto& m, auto& x) {
         loss_of(m, x).backward();
         m.zero_grad();
         return Tensors{};
       }},
      {"create_graph",
       [](auto& m, auto& x) {
         loss_of(m, x).backward({}, true, true);
         return Tensors{};
       }},
      {"none", [](auto& m, auto& x) { return Tensors{m.forward(x[0])}; }},
      {"zero_grad to zeros",
       [](auto& m, auto&) {
         m.zero_grad(false);
         return Tensors{};
       }},
      {"zero_grad to zeros, twice",
       [](auto& m, auto&) {
         m.zero_grad(false);
         m.zero_grad(false);
         return Tensors{};
       }},
      {"zero_grad",
       [](auto& m, auto&) {
         m.zero_grad();
         return Tensors{};
       }},
      {"one layer only",
       [](auto& m, auto& x) {
         m.a(x[0]).sum().backward();
         return Tensors{};
       }},
      {"zero_grad, one layer only",
       [](auto& m, auto& x) {
         m.zero_grad(false);
         m.a(x[0]).sum().backward();
         return Tensors{};
       }},
      {"zero_grad to zeros, backward, scaled",
       [](auto& m, auto& x) {
         m.zero_grad(false);
         loss_of(m, x).backward();
         at::NoGradGuard no_grad;
         for (auto& p : m.parameters()) p.mutable_grad().mul_(0.5);
         return Tensors{};
       }},
  };
  for (const auto& [name, fn] : fns) {
    const std::vector<std::pair<std::string, std::function<Tensor(const Tensor&)>>> layouts = {
        {"plain", plain}, {"transposed", transposed}, {"strided", strided}, {"expanded", expanded}};
    const Program without = net(name + ", no gradients", fn);
    for (const auto& [layout, make] : layouts) {
      const bool written =
          name != "none" && name != "zero_grad" && name != "zero_grad, backward" && name != "create_graph";
      if (layout == "expanded" && written) continue;  // eager refuses it
      Program with_grads = net_with_grads(name + ", " + layout + " gradients", make, fn);
      with_grads.kernels = false;  // gradients are delivered by the host
      agree(with_grads);
      if (layout != "plain") continue;
      Program to = without, from = with_grads;
      to.name += ", then with", to.other_make = with_grads.make, to.kernels = false;
      from.name += ", then without", from.other_make = without.make;
      agree_all({to, from});
    }
  }
}

// The gradient of sgn is zeros without memory, and what is added to them asks the meta device for a shape.
TEST_CASE("gradients that are zeros without memory") {
  agree(net("sgn", [](NetImpl& m, const Tensors& x) {
    const Tensor w = m.b->weight;
    ((w.sgn() + w).sum() + w.round().square().sum() + loss_of(m, x)).backward();
    return Tensors{w.sgn()};
  }));
}

TEST_CASE("optimizers inside fn") {
  const auto with_optimizer = [](auto make) {
    return [make](NetImpl& m, const Tensors& x) {
      auto optimizer = make(m.parameters());
      optimizer.zero_grad();
      Tensor loss = loss_of(m, x);
      loss.backward();
      optimizer.step();
      return Tensors{loss.detach()};
    };
  };
  agree_all({
      net("sgd", with_optimizer([](auto p) { return optim::SGD(p, optim::SGDOptions(0.1)); })),
      net("sgd with momentum", with_optimizer([](auto p) {
            return optim::SGD(p, optim::SGDOptions(0.1).momentum(0.9).nesterov(true).weight_decay(0.1));
          })),
      net("adam", with_optimizer([](auto p) { return optim::Adam(p, optim::AdamOptions(0.1).amsgrad(true)); })),
      net("adamw", with_optimizer([](auto p) { return optim::AdamW(p, optim::AdamWOptions(0.1)); })),
      net("rmsprop", with_optimizer([](auto p) { return optim::RMSprop(p, optim::RMSpropOptions(0.1)); })),
      net("adagrad", with_optimizer([](auto p) { return optim::Adagrad(p, optim::AdagradOptions(0.1)); })),
  });
}

TEST_CASE("random numbers are LibTorch's own, in program order") {
  const auto in = [] { return Tensors{randn({8}), randn({4, 6})}; };
  agree_all({
      on("all kinds", in,
         [](auto& x) {
           return Tensors{torch::rand({3}),
                          torch::randn({17}, torch::kDouble),
                          torch::randint(10, {4}),
                          torch::randperm(5),
                          torch::bernoulli(torch::full({4}, 0.5)),
                          torch::rand_like(x[0]) * x[0],
                          torch::multinomial(torch::ones({4}), 2),
                          torch::empty({3}).uniform_(),
                          torch::normal(0.0, 1.0, {3})};
         }),
      on("dropout", in,
         [](auto& x) {
           return Tensors{torch::dropout(x[0], 0.5, true), torch::dropout(x[0], 0.5, false),
                          torch::feature_dropout(x[1].unsqueeze(0), 0.5, true)};
         }),
      on("unused draws count", in,
         [](auto& x) {
           (void)torch::rand({3});
           return Tensors{x[0] + 1, torch::rand({2})};
         }),
      on("in place", in,
         [](auto& x) {
           x[0].normal_();
           x[1].narrow(0, 1, 2).bernoulli_(0.3);
           return Tensors{};
         }),
      net("dropout with its backward",
          [](auto& m, auto& x) {
            m.b(torch::dropout(torch::tanh(m.a(x[0])), 0.4, true)).sum().backward();
            return Tensors{};
          }),
  });
}
