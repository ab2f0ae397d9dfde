#include "emit/repeats.h"

namespace precast::emit {

namespace {

// A round of more than these is no loop that anybody wrote; the search takes as many steps for each item.
constexpr size_t kLongest = 256;

size_t saved(const Repeat& r) { return r.period * (r.times - 1); }

}  // namespace

std::vector<Repeat> repeats(const std::vector<int>& items) {
  const size_t n = items.size();
  // For each period the best repeat that begins at an item, from the last item to the first.
  std::vector<size_t> equal(kLongest + 1);  // by period: items from here on that equal the one a period on
  std::vector<Repeat> best(n);              // that begins here; one round: none
  for (size_t i = n; i-- > 0;)
    for (size_t period = 1; period < equal.size() && i + period < n; ++period) {
      equal[period] = items[i] >= 0 && items[i] == items[i + period] ? equal[period] + 1 : 0;
      const Repeat r{i, period, equal[period] / period + 1};
      if (saved(r) > saved(best[i])) best[i] = r;
    }
  std::vector<Repeat> found;
  for (size_t i = 0; i < n;) {
    if (best[i].times == 1) {
      ++i;
      continue;
    }
    const Repeat* take = &best[i];
    for (size_t j = i + 1; j < best[i].end(); ++j)  // one that begins a little later may save more
      if (saved(best[j]) > saved(*take)) take = &best[j];
    found.push_back(*take);
    i = take->end();
  }
  return found;
}

}  // namespace precast::emit
