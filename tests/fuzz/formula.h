// Values of inputs by formula, so that a program can be printed without its data: element i is
// ((i * step + start) % modulus) * scale + shift, exact in every dtype.
#pragma once
#include <optional>
#include <utility>

#include "program.h"

namespace precast::fuzz {

struct Formula {
  int64_t step = 1, start = 0, modulus = 1;
  double scale = 1, shift = 0;
  std::optional<std::pair<int64_t, double>> spike;  // one element with a value of its own: NaN, inf, zero, a bad index
};

Formula formula(const Input&, Variant);
/// Sizes of the memory under an input, before its layout makes a view of it.
std::vector<int64_t> storage_sizes(const Input&);

}  // namespace precast::fuzz
