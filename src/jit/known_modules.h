// Classes of torch::nn whose plain members (options) count as guards: C++ tells no size of an object by itself.
#pragma once
#include <torch/nn/module.h>

#include <cstddef>
#include <utility>

namespace precast::jit {

/// The whole object and its size in bytes; {null, 0} where its class is none of torch::nn.
std::pair<const void*, size_t> known_object(const torch::nn::Module&);

}  // namespace precast::jit
