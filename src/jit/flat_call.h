// Calls a runnable that takes one list of tensors (artifact::flat_spec).
#pragma once
#include <string>
#include <vector>

#include "precast/detail/core.h"

namespace precast::jit {

inline std::vector<detail::ResultLeaf> call_flat(const detail::Runnable& f, const std::string& spec,
                                                 const std::vector<at::Tensor>& inputs) {
  detail::Arguments a;
  a.positional = 1;
  a.spec = spec.c_str();
  for (const at::Tensor& t : inputs) {
    detail::Leaf& leaf = a.leaves.emplace_back();
    leaf.kind = detail::Kind::tensor;
    leaf.tensor = &t;
  }
  std::vector<detail::ResultLeaf> results(f.result_leaves());
  f.call(a, results);
  return results;
}

}  // namespace precast::jit
