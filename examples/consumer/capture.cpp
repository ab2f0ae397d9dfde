// Runs a function once, for real, and writes what it did as a pair of files.
#include <torch/torch.h>

#include <precast/precast.h>

#include <iostream>

int main(int argc, char** argv) {
  if (argc != 3) return 2;
  try {
    const auto polynomial = [](at::Tensor x, at::Tensor c) { return (c[2] * x + c[1]) * x + c[0]; };
    auto capture = precast::capture(polynomial, {argv[1], argv[2]}, {.symbol = "polynomial"});
    capture(torch::ones({5}), torch::ones({3}));
    capture.finish();
    return 0;
  } catch (const precast::PrecompileError& e) {
    std::cerr << e.what() << "\n";
    return 1;
  }
}
