// What cannot be recorded is refused by a message that names it, and leaves nothing changed.
#include <ATen/Parallel.h>
#include <doctest/doctest.h>

#include <future>
#include <thread>

#include "harness.h"

namespace precast::trace::testing {

namespace {

struct NetImpl : torch::nn::Module {
  torch::nn::Linear fc{nullptr};
  Tensor plain, kept;
  NetImpl() {
    fc = register_module("fc", torch::nn::Linear(3, 2));
    kept = register_buffer("kept", torch::randn({3}));
    plain = torch::randn({3});
  }
};
TORCH_MODULE(Net);

struct Refusal {
  std::string name;
  std::function<Tensors(Net&, const Tensors&)> fn;
  std::vector<std::string> message;  // parts of it
};

Program program(const Refusal& r) {
  return on_module<Net>(
      r.name, [] { return Net(); }, [] { return Tensors{torch::randn({3}), torch::randn({3}).requires_grad_()}; },
      r.fn);
}

std::vector<Tensor> leaked;
const Tensor global = torch::ones({3});

}  // namespace

TEST_CASE("refusals") {
  const std::vector<Refusal> table = {
      {"closed over",
       [](auto&, auto& x) { return Tensors{x[0].detach() * global}; },
       {"aten::mul.Tensor uses a tensor, f32[3]", "closed over", "pass it as an argument"}},
      {"plain attribute",
       [](auto& m, auto& x) { return Tensors{x[0] + m->plain}; },
       {"aten::add.Tensor", "register_buffer"}},
      {"closed-over 0-dim",
       [t = torch::tensor(3.0)](auto&, auto& x) { return Tensors{x[0] + t}; },
       {"aten::add.Tensor", "f32[]"}},
      {"closed over and written",
       [](auto&, auto& x) {
         leaked.assign(1, torch::zeros({3}));
         Tensor t = global;
         t.add_(x[0]);
         return Tensors{};
       },
       {"aten::add_.Tensor", "closed over"}},
      {"closed over and returned", [](auto&, auto&) { return Tensors{global}; }, {"result 0", "closed over"}},
      {"literal from a vector",
       [](auto&, auto& x) { return Tensors{x[0] * torch::tensor(std::vector<float>{1, 2, 3})}; },
       {"aten::mul.Tensor reads f32[3]", "tensor literal", "pass it as an argument"}},
      {"empty, read",
       [](auto&, auto& x) { return Tensors{x[0] + torch::empty({3})}; },
       {"aten::add.Tensor", "no recorded operation wrote it"}},
      {"partly written",
       [](auto&, auto& x) {
         Tensor y = torch::empty({3});
         y[0] = 1;
         return Tensors{x[0] + y};
       },
       {"wrote only a part"}},
      {"a copy of what is partly written",
       [](auto&, auto& x) {
         Tensor y = torch::empty({3}), z = torch::zeros({3});
         y[0] = 1;
         z.copy_(y);
         return Tensors{x[0] + z};
       },
       {"aten::add.Tensor", "wrote only a part"}},
      {"literal returned",
       [](auto&, auto&) { return Tensors{torch::tensor(std::vector<float>{1, 2})}; },
       {"result 0", "tensor literal"}},
      {"from_blob",
       [](auto&, auto& x) {
         static float values[3] = {1, 2, 3};
         return Tensors{x[0] + torch::from_blob(values, {3})};
       },
       {"aten::add.Tensor", "closed over"}},
      {"escapes",
       [](auto&, auto& x) {
         leaked.assign(1, x[0] * 2);
         return Tensors{x[0] + 1};
       },
       {"aten::mul", "still held after the call", "f32[3]"}},
      {"escapes beside a live graph",
       [](auto& m, auto& x) {
         leaked.assign(1, torch::relu(x[0]).detach());
         return Tensors{m->fc(x[0])};
       },
       {"aten::relu", "still held after the call"}},
      {"raw read",
       [](auto&, auto& x) {
         Tensor y = x[0] * 2;
         return Tensors{x[0] * y.template data_ptr<float>()[0]};
       },
       {"aten::mul", "read or written directly", ".item()"}},
      {"raw write",
       [](auto&, auto& x) {
         Tensor y = x[0].detach() * 2;
         y.template accessor<float, 1>()[0] = 5;
         return Tensors{y};
       },
       {"aten::mul", "read or written directly"}},
      {"raw write to an input",
       [](auto&, auto& x) {
         Tensor y = x[0] * 2;
         x[0].template data_ptr<float>()[0] += 0;  // the address is taken: harmless
         return Tensors{y, torch::from_blob(x[0].data_ptr(), {3}) + 1};
       },
       {"closed over"}},
      {"manual_seed inside",
       [](auto&, auto& x) {
         torch::manual_seed(3);
         return Tensors{x[0] + torch::rand({3})};
       },
       {"random number generator", "manual_seed outside"}},
      {"manual_seed inside with the seed in use",
       [](auto&, auto& x) {
         torch::manual_seed(77);
         return Tensors{x[0] + torch::rand({3})};
       },
       {"random number generator", "manual_seed outside"}},
      {"manual_seed inside at the end",
       [](auto&, auto& x) {
         torch::manual_seed(77);
         return Tensors{x[0] + 1};
       },
       {"random number generator", "at the end"}},
      {"own generator",
       [](auto&, auto& x) {
         auto g = at::make_generator<at::CPUGeneratorImpl>(3);
         return Tensors{x[0] + torch::rand({3}, g)};
       },
       {"generator of its own"}},
      {"set_ on an argument",
       [](auto&, auto& x) {
         Tensor t = x[0];
         t.set_(torch::zeros({3}));
         return Tensors{};
       },
       {"argument 0", "other memory"}},
      {"set_data on a parameter",
       [](auto& m, auto& x) {
         m->fc->bias.set_data(torch::zeros({2}));
         return Tensors{m->fc(x[0])};
       },
       {"parameter 'fc.bias'", "other memory"}},
      {"resize_ on an argument",
       [](auto&, auto& x) {
         Tensor t = x[0];
         t.resize_({8});
         return Tensors{};
       },
       {"aten::resize_", "argument 0"}},
      {"unsqueeze_ on an argument",
       [](auto&, auto& x) {
         Tensor t = x[0];
         t.unsqueeze_(0);
         return Tensors{};
       },
       {"argument 0", "changed its shape"}},
      {"requires_grad_ on a buffer",
       [](auto& m, auto&) {
         m->kept.requires_grad_();
         return Tensors{};
       },
       {"buffer 'kept'", "requires_grad"}},
      {"argument gets a gradient",
       [](auto& m, auto& x) {
         m->fc(x[1]).sum().backward();
         return Tensors{};
       },
       {"argument 1", "received a gradient", "autograd::grad"}},
      {"reads the gradient it accumulated",
       [](auto& m, auto& x) {
         m->fc(x[0]).sum().backward();
         return Tensors{m->fc->bias.grad() * 2};
       },
       {"the gradient of parameter 'fc.bias'", "zero_grad()"}},
      {"reads a gradient that it has only zeroed",
       [](auto& m, auto&) {
         m->zero_grad(false);
         at::NoGradGuard no_grad;
         for (const Tensor& p : m->parameters()) p.sub_(p.grad() + 0.1 * p);
         return Tensors{};
       },
       {"the gradient of parameter 'fc.weight'", "filled with zeros", "zero_grad()"}},
      {"returns a gradient that it has only zeroed",
       [](auto& m, auto&) {
         m->zero_grad(false);
         return Tensors{m->fc->bias.grad()};
       },
       {"the gradient of parameter 'fc.bias'", "filled with zeros", "zero_grad()"}},
      {"scales a gradient that it has only zeroed",
       [](auto& m, auto&) {
         m->zero_grad(false);
         m->fc->bias.mutable_grad().mul_(2);
         return Tensors{};
       },
       {"the gradient of parameter 'fc.bias'", "filled with zeros", "zero_grad()"}},
      {"adds to a gradient by hand",
       [](auto& m, auto&) {
         for (const Tensor& p : m->parameters())
           if (p.grad().defined()) p.mutable_grad().add_(p.detach());
         return Tensors{};
       },
       {"the gradient of parameter 'fc.weight'", "zero_grad()"}},
      {"sparse",
       [](auto&, auto& x) {
         return Tensors{
             torch::sparse_coo_tensor(torch::tensor({{0, 1}}), x[0].detach().narrow(0, 0, 2), {3}).to_dense()};
       },
       {"Sparse"}},
      {"meta", [](auto&, auto& x) { return Tensors{x[0] + 0, torch::empty({3}, torch::kMeta) + 1}; }, {"device meta"}},
      {"quantized",
       [](auto&, auto& x) {
         return Tensors{torch::quantize_per_tensor(x[0].detach(), 0.1, 0, torch::kQInt8).dequantize()};
       },
       {"quantized"}},
      {"outside of what was passed", [](auto&, auto& x) { return Tensors{x[0].as_strided({5}, {0}, 2)}; }, {}},
      {"nested recording",
       [](auto&, auto& x) {
         trace::record({}, [] { return std::vector<Leaf>{}; });
         return Tensors{x[0]};
       },
       {"recorded in this thread already"}},
  };
  const char* only = getenv("PROGRAM");
  for (const Refusal& r : table) {
    if (only && r.name.find(only) == std::string::npos) continue;
    CAPTURE(r.name);
    leaked.clear();
    const std::string message = refusal(program(r));
    if (!r.message.empty()) CHECK_MESSAGE(!message.empty(), r.name << " was not refused");
    for (const std::string& part : r.message)
      CHECK_MESSAGE(message.find(part) != message.npos, r.name << ": '" << part << "' is not in: " << message);
  }
}

TEST_CASE("memory outside of a passed window") {
  Program p{"window", [] { return State{{torch::randn({10}).narrow(0, 2, 4)}, {}, {}}; },
            [](State& s) { return Tensors{s.inputs[0].as_strided({6}, {1}, 2) + 1}; }};
  CHECK(refusal(p).find("outside of the memory that was passed as argument 0") != std::string::npos);
}

TEST_CASE("views made before the call") {
  Tensor held;  // what fn closes over
  using Fn = std::function<Tensors(State&)>;
  const auto holding = [&](const std::function<Tensor(State&)>& view, const Fn& fn) {
    held = Tensor();
    return Program{"view",
                   [&held, view] {
                     State s{{torch::randn({4, 3})}, torch::nn::Linear(4, 3).ptr(), {}};
                     if (!held.defined()) held = view(s);  // of the state that is recorded
                     return s;
                   },
                   fn};
  };
  const auto row = [](State& s) { return s.inputs[0][1]; };
  const auto turned = [](State& s) { return s.module->parameters()[0].detach().t(); };
  const auto use = [&](State& s) { return Tensors{s.inputs[0] + held.sum()}; };
  const std::string said = "that was made before the call and is closed over";
  CHECK(refusal(holding(row, use)).find("aten::sum uses f32[3], a view of the memory of argument 0 " + said) !=
        std::string::npos);
  CHECK(refusal(holding(turned, use)).find("a view of the memory of parameter 'weight' " + said) != std::string::npos);
  // A view of it, a result that is it, what writes to it without a read.
  CHECK(refusal(holding(row, [&](State& s) { return Tensors{s.inputs[0] + held.view({3, 1}).sum()}; })).find(said) !=
        std::string::npos);
  CHECK(refusal(holding(row, [&](State& s) { return Tensors{s.inputs[0] + 1, held}; })).find(said) !=
        std::string::npos);
  CHECK(refusal(holding(row, [&](State& s) {
          held.zero_();
          return Tensors{s.inputs[0] + 1};
        })).find(said) != std::string::npos);
  // The argument itself, and views that ops of the call make, in place or not.
  CHECK(refusal(holding([](State& s) { return s.inputs[0]; }, use)).empty());
  CHECK(refusal(holding(row, [](State& s) {
          Tensor v = s.inputs[0][2], t = s.module->parameters()[0].detach();
          t.t_();
          return Tensors{v.view({3, 1}) + 1, t.matmul(v.unsqueeze(1)), v};
        })).empty());
}

TEST_CASE("two storages over one memory") {
  static float memory[6] = {};
  Program p{"overlap", [] { return State{{torch::from_blob(memory, {4}), torch::from_blob(memory + 2, {4})}, {}, {}}; },
            [](State& s) { return Tensors{s.inputs[0] + s.inputs[1]}; }};
  CHECK(refusal(p).find("argument 0 and argument 1 are different storages over the same memory") != std::string::npos);
}

TEST_CASE("inputs can be sealed too") {
  Program p{"sealed", [] { return State{{torch::randn({3})}, {}, {}}; },
            [](State& s) { return Tensors{s.inputs[0] * s.inputs[0].data_ptr<float>()[0]}; }};
  CHECK(refusal(p, {.verify = true, .seal_inputs = true}).find("read or written directly") != std::string::npos);
}

TEST_CASE("a raw write to an input is found by verification") {
  Program p{"raw", [] { return State{{torch::randn({3})}, {}, {}}; },
            [](State& s) {
              Tensor y = s.inputs[0] * 2;
              s.inputs[0].data_ptr<float>()[0] = 5;
              return Tensors{y};
            }};
  State s = state_from(p, 1);
  try {
    record(p, s);
    FAIL("not refused");
  } catch (const PrecompileError& e) {
    CHECK(std::string(e.what()).find("argument 0 was written through a raw pointer") != std::string::npos);
  }
}

TEST_CASE("a value read from an input by pointer shows when it does not survive a replay") {
  // Written by an op, then read raw: the replay sees the old value in the graph's constant.
  Program p{"raw", [] { return State{{torch::zeros({3})}, {}, {}}; },
            [](State& s) {
              static int calls = 0;
              return Tensors{s.inputs[0] + torch::full({1}, 1) * at::native::wrapped_scalar_tensor(++calls)};
            }};
  CHECK(refusal(p) == "");  // a number that changes from call to call is fn's own affair: it is baked
}

TEST_CASE("ops in a thread that does not record") {
  Program p{"thread", [] { return State{{torch::randn({3})}, {}, {}}; },
            [](State& s) {
              Tensor y = s.inputs[0] * 2;
              std::thread([&] { y.add_(1); }).join();
              return Tensors{y + 1};
            }};
  CHECK(refusal(p).find("in a thread that does not record") != std::string::npos);
}

TEST_CASE("at::launch carries the recording along") {
  Program p{"launch", [] { return State{{torch::randn({3})}, {}, {}}; },
            [](State& s) {
              Tensor y;
              std::promise<void> done;
              at::launch([&] {
                y = s.inputs[0] * 2;
                done.set_value();
              });
              done.get_future().wait();
              return Tensors{y + 1};
            }};
  check(p);
}

TEST_CASE("an exception of fn passes through, and its effects stand") {
  const auto fn = [](Net& m, const Tensors& x) -> Tensors {
    torch::NoGradGuard no_grad;
    m->kept.add_(1);
    {
      torch::AutoGradMode on(true);
      m->fc(x[0]).sum().backward();
    }
    throw std::runtime_error("fn's own");
  };
  Program p = program({"throws", fn, {}});
  State s = state_from(p, 1), eager = state_from(p, 1);
  CHECK_THROWS_WITH_AS(record(p, s), "fn's own", std::runtime_error);
  CHECK_THROWS(p.fn(eager));
  auto& a = s.as<Net>();
  auto& b = eager.as<Net>();
  CHECK(torch::equal(a->kept, b->kept));
  CHECK(torch::equal(a->fc->weight.grad(), b->fc->weight.grad()));
  Tensor after = a->kept * 2;  // nothing is sealed, no mode is left on
  CHECK(after.data_ptr<float>()[0] == a->kept.data_ptr<float>()[0] * 2);
}

TEST_CASE("a refusal that fn swallows still stands") {
  Program p{"swallow", [] { return State{{torch::randn({3})}, {}, {}}; },
            [](State& s) {
              try {
                (void)(s.inputs[0] + global);
              } catch (const std::exception&) {
              }
              s.inputs[0].add_(1);
              return Tensors{s.inputs[0] * 2};
            }};
  CHECK(refusal(p).find("closed over") != std::string::npos);
}

TEST_CASE("an op that fails inside fn and is caught there") {
  check({"caught", [] { return State{{torch::randn({3})}, {}, {}}; },
         [](State& s) {
           try {
             (void)s.inputs[0].view({2, 2});
           } catch (const c10::Error&) {
           }
           return Tensors{s.inputs[0] * 2};
         }});
}

}  // namespace precast::trace::testing
