// In-place and out= forms of ops: the functional op that computes what they write.
#pragma once
#include <string>
#include <string_view>

namespace precast::passes {

/// "aten::add_.Tensor" -> "aten::add.Tensor"; empty if the op is not in place.
std::string in_place_twin(std::string_view op);
/// "aten::topk.values" -> "aten::topk", for the first such op that `has_rule`; empty if there is none.
template <class F>
std::string out_twin(std::string_view op, F has_rule);

/// What the overload of an out= form may belong to; the overload of the functional op, ".Tensor" for "add.out".
struct OutForm {
  std::string_view out, functional;
};
inline constexpr OutForm kOutForms[] = {
    {".out", ""},
    {".out", ".Tensor"},
    {".out_mode", ".Tensor_mode"},
    {".IntList_out", ".dim_IntList"},
    {".grad_input", ""},
    {".values", ""},
    {".values_stable", ".stable"},
    {".dim_values", ".dim"},
    {".dim_max", ".dim"},
    {".dim_min", ".dim"},
    {".OutTensor", ".Tensor"},
    {".OutScalar_Self", ".Scalar_Self"},
    {".OutScalar_Other", ".Scalar_Other"},
};

template <class F>
std::string out_twin(std::string_view op, F has_rule) {
  const size_t dot = op.find('.');
  if (dot == op.npos) return {};
  const std::string base(op.substr(0, dot));
  const std::string_view overload = op.substr(dot);
  for (const OutForm& form : kOutForms)
    if (form.out == overload)
      if (std::string twin = base + std::string(form.functional); has_rule(twin)) return twin;
  // "div.Scalar_mode_out"
  if (!overload.ends_with("_out")) return {};
  std::string twin = base + std::string(overload.substr(0, overload.size() - 4));
  return has_rule(twin) ? twin : std::string();
}

}  // namespace precast::passes
