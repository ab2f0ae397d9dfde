#include "timing.h"

#include <algorithm>
#include <vector>

namespace precast::demo {

Times time_calls(const std::function<void()>& first, const std::function<void()>& second) {
  std::vector<double> times[2];
  const auto begin = Clock::now();
  for (int i = 0; i < 200 && (i < 5 || seconds_since(begin) < 1); ++i)
    for (const int which : {0, 1}) {
      const auto start = Clock::now();
      (which ? second : first)();
      times[which].push_back(1e6 * seconds_since(start));
    }
  for (auto& t : times) std::nth_element(t.begin(), t.begin() + t.size() / 2, t.end());
  return {times[0][times[0].size() / 2], times[1][times[1].size() / 2]};
}

}  // namespace precast::demo
