#include "cli/sizes.h"

#include <algorithm>

namespace precast::cli {

std::string bounds_text(const ir::Symbol& s) {
  if (s.max != ir::Symbol::kUnbounded) return "a size of " + std::to_string(s.min) + " to " + std::to_string(s.max);
  return s.min == 0 ? "any size" : "a size of at least " + std::to_string(s.min);
}

SymbolValues sizes_of(const artifact::Metadata& m, const std::vector<io::Input>& inputs) {
  SymbolValues values;
  const auto& leaves = m.signature.leaves;
  for (size_t i = 0; i < std::min(leaves.size(), inputs.size()); ++i) {
    const ir::Dims& sizes = leaves[i].tensor.type.sizes;
    if (!inputs[i].array || inputs[i].array->type.sizes.size() != sizes.size()) continue;
    for (size_t d = 0; d < sizes.size(); ++d)
      for (const ir::Symbol& s : m.symbols)
        if (sizes[d] == ir::Size::symbol(s)) values.emplace(s.id, inputs[i].array->type.sizes[d]);
  }
  return values;
}

SymbolValues sizes_of_round(const artifact::Metadata& m, int round) {
  SymbolValues values;
  for (const ir::Symbol& s : m.symbols) values[s.id] = std::clamp<int64_t>(s.hint + round, s.min, s.max);
  return values;
}

ir::Type at_sizes(const ir::Type& t, const SymbolValues& values) {
  bool all = true;
  for (const ir::Dims* dims : {&t.sizes, &t.strides})
    for (const ir::Size& size : *dims) size.for_each_symbol([&](const ir::Symbol& s) { all &= values.contains(s.id); });
  return all ? ir::substitute(t, [&](const ir::Symbol& s) { return values.at(s.id); }) : t;
}

}  // namespace precast::cli
