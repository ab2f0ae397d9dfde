// Issue 3, "Bad input": each kind is refused by name, with expected and found, before anything runs; nothing is
// half-written and nothing half-changed.
#include <sys/resource.h>
#include <torch/script.h>

#include <csignal>
#include <fstream>

#include "api/agree.h"
#include "util/warn.h"

using namespace precast;
using namespace precast::testing;

namespace nn = torch::nn;
using torch::randn;

namespace {

/// Has parameters, buffers and an index, and leaves its marks on all of them.
struct NetImpl : nn::Module {
  nn::Linear fc{nullptr};
  nn::BatchNorm1d norm{nullptr};
  Tensor second;
  explicit NetImpl(int64_t inner = 4, bool reversed = false, bool tied = false, const char* name = "second") {
    const auto add_norm = [&] { norm = register_module("norm", nn::BatchNorm1d(4)); };
    if (reversed) add_norm();
    fc = register_module("fc", nn::Linear(inner, 4));
    if (!reversed) add_norm();
    second = register_parameter(name, tied ? fc->bias : randn({4}));
  }
};
TORCH_MODULE(Net);

Program net() {
  return with<Net>(
      "net", [] { return Net(); }, [] { return Tensors{randn({3, 4}), torch::zeros({2})}; },
      [](NetImpl& m, const Tensors& x) {
        x[1].add_(1);
        m.zero_grad();
        Tensor y = m.norm(m.fc(x[0])) * m.second;
        y.sum().backward();
        return Tensors{y.detach()};
      });
}

World world(Net m, Tensor x = randn({3, 4}), Tensor y = torch::zeros({2})) {
  if (!m.is_empty())
    for (auto& p : m->parameters()) p.mutable_grad() = torch::randn_like(p);
  return {m.ptr(), {x, y}};
}

}  // namespace

TEST_CASE("bad input: an argument of another count, dtype, device, shape, stride, kind") {
  for (const char* backend : {"eager", "inductor"}) {
    const auto message = [&](Tensor x) { return call_refused(net(), backend, [&] { return world(Net(), x); }); };
    contains(message(randn({4, 3})), "argument 1[0]: expected shape [3, 4], found [4, 3]");
    contains(message(randn({3, 4, 1})), "argument 1[0]: expected shape [3, 4], found [3, 4, 1]");
    contains(message(randn({3, 4}, torch::kDouble)), "argument 1[0]: expected dtype float32, found float64");
    contains(message(torch::empty({3, 4}, torch::kMeta)), "argument 1[0]: expected device cpu, found meta");
    contains(message(randn({3, 4}).to_sparse()), "argument 1[0]: expected a dense strided tensor");
    contains(message(torch::_efficientzerotensor({3, 4}, torch::kFloat)),
             "argument 1[0]: expected a dense strided tensor");
    contains(message(Tensor()), "argument 1[0]: expected a tensor, found None");
    contains(call_refused(net(), backend,
                          [] {
                            World w = world(Net());
                            w.in.push_back(w.in[0]);
                            return w;
                          }),
             "argument 1[1]: expected no more items, found another item");
    if (std::string(backend) == "inductor")
      contains(message(randn({4, 3}).t()), "argument 1[0]: expected strides [4, 1], found [1, 3]");
    contains(call_refused(net(), backend,
                          [] {
                            World w = world(Net());
                            w.in[1] = w.in[0].view({-1}).narrow(0, 2, 2);
                            return w;
                          }),
             "argument 1[1] and argument 1[0]: expected separate memory, as at capture, found that they overlap");
  }
}

TEST_CASE("bad input: a model with other names, order, tying, shapes, dtype") {
  for (const char* backend : {"eager", "inductor"}) {
    const auto message = [&](Net m) { return call_refused(net(), backend, [&] { return world(m); }); };
    contains(message(Net(5)), "parameter 'fc.weight': expected shape [4, 4], found [4, 5]");
    contains(message(Net(4, true)),
             "lists its parameters in another order: expected 'fc.weight' at position 1, found 'norm.weight'");
    contains(message(Net(4, false, true)),
             "parameter 'second' and 'fc.bias': expected two tensors, as at capture, found one");
    contains(message(Net(4, false, false, "third")), "has no parameter 'second', which the captured model has");
    Net doubled;
    doubled->to(torch::kDouble);
    contains(message(doubled), "parameter 'second': expected dtype float32, found float64");
    Net extra;
    extra->register_buffer("more", torch::zeros({1}));
    contains(message(extra), "has a buffer 'more', which the captured model has not");
  }
}

TEST_CASE("bad input: a gradient that the call could not change") {
  const Program p = with<Net>(
      "accumulates", [] { return Net(); }, [] { return Tensors{randn({3, 4}), torch::zeros({2})}; },
      [](NetImpl& m, const Tensors& x) {
        x[1].add_(1);
        (m.norm(m.fc(x[0])) * m.second).sum().backward();
        return Tensors{};
      });
  const auto message = [&](std::function<void(World&)> change) {
    return call_refused(p, "eager", [&] {
      World w = world(Net());
      change(w);
      return w;
    });
  };
  const auto second = [](World& w) -> Tensor& { return w.as<NetImpl>().second.mutable_grad(); };
  contains(message([&](World& w) { second(w) = torch::ones({1}).expand({4}); }),
           "the gradient of parameter 'second': expected a tensor that can be written, found one whose elements share "
           "memory");
  contains(message([&](World& w) {
             w.in[1] = torch::zeros({4}).narrow(0, 0, 2);
             second(w) = w.in[1].as_strided({4}, {1}, 0);
           }),
           "the gradient of parameter 'second': expected memory of its own, found that of argument 1[1]");
  contains(message([&](World& w) { second(w) = torch::zeros({5}); }),
           "the gradient of parameter 'second': expected f32[4] as the parameter is, found");
  // The same at capture.
  Program shared = p;
  shared.make = [] {
    World w = world(Net());
    w.as<NetImpl>().second.mutable_grad() = torch::zeros({4});
    w.in[1] = w.as<NetImpl>().second.grad().narrow(0, 0, 2);
    return w;
  };
  contains(refused(shared), "the gradient of parameter 'second' shares memory with argument 1[1]");
}

TEST_CASE("bad input: an optimizer whose state lives outside is refused by its name") {
  nn::Linear net(4, 2);
  const Tensor x = randn({3, 4});
  const auto step_of = [](torch::optim::Optimizer& optimizer) {
    return [&optimizer](nn::LinearImpl& m, const Tensor& t) {
      optimizer.zero_grad();
      m.forward(t).square().mean().backward();
      optimizer.step();
    };
  };
  torch::optim::Adam adam(net->parameters(), 0.1);
  torch::optim::SGD momentum(net->parameters(), torch::optim::SGDOptions(0.1).momentum(0.9)),
      sgd(net->parameters(), 0.1);
  const auto refused = [&](torch::optim::Optimizer& o) {
    const Tensor before = net->weight.detach().clone();
    const std::string message = message_of([&] { precompile(LowerOptions{.isa = {"baseline"}}, step_of(o), *net, x); });
    CHECK(net->weight.equal(before));
    return message;
  };
  contains(refused(adam), "an optimizer (Adam's moments, momentum)");  // its first step makes them
  for (auto* o : {static_cast<torch::optim::Optimizer*>(&adam), static_cast<torch::optim::Optimizer*>(&momentum)})
    step_of (*o)(*net, x);
  contains(refused(adam), "uses state of torch::optim::Adam (moments, momentum, a count of steps)");
  contains(refused(momentum), "uses state of torch::optim::SGD (");
  const auto f = load_from_memory<void(nn::LinearImpl&, Tensor)>(
      precompile(LowerOptions{.isa = {"baseline"}}, step_of(sgd), *net, x));
  const Tensor before = net->weight.detach().clone();
  f(*net, x);
  CHECK(at::allclose(net->weight, before - 0.1 * net->weight.grad()));
}

TEST_CASE("bad input: a closed-over tensor, a literal, state kept, and what they had changed is put back") {
  const Tensor hidden = randn({4});
  Tensor kept;
  const auto program = [](std::function<Tensor(NetImpl&, const Tensor&)> last) {
    Program p = net();
    const auto fn = p.fn;
    p.fn = [fn, last](nn::Module& m, const Tensors& x) {
      Tensors y = fn(m, x);
      y.push_back(last(static_cast<NetImpl&>(m), x[0]));
      return y;
    };
    p.make = [] { return world(Net()); };
    return p;
  };
  contains(refused(program([&](auto&, auto& x) { return x * hidden; })),
           "aten::mul.Tensor uses a tensor, f32[4], that is neither an argument, nor a parameter or buffer");
  contains(refused(program([&](auto&, auto&) { return hidden; })),
           "result 1 uses a tensor, f32[4], that is neither an argument");
  contains(refused(program([&](auto&, auto& x) { return x * torch::tensor(std::vector<float>{1, 2, 3, 4}); })),
           "aten::mul.Tensor reads f32[4], a tensor literal");
  contains(refused(program([&](auto&, auto& x) { return kept = x * 2, x + 1; })),
           "aten::mul.Scalar, f32[3,4], is still held after the call");
  contains(refused(program([&](auto& m, auto& x) { return m.register_buffer("new", x * 1) + 1; })),
           "buffer 'new' was added inside");
  contains(refused(program([&](auto& m, auto& x) {
             m.to(torch::kDouble);
             return x + 1;
           })),
           "parameter 'second' was given other memory");
  contains(refused(program([&](auto& m, auto& x) {
             m.second.requires_grad_(false);
             return x + 1;
           })),
           "parameter 'second' changed its requires_grad");
}

TEST_CASE("bad input: a loaded artifact called inside fn") {
  const auto plus = [](Tensor x) { return x + 1; };
  const auto f = load_from_memory<Tensor(Tensor)>(precompile({.backend = "eager"}, plus, randn({3})));
  contains(message_of([&] { precompile({.backend = "eager"}, [&](Tensor x) { return f(x) * 2; }, randn({3})); }),
           "a loaded artifact was called inside a function that is being recorded");
  CHECK(torch::equal(f(torch::zeros({3})), torch::ones({3})));  // and works again outside
}

TEST_CASE("bad input: an attribute that a TorchScript call reassigns") {
  const auto make = [] {
    torch::jit::Module m("m");
    m.register_buffer("count", torch::zeros({1}));
    m.register_attribute("plain", at::TensorType::get(), torch::ones({1}));
    m.register_attribute("number", at::IntType::get(), 3);
    m.register_attribute("list", at::ListType::create(at::TensorType::get()),
                         c10::IValue(c10::List<Tensor>({torch::ones({2})})));
    m.define(R"(
      def tensor(self, x):
        self.count = self.count + x
        return x * self.count
      def attribute(self, x):
        self.plain = x * 2
        return x + 1
      def scalar(self, x):
        self.number = self.number + 1
        return x * self.number
      def append(self, x):
        self.list.append(x * 3)
        return x + self.list[0].sum()
      def replace(self, x):
        self.list[0] = x * 3
        return x + 1
    )");
    return m;
  };
  const std::pair<const char*, const char*> cases[] = {{"tensor", "buffer 'count' was bound to another tensor"},
                                                       {"attribute", "buffer 'plain' was bound to another tensor"},
                                                       {"scalar", "attribute 'number' was changed from 3 to 4"},
                                                       {"append", "buffer 'list.1' was added"},
                                                       {"replace", "buffer 'list.0' was bound to another tensor"}};
  for (const auto& [method, message] : cases) {
    INFO(method);
    torch::jit::Module m = make();
    const Tensor count = m.attr("count").toTensor(), plain = m.attr("plain").toTensor();
    const c10::IValue list = m.attr("list");
    contains(message_of([&] {
               precompile(
                   {.backend = "eager"},
                   [&, name = method](torch::jit::Module& module, Tensor x) {
                     return module.get_method(name)({x}).toTensor();
                   },
                   m, torch::ones({1}));
             }),
             message);
    CHECK(m.attr("count").toTensor().is_same(count));
    CHECK(count.item<float>() == 0);
    CHECK(m.attr("plain").toTensor().is_same(plain));
    CHECK(m.attr("number").toInt() == 3);
    CHECK(m.attr("list").is(list));
    REQUIRE(list.toListRef().size() == 1);
    CHECK(torch::equal(list.toListRef()[0].toTensor(), torch::ones({2})));
  }
}

TEST_CASE("bad input: tensors of an unusual kind, as arguments and inside") {
  const auto refuse = [](Tensor x) {
    return message_of([&] { precompile({.backend = "eager"}, [](Tensor t) { return t + 1; }, x); });
  };
  contains(refuse(torch::eye(3).to_sparse()), "argument 0 is a tensor of layout Sparse");
  contains(refuse(torch::quantize_per_tensor(randn({3}), 0.1, 0, torch::kQInt8)), "argument 0 is a quantized tensor");
  contains(refuse(torch::empty({3}, torch::kMeta)), "argument 0 is a tensor on device meta");
  contains(refuse(randn({3, 3}).to_mkldnn()), "argument 0 is a tensor of layout Mkldnn");
  contains(refuse(at::_nested_tensor_from_tensor_list({randn({2}), randn({3})})), "argument 0 is a nested tensor");
  contains(refuse(torch::_efficientzerotensor({3}, torch::kFloat)), "argument 0 is a tensor of zeros without memory");
  nn::Embedding sparse(nn::EmbeddingOptions(5, 3).sparse(true));
  contains(message_of([&] {
             precompile(
                 {.backend = "eager"}, [](nn::Embedding& e, Tensor i) { e(i).sum().backward(); }, sparse,
                 torch::tensor({1, 2}));
           }),
           "makes a tensor of layout Sparse");
  sparse->weight.mutable_grad() = torch::zeros({5, 3}).to_sparse();
  contains(message_of([&] {
             precompile(
                 {.backend = "eager"}, [](nn::Embedding& e, Tensor i) { return e(i); }, sparse, torch::tensor({1, 2}));
           }),
           "the gradient of parameter 'weight' is a tensor of layout Sparse");
}

TEST_CASE("bad input: a call that fails halfway leaves everything as it was") {
  struct LookupImpl : nn::Module {
    nn::BatchNorm1d norm = register_module("norm", nn::BatchNorm1d(4));
    nn::Embedding table = register_module("table", nn::Embedding(5, 4));
  };
  const auto make = [] {
    auto m = std::make_shared<LookupImpl>();
    return World{m, {randn({3, 4}), torch::tensor({0, 1})}};
  };
  const Program p{"lookup", make, [](nn::Module& module, const Tensors& x) {
                    auto& m = static_cast<LookupImpl&>(module);
                    x[0].add_(1);
                    m.norm(x[0]);
                    m.table(x[1]).sum().backward();
                    return Tensors{m.table(x[1]) * 2};
                  }};
  for (const char* backend : {"eager", "inductor"}) {
    World w = p.make(), bad = p.make();
    bad.in[1] = torch::tensor({0, 9});
    const auto f = load_from_memory<Tensors(nn::Module&, Tensors)>(
        precompile(LowerOptions{.backend = backend, .isa = {"baseline"}}, p.fn, *w.module, w.in));
    const Tensor x = bad.in[0].clone();
    auto& m = bad.as<LookupImpl>();
    CHECK_THROWS(f(*bad.module, bad.in));
    CHECK(torch::equal(bad.in[0], x));
    CHECK(torch::equal(m.norm->running_mean, torch::zeros({4})));
    CHECK(m.norm->num_batches_tracked.item<int64_t>() == 0);
    CHECK_FALSE(m.table->weight.grad().defined());
  }
}

TEST_CASE("bad input: files that are missing, foreign, damaged, swapped") {
  Folder folder;
  const auto plus = [](Tensor x) { return x + 1; };
  for (const char* name : {"a", "b"})
    capture(plus, folder.pair(name), {.backend = "inductor", .isa = {"baseline"}},
            [&](auto& cap) { cap(randn({name[0] - 'a' + 2})); });
  capture(plus, folder.pair("c"), {.backend = "eager"}, [&](auto& cap) { cap(randn({2})); });
  const auto pair = [&](const char* code, const char* cache) {
    return PairPaths{folder.pair(code).artifact_path, folder.pair(cache).cache_path};
  };
  const auto message = [&](PairPaths paths) { return message_of([&] { load(paths); }); };
  contains(message(pair("nothing", "a")),
           "cannot read the artifact " + folder.pair("nothing").artifact_path.string() + ": No such file");
  contains(message(pair("a", "nothing")),
           "cannot read the cache " + folder.pair("nothing").cache_path.string() + ": No such file");
  contains(message(pair("a", "b")), "does not belong to this artifact: code_hash: expected");
  contains(message(pair("a", "c")), "does not belong to this artifact: backend: expected 'inductor', found 'eager'");
  std::ofstream(folder.pair("text").artifact_path) << "int main() {}\n";
  contains(message(pair("text", "a")), "text.cpp");

  struct Damage {
    std::string bytes;
    const char* message;
  };
  std::stringstream whole;
  whole << std::ifstream(folder.pair("a").cache_path).rdbuf();
  std::string flipped = whole.str(), version = whole.str();
  flipped[flipped.size() / 2] = static_cast<char>(flipped[flipped.size() / 2] ^ 1);
  version[16] = 99;
  const Damage damages[] = {
      {flipped, "checksum: expected the SHA-256 of the content, found another one"},
      {whole.str().substr(0, 500), "checksum: expected"},
      {version, "version: expected 1, found 99"},
      {"something else", "format: expected a file that begins with \"precast cache\", found something else"},
      {"", "format: expected a file that begins with \"precast cache\", found an empty file"}};
  for (const Damage& d : damages) {
    std::ofstream(folder.pair("a").cache_path) << d.bytes;
    std::vector<std::string> warnings;
    const WarningSink before = set_warning_sink([&](std::string_view m) {
      if (!m.starts_with("loading ")) warnings.emplace_back(m);  // said at each load
    });
    const auto f = load<Tensor(Tensor)>(folder.pair("a"));
    set_warning_sink(before);
    REQUIRE(warnings.size() == 1);
    contains(warnings[0], folder.pair("a").cache_path.string() + " is not used (" + d.message);
    contains(warnings[0], "the artifact is compiled from its text");
    CHECK(torch::equal(f(torch::zeros({2})), torch::ones({2})));
  }
}

TEST_CASE("child: full disk" * doctest::skip()) {
  std::signal(SIGXFSZ, SIG_IGN);  // a limit on file size stands for the full disk
  const PairPaths pair{child_folder() / "m.cpp", child_folder() / "m.cache"};
  for (const char* backend : {"eager", "inductor"}) {
    auto cap = capture([](Tensor x) { return x * 3; }, pair, {.backend = backend, .isa = {"baseline"}});
    cap(randn({2}));
    rlimit limit{};
    getrlimit(RLIMIT_FSIZE, &limit);
    const rlimit small{1000, limit.rlim_max};
    if (std::string(backend) == "inductor") cap.summary();
    setrlimit(RLIMIT_FSIZE, &small);
    const std::string message = message_of([&] { cap.finish(); });
    setrlimit(RLIMIT_FSIZE, &limit);
    if (std::string(backend) == "eager")
      contains(message, "cannot write the artifact " + pair.artifact_path.string() + ": ");
    contains(message_of([&] { cap.save(); }), "spent");
  }
  // a device instead of a file, and a folder that is none
  auto cap = capture([](Tensor x) { return x * 3; }, {"/dev/full", child_folder() / "m.cache"}, {.backend = "eager"});
  cap(randn({2}));
  contains(message_of([&] { cap.finish(); }),
           "cannot write the artifact /dev/full: there is something that is not a regular file");
}

TEST_CASE("bad input: a full disk leaves the old pair and nothing else") {
  Folder folder;
  capture([](Tensor x) { return x + 1; }, folder.pair(), {.backend = "eager"}, [&](auto& cap) { cap(randn({2})); });
  run_in_fresh_process("child: full disk", folder.path);
  size_t files = 0;
  for (const auto& entry : std::filesystem::directory_iterator(folder.path))
    files += entry.path().extension() != ".log";
  CHECK(files == 2);
  CHECK(torch::equal(load<Tensor(Tensor)>(folder.pair())(torch::zeros({2})), torch::ones({2})));
}

TEST_CASE("child: no compiler" * doctest::skip()) {
  const PairPaths pair{child_folder() / "m.cpp", child_folder() / "m.cache"};
  std::vector<std::string> warnings;
  const WarningSink before = set_warning_sink([&](std::string_view m) {
    if (!m.starts_with("loading ")) warnings.emplace_back(m);  // said at each load
  });
  const auto f = load<Tensors(nn::Module&, Tensors)>(pair);
  set_warning_sink(before);
  torch::manual_seed(7);
  const Program p = net();
  World w = p.make(), again{nullptr, {}};
  torch::manual_seed(7);
  again = p.make();
  const Tensor y = f(*w.module, w.in)[0], expected = p.fn(*again.module, again.in)[0];
  CHECK(torch::equal(y, expected));
  CHECK(torch::equal(w.in[1], torch::ones({2})));
  CHECK(torch::equal(w.as<NetImpl>().norm->running_var, again.as<NetImpl>().norm->running_var));
  CHECK(torch::equal(w.as<NetImpl>().second.grad(), again.as<NetImpl>().second.grad()));
  CHECK(f.backend() == "inductor");
  REQUIRE(warnings.size() == 1);
  contains(warnings[0],
           "m.cache is not used (format: expected a file that begins with \"precast cache\", found something else)");
  contains(warnings[0], "no C++ compiler was found");
  contains(warnings[0], "the recorded graph is run op by op instead, which is right but slower");
}

TEST_CASE("bad input: no compiler and no usable cache: a warning, and the graph is run") {
  Folder folder;
  World w = net().make();
  capture(net().fn, folder.pair(), {.backend = "inductor", .isa = {"baseline"}},
          [&](auto& cap) { cap(*w.module, w.in); });
  std::ofstream(folder.pair().cache_path) << "something else";
  run_in_fresh_process("child: no compiler", folder.path, 1, "/nonexistent");
}
