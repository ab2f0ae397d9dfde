// A small seeded generator: the same numbers on every machine.
#pragma once
#include <cstdint>
#include <initializer_list>
#include <vector>

namespace precast::fuzz {

class Random {
 public:
  explicit Random(uint64_t seed) : state_(seed * 0x9e3779b97f4a7c15u + 0x2545f4914f6cdd1du) {}

  uint64_t bits() {
    uint64_t z = (state_ += 0x9e3779b97f4a7c15u);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
  }
  /// Uniform in low <= x <= high.
  int64_t integer(int64_t low, int64_t high) {
    return low + static_cast<int64_t>(bits() % static_cast<uint64_t>(high - low + 1));
  }
  bool chance(double p) { return static_cast<double>(bits() >> 11) * 0x1p-53 < p; }
  template <class T>
  const T& choose(const std::vector<T>& from) {
    return from[static_cast<size_t>(integer(0, static_cast<int64_t>(from.size()) - 1))];
  }
  template <class T>
  T choose(std::initializer_list<T> from) {
    return *(from.begin() + integer(0, static_cast<int64_t>(from.size()) - 1));
  }

 private:
  uint64_t state_;
};

}  // namespace precast::fuzz
