// Recurrent layers: core ops as they are, but for the workspace that eager's backward writes though nobody reads it.
#include "passes/rules.h"

namespace precast::passes {
namespace {

using ir::Dtype;
using ir::Type;

constexpr size_t kForward = 4, kWorkspace = 3, kBackward = 7;  // how many results, which one

std::vector<Val> as_it_is(Op& op, size_t results) {
  if (op.integer("mode") != 2) decline("a recurrent layer of another kind than LSTM");
  if (op.val("input").dtype() != Dtype::f32) decline("an LSTM of another dtype than f32");
  std::vector<Type> types;
  for (size_t i = 0; i < results; ++i) {
    if (op.wants(i)) {
      types.push_back(op.wanted(i));
    } else if (results == kForward && i == kWorkspace) {
      types.push_back(ir::contiguous(Dtype::u8, {0}));  // undefined where no gradient is wanted
    } else {
      decline("an LSTM without one of its results");
    }
  }
  auto made = op.b.emit_all(op.name(), op.args(), types);
  for (size_t i = 0; i < results; ++i)
    if (op.wants(i)) op.result(i, made[i]);
  return made;
}

void layer(Op& op) { as_it_is(op, kForward); }

void layer_backward(Op& op) {
  Val workspace = op.val("workspace");
  if (op.b.is_input(workspace)) decline("its workspace was made outside of the capture");
  as_it_is(op, kBackward);
  op.write("workspace", workspace);
}

constexpr Row kRows[] = {
    {"aten::mkldnn_rnn_layer", layer},
    {"aten::mkldnn_rnn_layer_backward", layer_backward},
};

}  // namespace

std::span<const Row> recurrent_rules() { return kRows; }

}  // namespace precast::passes
