#include "loops/plan.h"

#include <algorithm>
#include <numeric>

namespace precast::loops {

int64_t plan(std::vector<Lifetime>& all) {
  const auto rounded = [](int64_t bytes) { return (bytes + 63) / 64 * 64; };
  // Largest first, each in the lowest gap among those it meets in time.
  std::vector<size_t> order(all.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) { return all[a].bytes > all[b].bytes; });
  std::vector<size_t> placed;  // by offset
  int64_t total = 0;
  for (const size_t i : order) {
    Lifetime& b = all[i];
    int64_t at = 0;
    for (const size_t j : placed) {
      const Lifetime& other = all[j];
      if (other.last < b.first || b.last < other.first || other.offset + rounded(other.bytes) <= at) continue;
      if (other.offset >= at + rounded(b.bytes)) break;
      at = other.offset + rounded(other.bytes);
    }
    b.offset = at;
    total = std::max(total, at + rounded(b.bytes));
    placed.insert(std::upper_bound(placed.begin(), placed.end(), i,
                                   [&](size_t x, size_t y) { return all[x].offset < all[y].offset; }),
                  i);
  }
  return total;
}

}  // namespace precast::loops
