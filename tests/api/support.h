// What the API tests share: a small model, a folder that goes away, and another process to load in.
#pragma once
#include <doctest/doctest.h>
#include <torch/torch.h>

#include <filesystem>
#include <string>

#include "precast/precast.h"

namespace precast::testing {

struct MlpImpl : torch::nn::Module {
  MlpImpl() {
    fc1 = register_module("fc1", torch::nn::Linear(4, 8));
    fc2 = register_module("fc2", torch::nn::Linear(8, 3));
  }
  at::Tensor forward(const at::Tensor& x) { return fc2->forward(torch::relu(fc1->forward(x))); }
  torch::nn::Linear fc1{nullptr}, fc2{nullptr};
};
TORCH_MODULE(Mlp);

/// Paths of a pair in a folder that is removed at the end.
class Folder {
 public:
  Folder();
  ~Folder();
  PairPaths pair(const std::string& name = "m") const { return {path / (name + ".cpp"), path / (name + ".cache")}; }
  std::filesystem::path path;
};

/// Runs the (skipped) test case `name` of this program in another process, with an empty environment in another folder;
/// it finds `folder` through child_folder(). Returns what it printed, and requires that it passed.
std::string run_in_fresh_process(const std::string& name, const std::filesystem::path& folder, int threads = 1,
                                 const std::string& path = "/usr/bin:/bin");
std::filesystem::path child_folder();

/// The message of the E that f throws; fails the test when it throws none.
template <class E = PrecompileError, class F>
std::string message_of(F&& f) {
  try {
    f();
  } catch (const E& e) {
    return e.what();
  }
  FAIL("expected an exception, found none");
  return {};
}

inline bool contains(const std::string& text, const std::string& part) {
  INFO("expected \"", part, "\" in: ", text);
  const bool found = text.find(part) != std::string::npos;
  CHECK(found);
  return found;
}

inline bool close(const at::Tensor& a, const at::Tensor& b) { return torch::allclose(a, b, 1e-4, 1e-5); }

}  // namespace precast::testing
