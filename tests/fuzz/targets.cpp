#include "targets.h"

#include <set>

#include "coverage.h"

namespace precast::fuzz {

const std::vector<Target>& targets() {
  static const std::vector<Target> all = [] {
    std::vector<Target> cells;
    std::set<std::string> seen;  // an op of two families is made for the first
    for (const Family& family : families())
      for (const char* op : family.ops) {
        if (!seen.insert(op).second) continue;
        for (const auto& [dtype, name] : grid_dtypes()) cells.push_back({&family, op, dtype});
      }
    return cells;
  }();
  return all;
}

}  // namespace precast::fuzz
