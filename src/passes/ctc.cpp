// Connectionist temporal classification: core ops as they are; loops/rules_ctc.cpp says which.
#include "passes/rules.h"

namespace precast::passes {
namespace {

template <size_t results>
void as_it_is(Op& op) {
  std::vector<ir::Type> types;
  for (size_t i = 0; i < results; ++i) {
    if (!op.wants(i)) decline("without one of its results");
    types.push_back(op.wanted(i));
  }
  const auto made = op.b.emit_all(op.name(), op.args(), types);
  for (size_t i = 0; i < results; ++i) op.result(i, made[i]);
}

constexpr Row kRows[] = {
    {"aten::_ctc_loss", as_it_is<2>},
    {"aten::_ctc_loss_backward", as_it_is<1>},
};

}  // namespace

std::span<const Row> ctc_rules() { return kRows; }

}  // namespace precast::passes
