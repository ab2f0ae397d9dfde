#include "jit/compare.h"

#include <ATen/ATen.h>
#include <torch/csrc/autograd/autograd.h>

#include <algorithm>
#include <cmath>

#include "jit/without_hooks.h"

namespace precast::jit {

bool can_be_compared(const artifact::Signature& s) {
  return s.grads.empty() && s.cleared_grads.empty() && s.zeroed_grads.empty();
}

std::vector<at::Tensor> gradients_of(const std::vector<at::Tensor>& results, const Recorded& r, const Seen& s) {
  if (r.tangents.empty()) return {};
  std::vector<at::Tensor> outputs, weights, primals;
  for (const int i : r.tangents) {
    const at::Tensor& y = results[static_cast<size_t>(i)];
    outputs.push_back(y);
    weights.push_back(at::linspace(-1, 1, y.numel(), y.options().requires_grad(false)).reshape(y.sizes()));
  }
  for (const Recorded::Gradient& g : r.gradients) primals.push_back(*s.tensors[static_cast<size_t>(g.source)]);
  const WithoutHooks no_hooks(primals);
  return torch::autograd::grad(outputs, primals, weights, /*retain_graph=*/true, /*create_graph=*/false,
                               /*allow_unused=*/true);
}

bool close(const at::Tensor& a, const at::Tensor& b) {
  if (!a.defined() || !b.defined()) return a.defined() == b.defined();
  if (a.sizes() != b.sizes() || a.scalar_type() != b.scalar_type()) return false;
  const bool half = a.scalar_type() == at::kHalf || a.scalar_type() == at::kBFloat16;
  const double relative = half ? 2e-2 : 1e-4;
  double absolute = half ? 1e-2 : 1e-5;
  if (at::isFloatingType(b.scalar_type()) && b.numel() > 0) {  // long sums cancel
    const double largest = b.detach().abs().max().item<double>();
    if (std::isfinite(largest)) absolute = std::max(absolute, relative * largest);
  }
  return at::allclose(a.detach(), b.detach(), relative, absolute, /*equal_nan=*/true);
}

}  // namespace precast::jit
