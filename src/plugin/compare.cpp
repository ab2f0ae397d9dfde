#include "plugin/compare.h"

#include <ATen/ATen.h>

#include <cmath>
#include <limits>

#include "host_torch/tensor_types.h"

namespace precast::plugin {
namespace {

bool same_layout(const at::Tensor& a, const at::Tensor& b) {
  if (a.numel() == 0) return true;
  for (int64_t d = 0; d < a.dim(); ++d)
    if (a.size(d) > 1 && a.stride(d) != b.stride(d)) return false;
  return true;
}

// Values as f64, complex ones as pairs.
at::Tensor wide(const at::Tensor& t) {
  return t.is_complex() ? at::view_as_real(t.to(at::kComplexDouble)) : t.to(at::kDouble);
}

}  // namespace

std::string words(const at::Tensor& t) { return t.defined() ? ir::to_string(host_torch::type_of(t)) : "none"; }

Comparison compare(const at::Tensor& expected, const at::Tensor& found, double relative, double absolute) {
  const double infinity = std::numeric_limits<double>::infinity();
  if (!expected.defined() && !found.defined()) return {};
  if (!expected.defined() || !found.defined() || expected.scalar_type() != found.scalar_type() ||
      expected.sizes() != found.sizes() || !same_layout(expected, found))
    return {infinity, "expected " + words(expected) + ", found " + words(found)};
  if (expected.numel() == 0) return {};

  const at::ScalarType dtype = expected.scalar_type();
  const bool exact = at::isIntegralType(dtype, true);
  const double step = dtype == at::kHalf ? 0x1p-10 : dtype == at::kBFloat16 ? 0x1p-7 : 0;
  const double relative_here = exact ? 0 : std::max(relative, 4 * step),
               absolute_here = exact ? 0 : std::max(absolute, 4 * step);
  const at::Tensor e = wide(expected.detach()), f = wide(found.detach());
  const at::Tensor same = exact ? expected.eq(found) : e.eq(f).logical_or(e.isnan().logical_and(f.isnan()));
  const at::Tensor distance = at::where(same, 0.0, (e - f).abs()).nan_to_num(infinity, infinity, infinity);
  const at::Tensor ok = same.logical_or(distance <= e.abs() * relative_here + absolute_here);
  Comparison result{distance.max().item<double>(), ""};
  if (ok.all().item<bool>()) return result;
  const at::Tensor wrong = ok.logical_not().reshape({-1});
  const int64_t at = wrong.to(at::kInt).argmax().item<int64_t>();
  char text[160];
  std::snprintf(text, sizeof text, "%lld of %lld values, first at %lld: expected %.9g, found %.9g",
                static_cast<long long>(wrong.sum().item<int64_t>()), static_cast<long long>(wrong.numel()),
                static_cast<long long>(at), e.reshape({-1})[at].item<double>(), f.reshape({-1})[at].item<double>());
  result.why = text;
  return result;
}

}  // namespace precast::plugin
