#include "loops/plan.h"

#include <algorithm>
#include <numeric>

namespace precast::loops {

namespace {

bool meet(const Lifetime& a, const Lifetime& b) { return a.first <= b.last && b.first <= a.last; }

/// Those of `chosen`, largest first.
void sort_by_size(std::vector<size_t>& chosen, const std::vector<Lifetime>& all) {
  std::stable_sort(chosen.begin(), chosen.end(),
                   [&](size_t a, size_t b) { return ir::roughly_less(all[b].bytes, all[a].bytes); });
}

/// Each in the lowest gap among those it meets in time.
int64_t place_known(std::vector<Lifetime>& all, const std::vector<size_t>& order) {
  const auto rounded = [](int64_t bytes) { return (bytes + 63) / 64 * 64; };
  std::vector<size_t> placed;  // by offset
  int64_t total = 0;
  for (const size_t i : order) {
    Lifetime& b = all[i];
    int64_t at = 0;
    for (const size_t j : placed) {
      const Lifetime& other = all[j];
      if (!meet(other, b) || other.offset + rounded(other.bytes) <= at) continue;
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

/// Each in the first slot that is surely large enough and free at its time.
std::vector<ir::Size> place_in_slots(std::vector<Lifetime>& all, const std::vector<size_t>& order) {
  std::vector<ir::Size> slots;
  std::vector<std::vector<size_t>> members;
  for (const size_t i : order) {
    Lifetime& b = all[i];
    size_t s = 0;
    for (; s < slots.size(); ++s) {
      const bool taken = std::any_of(members[s].begin(), members[s].end(), [&](size_t j) { return meet(all[j], b); });
      if (!taken && ir::always_at_least(slots[s], b.bytes)) break;
    }
    if (s == slots.size()) slots.push_back(b.bytes), members.emplace_back();
    members[s].push_back(i);
    b.slot = static_cast<int>(s);
  }
  return slots;
}

}  // namespace

Plan plan(std::vector<Lifetime>& all) {
  std::vector<size_t> known, symbolic;
  for (size_t i = 0; i < all.size(); ++i) (all[i].bytes.is_symbolic() ? symbolic : known).push_back(i);
  sort_by_size(known, all);
  sort_by_size(symbolic, all);
  Plan p;
  p.bytes = place_known(all, known);
  p.slots = place_in_slots(all, symbolic);
  return p;
}

}  // namespace precast::loops
