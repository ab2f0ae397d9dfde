// Stretches of a sequence that repeat themselves: a loop through time or a deep stack of equal blocks arrives unrolled.
#pragma once
#include <cstddef>
#include <vector>

namespace precast::emit {

/// `times` rounds of `period` items each, from `first` on.
struct Repeat {
  size_t first = 0, period = 1, times = 1;
  size_t end() const { return first + period * times; }
};

/// Repeats of equal numbers in `items` that save the most, in order, disjoint; negative numbers stand in none. What
/// comes between two is left out.
std::vector<Repeat> repeats(const std::vector<int>& items);

}  // namespace precast::emit
