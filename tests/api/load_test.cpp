// The rules of load and of calls: what does not fit is refused by name, before anything runs.
#include <fstream>

#include "api/support.h"

using namespace precast;
using namespace precast::testing;

namespace {

at::Tensor forward(Mlp& model, const at::Tensor& x) { return model->forward(x); }

std::string read(const std::filesystem::path& p) {
  std::ifstream in(p);
  return {std::istreambuf_iterator<char>(in), {}};
}

struct OtherImpl : torch::nn::Module {
  OtherImpl(int hidden, const char* second) {
    register_module("fc1", torch::nn::Linear(4, hidden));
    register_module(second, torch::nn::Linear(hidden, 3));
  }
};
TORCH_MODULE(Other);

}  // namespace

TEST_CASE("load: a missing file and text that is no artifact are named") {
  Folder folder;
  contains(message_of([&] { load(folder.pair("nothing")); }), "nothing.cpp");
  std::ofstream(folder.pair().artifact_path) << "int main() {}\n";
  std::ofstream(folder.pair().cache_path) << "x";
  contains(message_of([&] { load(folder.pair()); }), "m.cpp");
}

TEST_CASE("load: a pair that does not belong together is refused") {
  Folder folder;
  Mlp model;
  for (const char* name : {"a", "b"})
    capture(forward, folder.pair(name), {.backend = "eager"},
            [&](auto& cap) { cap(model, torch::randn({name[0] - 'a' + 1, 4})); });
  contains(message_of([&] { load({folder.pair("a").artifact_path, folder.pair("b").cache_path}); }), "code_hash");
}

TEST_CASE("load: a signature that does not fit is refused in words") {
  Mlp model;
  const Pair pair = precompile({.backend = "eager"}, forward, model, torch::randn({2, 4}));
  contains(message_of([&] { load_from_memory<at::Tensor(at::Tensor)>(pair); }), "takes 2 arguments");
  contains(message_of([&] { load_from_memory<at::Tensor(at::Tensor, at::Tensor)>(pair); }), "argument 0 is a module");
  contains(message_of([&] { load_from_memory<at::Tensor(Mlp&, std::vector<at::Tensor>)>(pair); }), "list[tensor]");
  contains(message_of([&] { load_from_memory<std::vector<at::Tensor>(Mlp&, at::Tensor)>(pair); }),
           "the result is list[tensor]");
  contains(message_of([&] { load_from_memory<double(Mlp&, at::Tensor)>(pair); }), "the result is float");
}

TEST_CASE("call: bad arguments are refused by name with expected and found") {
  for (const char* backend : {"eager", "inductor"}) {
    INFO(backend);
    Mlp model;
    auto f = load_from_memory(precompile({.backend = backend}, forward, model, torch::randn({2, 4})));
    const auto error = [&](auto&&... a) { return message_of([&] { f(a...); }); };
    contains(error(model), "expected 2 arguments, found 1");
    contains(error(torch::randn({2, 4}), model), "expected a module");
    contains(error(model, std::vector<at::Tensor>{torch::randn({2, 4})}), "argument 1");
    contains(error(model, torch::randn({3, 4})), "shape [2, 4], found [3, 4]");
    contains(error(model, torch::randn({2, 4}, torch::kDouble)), "float32, found float64");
    contains(error(model, torch::randn({2, 4}, torch::kMeta)), "argument 1");
    contains(error(model, torch::randn({2, 4}).to_sparse()), "dense");
    contains(error(model, at::Tensor()), "argument 1: expected a tensor, found None");
    contains(error(model, 3), "argument 1");
    contains(error(Other(9, "fc2"), torch::randn({2, 4})), "fc1.weight");
    contains(error(Other(8, "fc3"), torch::randn({2, 4})), "fc2.weight");
    contains(error(Mlp(nullptr), torch::randn({2, 4})), "empty handle");
    Mlp tied;
    tied->fc1->bias = tied->fc1->register_parameter("other", torch::zeros({8}));
    contains(error(tied, torch::randn({2, 4})), "other");
    if (std::string(backend) == "inductor")
      contains(error(model, torch::randn({4, 2}).t()), "strides [4, 1], found [1, 2]");
    else
      CHECK_NOTHROW(f(model, torch::randn({4, 2}).t()));
  }
}

TEST_CASE("call: the same tensor where the capture had two is refused when it matters") {
  auto f = load_from_memory(precompile(
      {.backend = "eager"},
      [](at::Tensor a, at::Tensor b) {
        a.add_(1);
        return a + b;
      },
      torch::zeros({2}), torch::zeros({2})));
  at::Tensor x = torch::zeros({2});
  contains(message_of([&] { f(x, x); }), "overlap");
  CHECK(torch::equal(x, torch::zeros({2})));
}

TEST_CASE("call: numbers, bools, strings and none are conditions on their values") {
  const auto fn = [](at::Tensor x, int64_t k, double s, bool b, std::string name, std::optional<at::Tensor> y) {
    at::Tensor r = x * k + s;
    return b && name == "add" && y ? r + *y : r;
  };
  const at::Tensor x = torch::randn({3});
  for (const char* backend : {"eager", "inductor"}) {
    auto f = load_from_memory(precompile({.backend = backend}, fn, x, int64_t{2}, 0.5, true, std::string("add"),
                                         std::optional<at::Tensor>()));
    CHECK(close(f(x, 2, 0.5, true, "add", std::nullopt).toTensor(), x * 2 + 0.5));
    contains(message_of([&] { f(x, 3, 0.5, true, "add", std::nullopt); }), "the int 2, found the int 3");
    contains(message_of([&] { f(x, 2, 0.25, true, "add", std::nullopt); }), "argument 2");
    contains(message_of([&] { f(x, 2, 0.5, false, "add", std::nullopt); }), "argument 3");
    contains(message_of([&] { f(x, 2, 0.5, true, "sub", std::nullopt); }), "argument 4");
    contains(message_of([&] { f(x, 2, 0.5, true, "add", x); }), "argument 5");
    contains(message_of([&] { f(x, 2.0, 0.5, true, "add", std::nullopt); }), "argument 1");
  }
}

TEST_CASE("load: a damaged cache is a warning and the artifact still runs") {
  Folder folder;
  Mlp model;
  capture(forward, folder.pair(), {.backend = "inductor"}, [&](auto& cap) { cap(model, torch::randn({2, 4})); });
  std::string cache = read(folder.pair().cache_path);
  cache[cache.size() / 2] ^= 1;
  std::ofstream(folder.pair().cache_path) << cache;
  auto f = load<at::Tensor(Mlp&, at::Tensor)>(folder.pair());
  at::Tensor x = torch::randn({2, 4});
  CHECK(close(f(model, x), model->forward(x)));
}
