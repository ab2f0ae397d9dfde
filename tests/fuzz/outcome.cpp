#include "outcome.h"

#include <ATen/ATen.h>

#include <cmath>

namespace precast::fuzz {
namespace {

struct Tolerance {
  double relative, absolute;
};
Tolerance tolerance(at::ScalarType dtype) {
  switch (at::toRealValueType(dtype)) {
    case at::kHalf:
      return {4e-3, 4e-3};
    case at::kBFloat16:
      return {3e-2, 3e-2};
    case at::kFloat:
      return {1e-4, 1e-5};
    case at::kDouble:
      return {1e-8, 1e-9};
    default:
      return {0, 0};
  }
}

std::string words(const at::Tensor& t) {
  if (!t.defined()) return "none";
  std::string text = std::string(at::toString(t.scalar_type())) + "[";
  for (int64_t d = 0; d < t.dim(); ++d) text += (d ? "," : "") + std::to_string(t.size(d));
  text += t.is_conj() ? "] conjugate, strides {" : "] strides {";
  for (int64_t d = 0; d < t.dim(); ++d) text += (d ? "," : "") + std::to_string(t.stride(d));
  return text + "}";
}

// All tensors of an outcome, in the order that slack uses.
std::vector<std::pair<std::string, at::Tensor>> everything(const Outcome& o) {
  std::vector<std::pair<std::string, at::Tensor>> all;
  const auto add = [&](const char* what, const std::vector<at::Tensor>& tensors) {
    for (size_t i = 0; i < tensors.size(); ++i) all.emplace_back(what + std::to_string(i), tensors[i]);
  };
  add("result ", o.results);
  add("input v", o.inputs);
  add("gradient of v", o.gradients);
  return all;
}

bool float_type(const at::Tensor& t) {
  return at::isFloatingType(t.scalar_type()) || at::isComplexType(t.scalar_type());
}

// As doubles; complex numbers as pairs.
at::Tensor numbers(const at::Tensor& t) {
  const at::Tensor plain = t.detach();
  return (plain.is_complex() ? at::view_as_real(plain.resolve_conj()) : plain).to(at::kDouble);
}

double largest_difference(const at::Tensor& a, const at::Tensor& b) {
  if (!a.defined() || !b.defined() || a.numel() == 0 || !float_type(a)) return 0;
  return (numbers(a) - numbers(b)).abs().nan_to_num(0, 0, 0).max().item<double>();
}

std::string value_difference(const at::Tensor& e, const at::Tensor& f, double slack) {
  const at::Tensor expected = numbers(e), found = numbers(f);
  const Tolerance tol = float_type(e) && slack != kExact ? tolerance(e.scalar_type()) : Tolerance{0, 0};
  const at::Tensor near =
      (expected - found).abs() <= expected.abs() * tol.relative + (tol.absolute + std::max(slack, 0.0));
  const at::Tensor same = expected.eq(found).logical_or(expected.isnan().logical_and(found.isnan()));
  // 64-bit integers do not fit a double.
  const at::Tensor ok = float_type(e) ? near.logical_or(same) : e.detach().eq(f.detach());
  if (ok.all().item<bool>()) return "";
  const int64_t at = ok.reshape({-1}).logical_not().to(at::kInt).argmax().item<int64_t>();
  const auto n_wrong = ok.logical_not().sum().item<int64_t>();
  char text[160];
  std::snprintf(text, sizeof text, "element %lld: expected %.9g, found %.9g (%lld of %lld differ)",
                static_cast<long long>(at), expected.reshape({-1})[at].item<double>(),
                found.reshape({-1})[at].item<double>(), static_cast<long long>(n_wrong),
                static_cast<long long>(ok.numel()));
  return text;
}

// Which memory a result is a view of: an input ("input v1 + 3"), an earlier result, or none.
std::string aliasing(const Outcome& o, size_t i) {
  const at::Tensor& r = o.results[i];
  if (!r.defined() || r.numel() == 0) return "fresh";
  for (size_t j = 0; j < o.inputs.size(); ++j)
    if (o.inputs[j].defined() && r.is_alias_of(o.inputs[j]))
      return "a view of input v" + std::to_string(j) + " at " +
             std::to_string(r.storage_offset() - o.inputs[j].storage_offset());
  for (size_t j = 0; j < i; ++j)
    if (o.results[j].defined() && o.results[j].numel() && r.is_alias_of(o.results[j]))
      return "a view of result " + std::to_string(j) + " at " +
             std::to_string(r.storage_offset() - o.results[j].storage_offset());
  return "fresh";
}

// Strides of dimensions of size 1, and of empty tensors, mean nothing.
bool same_layout(const at::Tensor& a, const at::Tensor& b) {
  if (a.numel() == 0) return true;
  for (int64_t d = 0; d < a.dim(); ++d)
    if (a.size(d) > 1 && a.stride(d) != b.stride(d)) return false;
  return true;
}

}  // namespace

Outcome outcome_of(const std::vector<at::Tensor>& results, const std::vector<at::Tensor>& inputs) {
  Outcome o{results, inputs, {}, ""};
  for (const at::Tensor& in : inputs) o.gradients.push_back(in.is_leaf() ? in.grad() : at::Tensor());
  return o;
}

Outcome run_eager(const Program& p, Variant variant, int runs, const Noise& noise) {
  const std::vector<at::Tensor> inputs = make_inputs(p, variant);
  std::vector<at::Tensor> values;
  for (int run = 0; run < runs; ++run)
    values = run_steps(p, inputs, {noise.epsilons, noise.seed + 10 * static_cast<uint64_t>(run)});
  return outcome_of(pick_results(p, values), inputs);
}

namespace {

template <class F>
Outcome with_error(F&& run) {
  try {
    return run();
  } catch (const std::exception& e) {
    Outcome o;
    o.error = e.what();
    return o;
  }
}

}  // namespace

Outcome try_eager(const Program& p, Variant variant, int runs) {
  return with_error([&] { return run_eager(p, variant, runs); });
}
Outcome try_eager(const Program& p, const std::vector<at::Tensor>& inputs, const Swap& swap) {
  return with_error([&] { return outcome_of(pick_results(p, run_steps(p, inputs, {}, swap)), inputs); });
}

std::string difference(const Outcome& expected, const Outcome& found, const Slack& slack, bool small) {
  const auto e = everything(expected), f = everything(found);
  if (e.size() != f.size())
    return "expected " + std::to_string(expected.results.size()) + " results, found " +
           std::to_string(found.results.size());
  for (size_t i = 0; i < e.size(); ++i) {
    const auto& [what, a] = e[i];
    const at::Tensor& b = f[i].second;
    const auto nothing = [](const at::Tensor& t) { return !t.defined() || t.numel() == 0; };
    if (what.starts_with("gradient") && nothing(a) && nothing(b)) continue;  // empty or none: nobody can tell
    if (a.defined() != b.defined()) return what + ": expected " + words(a) + ", found " + words(b);
    if (!a.defined()) continue;
    if (a.scalar_type() != b.scalar_type() || a.sizes() != b.sizes() || a.is_conj() != b.is_conj())
      return what + ": expected " + words(a) + ", found " + words(b);
    // The layout of a gradient that nobody had before is the engine's choice.
    if (i < expected.results.size() && !small && !same_layout(a, b))
      return what + ": expected " + words(a) + ", found " + words(b);
    const std::string values = value_difference(a, b, i < slack.size() ? slack[i] : 0);
    if (!values.empty()) return what + " (" + words(a) + "), " + values;
  }
  for (size_t i = 0; i < expected.results.size(); ++i) {
    const std::string a = aliasing(expected, i), b = aliasing(found, i);
    if (a != b && !(small && b == "fresh"))
      return "result " + std::to_string(i) + ": expected to be " + a + ", found " + b;
  }
  return "";
}

Slack slack_of(const Program& p, Variant variant, int runs, const Outcome& outcome) {
  const auto clean = everything(outcome);
  Slack slack(clean.size(), 0);
  for (uint64_t seed : {1u, 2u, 3u}) {
    const auto noisy = everything(run_eager(p, variant, runs, {4, seed}));
    for (size_t i = 0; i < slack.size(); ++i)
      slack[i] = std::max(slack[i], 4 * largest_difference(clean[i].second, noisy[i].second));
  }
  for (size_t i = 0; i < p.results.size(); ++i)
    if (!p.inexact[static_cast<size_t>(p.results[i])]) slack[i] = kExact;
  for (size_t i = 0; i < p.inputs.size(); ++i)
    if (!p.inexact[i]) slack[p.results.size() + i] = kExact;
  return slack;
}

bool close_under_noise(const Outcome& clean, const Outcome& noisy) {
  const auto a = everything(clean), b = everything(noisy);
  for (size_t i = 0; i < a.size(); ++i) {
    if (!a[i].second.defined() || a[i].second.numel() == 0) continue;
    if (!float_type(a[i].second)) {
      if (!a[i].second.equal(b[i].second)) return false;
      continue;
    }
    const at::Tensor x = numbers(a[i].second), y = numbers(b[i].second);
    if (!x.isnan().equal(y.isnan()) || !x.isinf().equal(y.isinf())) return false;
    if (largest_difference(x, y) > 0.02 * (1 + x.nan_to_num(0, 0, 0).abs().max().item<double>())) return false;
  }
  return true;
}

}  // namespace precast::fuzz
