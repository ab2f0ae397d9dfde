#include "comparison.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>

#include <algorithm>
#include <sstream>

namespace precast::demo {
namespace {

/// Integers and bools must be equal.
struct Bounds {
  double relative, absolute;
};
Bounds bounds_of(at::ScalarType type) { return type == at::kDouble ? Bounds{1e-9, 1e-10} : Bounds{1e-4, 1e-5}; }

/// In norm, as a fraction of `exact`.
double distance(const at::Tensor& t, const at::Tensor& exact) {
  return ((t.to(at::kDouble) - exact).norm() / exact.norm().clamp_min(1e-30)).item<double>();
}

std::string layout(const at::Tensor& t) {
  std::ostringstream text;
  text << t.scalar_type() << ' ' << t.sizes() << " strides " << t.strides();
  return text.str();
}

/// Strides of dimensions of one element play no part: autograd keeps either in a gradient.
bool same_layout(const at::Tensor& a, const at::Tensor& b) {
  if (a.dtype() != b.dtype() || a.sizes() != b.sizes()) return false;
  for (int64_t d = 0; d < a.dim(); ++d)
    if (a.size(d) != 1 && a.stride(d) != b.stride(d)) return false;
  return true;
}

}  // namespace

void with_other_threads(const std::function<void()>& f) {
  const int threads = at::get_num_threads();
  at::set_num_threads(threads == 1 ? 2 : 1);
  f();
  at::set_num_threads(threads);
}

void Comparison::compare(const std::string& name, const at::Tensor& eager, const at::Tensor& ours,
                         const Spread& spread) {
  if (eager.defined() != ours.defined()) return fail(name + (ours.defined() ? " is there" : " is not there"));
  if (!eager.defined()) return;
  if (!same_layout(eager, ours)) return fail(name + " is " + layout(ours) + ", eager's is " + layout(eager));
  if (!eager.is_floating_point()) {
    if (!eager.equal(ours)) fail(name + " differs");
    return;
  }
  if (!eager.numel()) return;
  const double apart = (eager - ours).abs().max().item<double>();
  if (!(apart <= difference)) difference = apart;
  const Bounds bounds = bounds_of(eager.scalar_type());
  if (at::allclose(ours, eager, bounds.relative, bounds.absolute, /*equal_nan=*/true)) return;
  std::ostringstream text;
  text << name << " differs by up to " << apart;
  if (spread.exact.defined() && eager.scalar_type() != at::kDouble) {
    const double off = distance(ours, spread.exact);
    if (off <= spread.allowed) return;
    text << "; it is off by " << off << " of the norm from float64, allowed are " << spread.allowed;
  }
  fail(text.str());
}

void Comparison::compare(const std::string& name, const std::vector<at::Tensor>& eager,
                         const std::vector<at::Tensor>& ours) {
  if (eager.size() != ours.size()) return fail(name + ": another number of tensors");
  for (size_t i = 0; i < eager.size(); ++i) compare(name + " " + std::to_string(i), eager[i], ours[i]);
}

void Comparison::compare(const Named& eager, const Named& ours) {
  for (size_t i = 0; i < eager.size(); ++i) compare(eager[i].first, eager[i].second, ours.at(i).second);
}

void Comparison::compare(const Named& eager, const Named& ours, const Named& other, const Named& exact) {
  double worst = 0;
  for (size_t i = 0; i < eager.size(); ++i)
    for (const at::Tensor& t : {eager[i].second, other.at(i).second})
      if (t.defined() && t.is_floating_point()) worst = std::max(worst, distance(t, exact.at(i).second));
  for (size_t i = 0; i < eager.size(); ++i)
    compare(eager[i].first, eager[i].second, ours.at(i).second, {exact[i].second, 2 * worst});
}

}  // namespace precast::demo
