// Makes small TorchScript files for the tests of the command line: make_script NAME FILE
#include <caffe2/serialize/inline_container.h>
#include <torch/script.h>
#include <torch/torch.h>

#include <functional>
#include <iostream>
#include <map>

namespace {

using torch::jit::Module;

at::Tensor wave(at::IntArrayRef sizes) {
  int64_t n = 1;
  for (int64_t size : sizes) n *= size;
  return ((at::arange(n, at::kFloat) * 7).remainder(11) / 11 - 0.4).reshape(sizes);
}

// relu(x @ w.T + b): lowers completely.
Module net() {
  Module m("net");
  m.register_parameter("weight", wave({4, 6}), false);
  m.register_parameter("bias", wave({4}), false);
  m.define("def forward(self, x):\n    return torch.relu(torch.linear(x, self.weight, self.bias))\n");
  return m;
}

// The same parameters and another formula.
Module linear() {
  Module m("linear");
  m.register_parameter("weight", wave({4, 6}), false);
  m.register_parameter("bias", wave({4}), false);
  m.define("def forward(self, x):\n    return torch.linear(x, self.weight, self.bias)\n");
  return m;
}

// Arguments of every kind, and one that the command line has no words for.
Module typed() {
  Module m("typed");
  m.define(
      "def forward(self, x, scale: float, n: int = 2, flag: bool = False):\n    return x * scale + n\n"
      "def stack(self, xs: List[Tensor]):\n    return torch.stack(xs)\n");
  return m;
}

// A buffer that every call changes, and an input that it writes.
Module counter() {
  Module m("counter");
  m.register_buffer("calls", at::zeros({1}));
  m.define("def forward(self, x):\n    self.calls.add_(1)\n    x.mul_(2)\n    return x + self.calls\n");
  return m;
}

// A module inside, with a method of its own, several results, and a default.
Module nested() {
  Module inner("inner");
  inner.register_parameter("weight", wave({3}), false);
  inner.define(
      "def forward(self, x):\n    return x * self.weight\n"
      "def score(self, x, scale: float = 2.0):\n    y = x * self.weight * scale\n    return y, {'top': y.amax(), "
      "'first': y[0]}\n");
  Module m("nested");
  m.register_module("part", inner);
  m.define("def forward(self, x):\n    return self.part.forward(x) + 1\n");
  return m;
}

// Random numbers: stays with LibTorch.
Module random() {
  Module m("random");
  m.define("def forward(self, x):\n    return x + torch.rand_like(x)\n");
  return m;
}

// Weights turned into constants of the graph, and an in-place assignment through an index.
Module frozen() {
  Module m = net();
  m.define(
      "def assign(self, x):\n    y = x.clone()\n    y[0] = 1.5\n    y[:, 1] = y[:, 0]\n    return torch.linear(y, "
      "self.weight, self.bias)\n");
  m.eval();
  return torch::jit::freeze(m, std::vector<std::string>{"assign"});
}

// Fails whenever it runs.
Module broken() {
  Module m("broken");
  m.define("def forward(self, x):\n    assert False, 'this model always fails'\n    return x\n");
  return m;
}

// What torch.save writes: a pickle in an archive, and no program.
void save_pickle(const std::string& path) {
  const auto data = torch::pickle_save(at::ones({3}));
  caffe2::serialize::PyTorchStreamWriter archive(path);
  archive.writeRecord("data.pkl", data.data(), data.size());
  archive.writeEndOfFile();
}

const std::map<std::string, std::function<Module()>> kModels = {
    {"net", net},       {"linear", linear}, {"typed", typed},   {"counter", counter},
    {"nested", nested}, {"random", random}, {"frozen", frozen}, {"broken", broken}};

}  // namespace

int main(int argc, char** argv) {
  if (argc == 3 && argv[1] == std::string("pickle")) return save_pickle(argv[2]), 0;
  if (argc != 3 || !kModels.count(argv[1])) {
    std::cerr << "make_script NAME FILE\n";
    return 2;
  }
  kModels.at(argv[1])().save(argv[2]);
}
