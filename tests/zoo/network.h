// Networks that nobody tuned the compiler for, written as their users write them: modules of TorchScript with random
// weights. One file a family; each network comes small, for tests, and at full size.
#pragma once
#include <torch/script.h>

#include <span>
#include <string>
#include <vector>

namespace precast::zoo {

using torch::jit::Module;

enum class Size { small, full };

struct Network {
  std::string name;
  Module (*make)(Size);  // from a seeded generator, in training mode
  /// Arguments of `forward`, and what its result is compared with in training: words of the command line, "f32[2,3]".
  struct Example {
    std::vector<std::string> inputs;
    std::string target;
  };
  Example (*example)(Size);
  at::Tensor (*loss)(const at::Tensor& output, const at::Tensor& target);
};

/// In tests a family is a test of its own, so that they run side by side.
struct Family {
  std::string name;
  std::span<const Network> (*networks)();
};
std::span<const Family> families();

std::span<const Network> image_networks();
std::span<const Network> picture_networks();
std::span<const Network> text_networks();
std::span<const Network> signal_networks();
std::span<const Network> structure_networks();

/// A network of one size as a test or a table needs it: equal weights and equal inputs on every call.
Module make_module(const Network&, Size);
std::vector<at::Tensor> make_inputs(const Network&, Size, uint64_t seed);
at::Tensor make_target(const Network&, Size, uint64_t seed);

/// Losses that several families use.
at::Tensor cross_entropy(const at::Tensor& output, const at::Tensor& target);  // classes along dimension 1
at::Tensor token_loss(const at::Tensor& output, const at::Tensor& target);     // classes along the last dimension
at::Tensor squared_error(const at::Tensor& output, const at::Tensor& target);

}  // namespace precast::zoo
