// Variables walked as one count, outermost first: neighbours that one stride covers become one, those of size 1 none.
#pragma once
#include <utility>

#include "util/errors.h"

namespace precast::emit {

/// Sizes and strides of the walk. `List` holds numbers or sizes that may be open.
template <class List, class IsOne>
std::pair<List, List> merged(const List& sizes, const List& strides, IsOne is_one) {
  PRECAST_CHECK(sizes.size() == strides.size(), "a product's operand needs a stride for each variable");
  List merged_sizes, merged_strides;
  for (size_t v = 0; v < sizes.size(); ++v) {
    if (is_one(sizes[v])) continue;
    if (!merged_sizes.empty() && merged_strides.back() == strides[v] * sizes[v]) {
      merged_sizes.back() *= sizes[v], merged_strides.back() = strides[v];
    } else {
      merged_sizes.push_back(sizes[v]), merged_strides.push_back(strides[v]);
    }
  }
  return {merged_sizes, merged_strides};
}

}  // namespace precast::emit
