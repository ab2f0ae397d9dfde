// Dims whose size a capture leaves open: one artifact serves every size of them.
#pragma once
#include <ATen/core/Tensor.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace precast {

/// What is known of a marked dim. Bounds are checked at every call; the hint is for speed only.
struct Mark {
  std::optional<std::string> shape_id{};                 ///< dims with one id have one size
  std::optional<int64_t> min{}, max{}, hint_override{};  ///< both bounds included
  bool strict = false;                                   ///< no more than the mark: the other fields are left out
  std::optional<std::vector<int64_t>> specialize_on{};   ///< refused at capture: there is one artifact
};

/// Marks a dim of an argument before the call that captures it. The mark stays on the tensor object (not on views or
/// copies of it); marking the dim again replaces it. Inside the function, read the size with sym_size(); size() and
/// sizes() are refused there.
void mark_unbacked(const at::Tensor&, int64_t dim, Mark = {});
/// Refused at capture: sizes that are guarded on need a compiler at run time. Use mark_unbacked.
void mark_dynamic(const at::Tensor&, int64_t dim);

}  // namespace precast
