#include "artifact/signature.h"

namespace precast::artifact {

std::vector<const ir::Type*> source_types(const Signature& s) {
  std::vector<const ir::Type*> types;
  for (const auto* group : {&s.params, &s.buffers})
    for (const TensorMeta& t : *group) types.push_back(&t.type);
  for (const UserLeaf& leaf : s.leaves)
    if (leaf.kind == UserLeaf::Kind::tensor) types.push_back(&leaf.tensor.type);
  return types;
}

}  // namespace precast::artifact
