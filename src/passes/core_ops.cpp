// The list of docs/core-ops.md, for passes that need to know what a node does.
#include <unordered_map>

#include "passes/passes.h"

namespace precast::passes {

std::optional<Family> core_family(std::string_view op) {
  static const auto& families = *new std::unordered_map<std::string_view, Family>([] {
    std::unordered_map<std::string_view, Family> m;
    auto add = [&](Family f, std::initializer_list<std::string_view> ops) {
      for (std::string_view name : ops) m.emplace(name, f);
    };
    add(Family::pointwise, {"aten::neg",
                            "aten::abs",
                            "aten::sign",
                            "aten::sgn",
                            "aten::exp",
                            "aten::exp2",
                            "aten::expm1",
                            "aten::log",
                            "aten::log2",
                            "aten::log10",
                            "aten::log1p",
                            "aten::sqrt",
                            "aten::rsqrt",
                            "aten::reciprocal",
                            "aten::sin",
                            "aten::cos",
                            "aten::tan",
                            "aten::asin",
                            "aten::acos",
                            "aten::atan",
                            "aten::sinh",
                            "aten::cosh",
                            "aten::tanh",
                            "aten::asinh",
                            "aten::acosh",
                            "aten::atanh",
                            "aten::erf",
                            "aten::erfc",
                            "aten::erfinv",
                            "aten::lgamma",
                            "aten::digamma",
                            "aten::sigmoid",
                            "aten::relu",
                            "aten::floor",
                            "aten::ceil",
                            "aten::round",
                            "aten::trunc",
                            "aten::isnan",
                            "aten::isinf",
                            "aten::logical_not",
                            "aten::bitwise_not",
                            "aten::clone",
                            "aten::_to_copy",
                            "aten::add.Tensor",
                            "aten::sub.Tensor",
                            "aten::mul.Tensor",
                            "aten::div.Tensor",
                            "aten::div.Tensor_mode",
                            "aten::remainder.Tensor",
                            "aten::fmod.Tensor",
                            "aten::pow.Tensor_Tensor",
                            "aten::maximum",
                            "aten::minimum",
                            "aten::fmax",
                            "aten::fmin",
                            "aten::atan2",
                            "aten::hypot",
                            "aten::copysign.Tensor",
                            "aten::nextafter",
                            "aten::eq.Tensor",
                            "aten::ne.Tensor",
                            "aten::lt.Tensor",
                            "aten::le.Tensor",
                            "aten::gt.Tensor",
                            "aten::ge.Tensor",
                            "aten::bitwise_and.Tensor",
                            "aten::bitwise_or.Tensor",
                            "aten::bitwise_xor.Tensor",
                            "aten::bitwise_left_shift.Tensor",
                            "aten::bitwise_right_shift.Tensor",
                            "aten::logical_and",
                            "aten::logical_or",
                            "aten::logical_xor",
                            "aten::add.Scalar",
                            "aten::sub.Scalar",
                            "aten::mul.Scalar",
                            "aten::div.Scalar",
                            "aten::div.Scalar_mode",
                            "aten::remainder.Scalar",
                            "aten::fmod.Scalar",
                            "aten::pow.Tensor_Scalar",
                            "aten::pow.Scalar",
                            "aten::eq.Scalar",
                            "aten::ne.Scalar",
                            "aten::lt.Scalar",
                            "aten::le.Scalar",
                            "aten::gt.Scalar",
                            "aten::ge.Scalar",
                            "aten::bitwise_and.Scalar",
                            "aten::bitwise_or.Scalar",
                            "aten::bitwise_xor.Scalar",
                            "aten::bitwise_left_shift.Tensor_Scalar",
                            "aten::bitwise_right_shift.Tensor_Scalar",
                            "aten::where.self"});
    add(Family::layer, {"aten::_scaled_dot_product_flash_attention_for_cpu",
                        "aten::_scaled_dot_product_flash_attention_for_cpu_backward", "aten::mkldnn_rnn_layer",
                        "aten::mkldnn_rnn_layer_backward", "aten::_ctc_loss", "aten::_ctc_loss_backward"});
    add(Family::creation, {"aten::full", "aten::arange.start_step", "aten::scalar_tensor"});
    add(Family::reduction, {"aten::sum.dim_IntList", "aten::prod.dim_int", "aten::amax", "aten::amin", "aten::argmax",
                            "aten::argmin", "aten::any.dims", "aten::all.dims"});
    add(Family::scan, {"aten::cumsum", "aten::cumprod"});
    add(Family::order,
        {"aten::sort.stable", "aten::topk", "aten::kthvalue", "aten::median.dim", "aten::nanmedian.dim", "aten::mode",
         "aten::searchsorted.Tensor", "aten::cummax", "aten::cummin", "aten::logcumsumexp"});
    add(Family::matrix, {"aten::mm", "aten::bmm", "aten::einsum"});
    add(Family::index, {"aten::gather", "aten::index_select", "aten::index.Tensor", "aten::embedding",
                        "aten::index_put", "aten::scatter.src", "aten::scatter.value", "aten::scatter_add",
                        "aten::index_add", "aten::scatter_reduce.two", "aten::embedding_dense_backward"});
    add(Family::shape, {"prim::view", "prim::scatter", "aten::cat", "aten::constant_pad_nd", "aten::flip", "aten::roll",
                        "aten::repeat"});
    return m;
  }());
  auto it = families.find(op);
  if (it == families.end()) return {};
  return it->second;
}

bool reads_elements(const ir::Node& n) {
  const auto family = core_family(n.op);
  return family && family != Family::order && !n.op.starts_with("prim::") && n.writes.empty() && n.shared.empty();
}

}  // namespace precast::passes
