#include "ops.h"

namespace precast::fuzz {

const std::vector<Family>& families() {
  static const std::vector<Family> all = [] {
    std::vector<Family> joined;
    for (auto table : {pointwise_families, write_families, view_families, join_families, reduction_families,
                       index_families, matrix_families, network_families, complex_families})
      for (Family& f : table()) joined.push_back(std::move(f));
    return joined;
  }();
  return all;
}

}  // namespace precast::fuzz
