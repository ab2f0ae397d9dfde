#include "cli/inputs.h"

#include "runtime/weights.h"

namespace precast::cli {

const char* const kInputHelp =
    "Inputs (repeat --input, one an argument, in order):\n"
    "  f32[1,576]          a tensor; normal numbers (integers and bools: zeros)\n"
    "  f32[1,576]:zeros    another fill: :zeros :ones :arange :randn\n"
    "  i64[8,64]:0..50257  uniform in 0 <= x < 50257\n"
    "  x.npy               a tensor saved by NumPy\n"
    "  16000  0.5  true    a number or bool;  none,  '\"text\"'\n"
    "  dtypes: f16 bf16 f32 f64 u8 i8 i16 i32 i64 bool c64 c128";

std::vector<io::Input> parse_inputs(const std::vector<std::string>& texts, uint64_t seed) {
  std::vector<io::Input> inputs;
  for (const std::string& text : texts) inputs.push_back(io::parse_input(text, seed + inputs.size()));
  return inputs;
}

precast_leaf to_leaf(const io::Input& input) {
  precast_leaf leaf{};
  if (input.array) {
    leaf.kind = PRECAST_TENSOR;
    leaf.t = runtime::to_tensor(*input.array);
  } else if (const auto* b = std::get_if<bool>(&input.value)) {
    leaf.kind = PRECAST_BOOL;
    leaf.i = *b;
  } else if (const auto* i = std::get_if<int64_t>(&input.value)) {
    leaf.kind = PRECAST_INT;
    leaf.i = *i;
  } else if (const auto* d = std::get_if<double>(&input.value)) {
    leaf.kind = PRECAST_DOUBLE;
    leaf.d = *d;
  } else if (const auto* s = std::get_if<std::string>(&input.value)) {
    leaf.kind = PRECAST_STRING;
    leaf.s = s->c_str();
    leaf.length = static_cast<precast_i32>(s->size());
  }
  return leaf;
}

std::vector<precast_leaf> to_leaves(const std::vector<io::Input>& inputs) {
  std::vector<precast_leaf> leaves;
  for (const io::Input& input : inputs) leaves.push_back(to_leaf(input));
  return leaves;
}

}  // namespace precast::cli
