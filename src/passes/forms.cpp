#include "passes/forms.h"

#include <algorithm>

namespace precast::passes {

std::string in_place_twin(std::string_view op) {
  // Whose functional op is an overload of another name.
  constexpr std::pair<std::string_view, std::string_view> kOthers[] = {
      {"aten::pow_.Tensor", "aten::pow.Tensor_Tensor"},
      {"aten::pow_.Scalar", "aten::pow.Tensor_Scalar"},
      {"aten::floor_divide_.Tensor", "aten::floor_divide"},
      {"aten::ldexp_", "aten::ldexp.Tensor"},
      {"aten::__ilshift__.Tensor", "aten::__lshift__.Tensor"},
      {"aten::__ilshift__.Scalar", "aten::__lshift__.Scalar"},
      {"aten::__irshift__.Tensor", "aten::__rshift__.Tensor"},
      {"aten::__irshift__.Scalar", "aten::__rshift__.Scalar"},
  };
  for (const auto& [form, twin] : kOthers)
    if (form == op) return std::string(twin);
  const size_t dot = std::min(op.find('.'), op.size());
  if (dot < 2 || op[dot - 1] != '_' || op[dot - 2] == '_') return {};
  return std::string(op.substr(0, dot - 1)) + std::string(op.substr(dot));
}

}  // namespace precast::passes
