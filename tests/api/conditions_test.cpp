// What a call specializes on is checked at every call: numbers, values read on the host, layouts, attributes.
#include <torch/script.h>

#include <cmath>

#include "api/agree.h"
#include "util/warn.h"

using namespace precast;
using namespace precast::testing;

namespace nn = torch::nn;
using torch::randn;

namespace {

constexpr const char* kBackends[] = {"eager", "inductor"};
LowerOptions with(const char* backend) { return {.backend = backend, .isa = {"baseline"}}; }

/// Calls f: "" when it worked, else the message of its PrecompileError.
template <class F>
std::string outcome(F&& f) {
  try {
    f();
  } catch (const PrecompileError& e) {
    return e.what();
  }
  return {};
}

/// Warnings while it lives.
struct Warnings {
  std::vector<std::string> all;
  WarningSink before = set_warning_sink([this](std::string_view m) {
    if (!m.starts_with("loading ")) all.emplace_back(m);  // said at each load
  });
  ~Warnings() { set_warning_sink(before); }
};

}  // namespace

TEST_CASE("conditions: numbers in lists, in structure and kind") {
  const auto fn = [](Tensor x, std::vector<int64_t> shape, std::vector<bool> flags, std::vector<double> scales,
                     std::vector<std::string> names) {
    Tensor y = x.reshape(shape) * scales[1];
    return flags[0] && names[0] == "a" ? y : -y;
  };
  const Tensor x = randn({6});
  using Ints = std::vector<int64_t>;
  for (const char* backend : kBackends) {
    const auto f =
        load_from_memory<Tensor(Tensor, Ints, std::vector<bool>, std::vector<double>, std::vector<std::string>)>(
            precompile(with(backend), fn, x, Ints{2, 3}, std::vector<bool>{true, false}, std::vector<double>{1, 2},
                       std::vector<std::string>{"a", "b\n'\"\xff"}));
    const auto call = [&](Ints shape, std::vector<bool> flags, std::vector<double> scales,
                          std::vector<std::string> names) {
      return outcome([&] {
        const Tensor y = f(x, shape, flags, scales, names);
        CHECK(torch::equal(y, fn(x, {2, 3}, {true}, {1, 2}, {"a"})));
      });
    };
    CHECK(call({2, 3}, {true, false}, {1, 2}, {"a", "b\n'\"\xff"}) == "");
    contains(call({3, 2}, {true, false}, {1, 2}, {"a", "b\n'\"\xff"}),
             "argument 1[0]: expected the int 2, found the int 3");
    contains(call({2, 3}, {true, true}, {1, 2}, {"a", "b\n'\"\xff"}),
             "argument 2[1]: expected the bool false, found the bool true");
    contains(call({2, 3}, {true, false}, {1, 2.5}, {"a", "b\n'\"\xff"}),
             "argument 3[1]: expected the float 2, found the float 2.5");
    contains(call({2, 3}, {true, false}, {1, 2}, {"a", "b"}), "argument 4[1]: expected the string");
    contains(call({2, 3}, {true}, {1, 2}, {"a", "b\n'\"\xff"}),
             "argument 2[0]: expected another item, found no more items");
  }
}

TEST_CASE("conditions: floats compare by value, -0 is not 0, NaN is NaN") {
  const auto fn = [](Tensor x, double d) { return x / d; };
  const Tensor x = randn({3});
  for (const char* backend : kBackends) {
    const auto of = [&](double d) { return load_from_memory(precompile(with(backend), fn, x, d)); };
    const auto zero = of(0.0), nan = of(std::nan("")), third = of(1.0 / 3);
    CHECK(torch::equal(zero(x, 0.0).toTensor(), x / 0.0));
    contains(outcome([&] { zero(x, -0.0); }), "argument 1: expected the float 0, found the float -0");
    CHECK(nan(x, std::nan("1")).toTensor().isnan().all().item<bool>());
    contains(outcome([&] { nan(x, 1.0); }), "expected the float nan, found the float 1");
    contains(outcome([&] { third(x, std::nextafter(1.0 / 3, 1.0)); }),
             "argument 1: expected the float 0.33333333333333331");
    contains(outcome([&] { third(x, 0); }), "argument 1: expected the float 0.33333333333333331, found the int 0");
  }
}

TEST_CASE("conditions: complex numbers and an undefined tensor") {
  const auto scaled = [](Tensor x, at::Scalar s) { return x * s; };
  contains(message_of([&] { precompile(with("eager"), scaled, randn({2}), at::Scalar(c10::complex<double>(1, 2))); }),
           "complex number");
  const auto fn = [](Tensor x, Tensor bias) { return bias.defined() ? x + bias : x * 2; };
  const Tensor x = randn({3});
  for (const char* backend : kBackends) {
    const auto f = load_from_memory<Tensor(Tensor, Tensor)>(precompile(with(backend), fn, x, Tensor()));
    CHECK(torch::equal(f(x, Tensor()), x * 2));
    contains(outcome([&] { f(x, x); }), "argument 1: expected None, found a tensor");
    const auto g = load_from_memory<Tensor(Tensor, std::optional<Tensor>)>(precompile(with(backend), fn, x, Tensor()));
    CHECK(torch::equal(g(x, std::nullopt), x * 2));
    const auto h = load_from_memory<Tensor(Tensor, Tensor)>(precompile(with(backend), fn, x, x));
    contains(outcome([&] { h(x, Tensor()); }), "argument 1: expected a tensor, found None");
  }
}

TEST_CASE("conditions: values read with item() are exact, and nothing has changed when they differ") {
  const auto fn = [](Tensor x, Tensor y) {
    y.add_(1);
    return x * x[0].item<float>() + (y[0].item<int64_t>() > 0 ? 1 : 2) + (x[1] > 0).item<bool>();
  };
  const auto inputs = [](float first, float second) {
    return torch::stack({torch::full({}, first), torch::full({}, second)});
  };
  const float nan = std::nanf("");
  for (const char* backend : kBackends) {
    const auto of = [&](float first) {
      return load_from_memory<Tensor(Tensor, Tensor)>(
          precompile(with(backend), fn, inputs(first, 1), torch::zeros({2}, torch::kLong)));
    };
    const auto call = [&](const auto& f, float first, float second, int64_t y) {
      Tensor in = inputs(first, second), counter = torch::full({2}, y), again = counter.clone();
      const std::string message = outcome([&] {
        const Tensor out = f(in, counter);
        CHECK(torch::allclose(out, fn(in, again), 0, 0, true));
      });
      CHECK(torch::equal(counter, again));
      return message;
    };
    const auto third = of(0.1f), zero = of(0.f), not_a_number = of(nan);
    CHECK(call(third, 0.1f, 1, 0) == "");
    contains(call(third, std::nextafter(0.1f, 1.f), 1, 0),
             "expected 0.10000000149011612 as in the recorded call, found 0.1000000");
    contains(call(third, 0.1f, -1, 0), "expected true as in the recorded call, found false");
    contains(call(third, 0.1f, 1, 1), "expected 1 as in the recorded call, found 2");
    CHECK(call(zero, 0.f, 1, 0) == "");
    contains(call(zero, -0.f, 1, 0), "expected 0 as in the recorded call, found -0");
    CHECK(call(not_a_number, nan, 1, 0) == "");
    contains(call(not_a_number, 1.f, 1, 0), "expected nan as in the recorded call, found 1");
  }
}

TEST_CASE("conditions: integers that a composite kernel reads through a pointer") {
  struct Case {
    const char* name;
    std::function<Tensors(const Tensors&)> fn;
    Tensors in;
    Tensor other;  // of in.back()
  };
  const std::vector<Case> cases = {
      {"tensor_split",
       [](auto& x) { return torch::tensor_split(x[0] + 1, x[1]); },
       {randn({6}), torch::tensor({2, 4})},
       torch::tensor({1, 3})},
      {"a value made in fn",
       [](auto& x) { return torch::tensor_split(x[0] + 1, x[1] * 2); },
       {randn({6}), torch::tensor({1, 2})},
       torch::tensor({1, 3})},
  };
  for (const Case& c : cases)
    for (const char* backend : kBackends) {
      INFO(c.name, ", ", backend);
      const auto f = load_from_memory<Tensors(Tensors)>(precompile(with(backend), c.fn, c.in));
      Tensors in = c.in;
      in[0] = in[0] * 0.5;
      const Tensors want = c.fn(in), found = f(in);
      REQUIRE(found.size() == want.size());
      for (size_t i = 0; i < want.size(); ++i) CHECK(torch::allclose(found[i], want[i]));
      in.back() = c.other;
      contains(outcome([&] { f(in); }), ": expected true as in the recorded call, found false");
    }
}

TEST_CASE("conditions: packed sequences, made inside and passed") {
  namespace rnn = nn::utils::rnn;
  const auto inside = [](nn::LSTM& m, Tensor x, Tensor lengths) {
    const auto [y, state] = m->forward_with_packed_input(rnn::pack_padded_sequence(x, lengths, false, false));
    std::get<0>(rnn::pad_packed_sequence(y)).pow(2).sum().backward();
    return std::get<0>(rnn::pad_packed_sequence(y)).detach();
  };
  const auto passed = [](nn::LSTM& m, const rnn::PackedSequence& p) {
    return std::get<0>(m->forward_with_packed_input(p));
  };
  const auto pack = [](Tensor lengths) { return rnn::pack_padded_sequence(randn({5, 3, 4}), lengths, false, false); };
  at::AutoGradMode on(true);
  for (const char* backend : kBackends) {
    nn::LSTM m(4, 3), eager(4, 3);
    for (size_t i = 0; i < m->parameters().size(); ++i)
      eager->parameters()[i].set_data(m->parameters()[i].detach().clone());
    const Tensor lengths = torch::tensor({3, 5, 1});
    const auto f = load_from_memory<Tensor(nn::LSTM&, Tensor, Tensor)>(
        precompile(with(backend), inside, m, randn({5, 3, 4}), lengths));
    m->zero_grad();
    const Tensor x = randn({5, 3, 4});
    CHECK(close(f(m, x, lengths), inside(eager, x, lengths)));
    for (size_t i = 0; i < m->parameters().size(); ++i)
      CHECK(close(m->parameters()[i].grad(), eager->parameters()[i].grad()));
    CHECK(outcome([&] { f(m, x, torch::tensor({5, 3, 1})); }) == "");  // the same, sorted otherwise
    CHECK(outcome([&] { f(m, x, torch::tensor({2, 5, 2})); }) != "");
    CHECK(outcome([&] { f(m, x, torch::tensor({3, 4, 1})); }) != "");

    const auto g = load_from_memory<rnn::PackedSequence(nn::LSTM&, rnn::PackedSequence)>(
        precompile(with(backend), passed, m, pack(lengths)));
    const rnn::PackedSequence p = pack(lengths);
    const rnn::PackedSequence found = g(m, p), want = passed(eager, p);
    CHECK(close(found.data(), want.data()));
    CHECK(torch::equal(found.batch_sizes(), want.batch_sizes()));
    CHECK(torch::equal(found.unsorted_indices(), want.unsorted_indices()));
    contains(outcome([&] { g(m, pack(torch::tensor({2, 5, 2}))); }), ": expected true");  // as many rows
    contains(outcome([&] { g(m, pack(torch::tensor({4, 4, 4}))); }),
             "argument 1[0]: expected shape [9, 4], found [12, 4]");
  }
}

TEST_CASE("conditions: layouts in the eager backend") {
  const auto of = [](auto fn, Tensor x) { return load_from_memory<Tensor(Tensor)>(precompile(with("eager"), fn, x)); };
  const auto plus = [](Tensor x) { return x + 1; };
  const Tensor row = randn({3}), dense = randn({2, 3}), turned = randn({3, 2}).t();
  const auto expanded = of(plus, row.expand({2, 3})), plain = of(plus, dense);
  for (const Tensor& x : {row.expand({2, 3}), dense, turned}) {
    CHECK(torch::equal(expanded(x), x + 1));
    CHECK(torch::equal(plain(x), x + 1));
  }
  // A part of an input that overlaps itself is no plain read: there the layout counts.
  contains(outcome([&] { of([](Tensor x) { return x.select(0, 1) + 1; }, row.expand({2, 3}))(dense); }),
           "overlapping layout");
  const auto write =
      load_from_memory<void(Tensor)>(precompile(with("eager"), [](Tensor x) { x.add_(1); }, dense.clone()));
  Tensor t = turned.clone(), shared = row.clone().expand({2, 3});
  contains(outcome([&] { write(t); }), "argument 0: expected strides [3, 1], found [1, 2]. Pass .contiguous()");
  contains(outcome([&] { write(shared); }), "argument 0: expected strides [3, 1], found [0, 1]");
  CHECK(torch::equal(t, turned));
  CHECK(torch::equal(shared[0], row));
}

// contiguous() and reshape() give the tensor itself or a copy, by its layout: that shows when one of the two is
// written.
TEST_CASE("conditions: where the layout tells what is written, it is the captured one in the eager backend too") {
  struct Case {
    const char* what;
    std::function<std::pair<Tensor, Tensor>(Tensor)> fn;
  };
  const Case cases[] = {
      {"the argument, or a copy of it",
       [](Tensor x) {
         Tensor c = x.contiguous();
         c.add_(1);
         return std::pair(c + 0, x + 0);
       }},
      {"an intermediate tensor that has the layout of the argument",
       [](Tensor x) {
         Tensor y = x * 2, c = y.reshape({2, 3});
         c.add_(1);
         return std::pair(c + 0, y + 0);
       }},
      {"what is returned", [](Tensor x) { return std::pair(x.contiguous(), x + 1); }},
      {"two results that share memory or do not",
       [](Tensor x) {
         Tensor y = x * 2;
         return std::pair(y, y.contiguous());
       }},
  };
  const Tensor dense = randn({2, 3}), turned = randn({3, 2}).t();
  for (const Case& c : cases)
    for (bool from_dense : {true, false}) {
      CAPTURE(c.what);
      const Tensor example = from_dense ? dense : turned, other = from_dense ? turned : dense;
      const auto f = load_from_memory<std::pair<Tensor, Tensor>(Tensor)>(
          precompile(with("eager"), c.fn, example.clone(at::MemoryFormat::Preserve)));
      Tensor mine = example.clone(), eagers = mine.clone();
      const auto found = f(mine), want = c.fn(eagers);
      CHECK(torch::equal(found.first, want.first));
      CHECK(torch::equal(found.second, want.second));
      CHECK(torch::equal(mine, eagers));
      CHECK(found.first.is_alias_of(found.second) == want.first.is_alias_of(want.second));
      Tensor differs = other.clone(), before = differs.clone(), same = other.clone();
      try {
        const auto now = f(differs), eager = c.fn(same);  // where it may be answered, the answer is eager's
        CHECK(torch::equal(now.first, eager.first));
        CHECK(torch::equal(now.second, eager.second));
        CHECK(torch::equal(differs, same));
        CHECK(now.first.is_alias_of(differs) == eager.first.is_alias_of(same));
        CHECK(now.first.is_alias_of(now.second) == eager.first.is_alias_of(eager.second));
      } catch (const PrecompileError& e) {
        contains(e.what(), "argument 0: expected strides");
        CHECK(torch::equal(differs, before));
      }
    }
}

TEST_CASE("conditions: a result that is a view of an input goes by the recorded layout, also where nothing reads it") {
  for (const char* backend : kBackends) {
    const auto f = load_from_memory<std::pair<Tensor, Tensor>(Tensor, Tensor)>(precompile(
        with(backend), [](Tensor x, Tensor y) { return std::pair(x.t(), y + 1); }, randn({2, 3}), randn({2})));
    const Tensor x = randn({2, 3}), y = randn({2});
    CHECK(torch::equal(f(x, y).first, x.t()));
    CHECK(f(x, y).first.is_alias_of(x));
    contains(outcome([&] { f(randn({3, 2}).t(), y); }), "argument 0: expected strides [3, 1], found [1, 2]");
    contains(outcome([&] { f(randn({3}).expand({2, 3}), y); }), "argument 0: expected strides [3, 1], found [0, 1]");
  }
}

TEST_CASE("conditions: whether two arguments are one tensor, where the function asks") {
  const auto fn = [](Tensor x, Tensor y) { return x.is_set_to(y) ? x * 2 : x + y; };
  const Tensor a = randn({3}), b = randn({3}), c = randn({3});
  for (const char* backend : kBackends) {
    const auto load = [](const Pair& p) { return load_from_memory<Tensor(Tensor, Tensor)>(p); };
    const auto apart = load(precompile(with(backend), fn, a, b)), one = load(precompile(with(backend), fn, a, a));
    CHECK(torch::equal(apart(b, c), b + c));
    CHECK(torch::equal(one(c, c), c * 2));
    contains(outcome([&] { apart(c, c); }), "memory");
    contains(outcome([&] { one(b, c); }), "memory");
  }
}

TEST_CASE("conditions: attributes of a TorchScript module") {
  torch::jit::Module m("m");
  m.register_parameter("w", randn({3}), false);
  m.register_attribute("scale", at::FloatType::get(), 0.5);
  m.register_attribute("sizes", at::ListType::ofInts(), c10::List<int64_t>({1, 2}));
  m.define("def forward(self, x):\n  return x * self.w * self.scale + self.sizes[1]\n");
  const auto fn = [](torch::jit::Module& module, Tensor x) { return module.forward({x}).toTensor(); };
  const Tensor x = randn({3});
  const auto f = load_from_memory<Tensor(torch::jit::Module&, Tensor)>(precompile(with("eager"), fn, m, x));
  CHECK(torch::equal(f(m, x), fn(m, x)));
  m.setattr("scale", 0.25);
  contains(outcome([&] { f(m, x); }), "attribute 'scale' of the model (argument 0): expected 0.5, found 0.25");
  contains(outcome([&] { f.bind(m); }), "attribute 'scale'");
  m.setattr("scale", 0.5);
  CHECK(torch::equal(f(m, x), fn(m, x)));
  m.attr("sizes").toIntList().set(1, 7);
  contains(outcome([&] { f(m, x); }), "attribute 'sizes' of the model (argument 0): expected [1, 2], found [1, 7]");
}

TEST_CASE("conditions: another training mode is told once, and is fn's own affair when it sets it") {
  struct NetImpl : nn::Module {
    nn::Linear fc = register_module("fc", nn::Linear(3, 3));
    nn::Dropout drop = register_module("drop", nn::Dropout(0.5));
  };
  NetImpl m, other;
  const auto fn = [](NetImpl& n, Tensor x) { return n.drop(n.fc(x)); };
  const Tensor x = randn({2, 3});
  at::NoGradGuard no_grad;
  const auto f = load_from_memory<Tensor(NetImpl&, Tensor)>(precompile(with("eager"), fn, m, x));
  Warnings warnings;
  f(m, x);
  CHECK(warnings.all.empty());
  m.drop->eval();
  f(m, x);
  REQUIRE(warnings.all.size() == 1);
  contains(warnings.all[0],
           "a part of the model (argument 0) is in evaluation mode here and was in training mode at capture");
  other.eval();
  f(other, x);
  CHECK(warnings.all.size() == 1);
  NetImpl third;
  const auto sets_it = [](NetImpl& n, Tensor y) {
    n.eval();
    return n.drop(n.fc(y));
  };
  const auto g = load_from_memory<Tensor(NetImpl&, Tensor)>(precompile(with("eager"), sets_it, third, x));
  NetImpl fourth;
  g(fourth, x);
  CHECK(warnings.all.size() == 1);
}

TEST_CASE("summary: what a call checks, and what it will not generalize over") {
  nn::Linear m(3, 3);
  auto cap = capture([](nn::Linear& l, Tensor x, int k, std::vector<int> list,
                        std::optional<Tensor>) { return l(x) * k * list[0] * x.sum().item<float>(); },
                     {"unused.cpp", "unused.cache"}, with("eager"));
  CHECK_FALSE(cap.summary().complete());
  cap(m, torch::ones({2, 3}), 3, std::vector<int>{2}, std::nullopt);
  const PrecompileSummary s = cap.summary();
  CHECK(s.complete());
  using Slot = PrecompileSummary::Slot;
  CHECK(s.kept_guards == std::vector<Slot>{{"TENSOR_MATCH", "parameter 'weight'"},
                                           {"TENSOR_MATCH", "parameter 'bias'"},
                                           {"TENSOR_MATCH", "argument 1"},
                                           {"EQUALS_MATCH", "argument 2"},
                                           {"EQUALS_MATCH", "argument 3[0]"},
                                           {"CONSTANT_MATCH", "argument 4"},
                                           {"EQUALS_MATCH", "aten::_local_scalar_dense of aten::sum = 6"}});
  CHECK(s.wont_generalize == std::vector<std::string>{"argument 2"});
  CHECK(s.dropped_guards.empty());
  CHECK(s.kept_guard_types() ==
        std::map<std::string, int>{{"CONSTANT_MATCH", 1}, {"EQUALS_MATCH", 3}, {"TENSOR_MATCH", 3}});
  contains(to_string(s), "1 backend graphs; 1 will not generalize (argument 2)");
}

TEST_CASE("random numbers are LibTorch's own whatever fallback_random says") {
  const auto fn = [](Tensor x) { return torch::dropout(x, 0.5, true) + torch::rand({4}); };
  const Tensor x = randn({4});
  for (const bool fallback : {false, true}) {
    LowerOptions options = with("inductor");
    options.fallback_random = fallback;
    const auto f = load_from_memory<Tensor(Tensor)>(precompile(options, fn, x));
    torch::manual_seed(5);
    const Tensor found = f(x);
    torch::manual_seed(5);
    CHECK(torch::equal(found, fn(x)));
  }
}
