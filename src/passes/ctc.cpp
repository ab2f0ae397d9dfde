// Connectionist temporal classification: core ops as they are, where a routine has them.
#include "passes/rules.h"

namespace precast::passes {
namespace {

using ir::Dtype;

template <size_t results>
void as_it_is(Op& op) {
  const Dtype dtype = op.val("log_probs").dtype();
  if (dtype != Dtype::f32 && dtype != Dtype::f64) decline("of another dtype than f32 and f64");
  if (op.val("log_probs").dim() != 3 || op.val("log_probs").type().numel() == 0) decline("no [steps, batch, classes]");
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
