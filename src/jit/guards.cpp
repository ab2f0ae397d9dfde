#include "jit/guards.h"

#include <ATen/ATen.h>
#include <ATen/autocast_mode.h>

#include <algorithm>
#include <bit>
#include <cstring>

#include "host_torch/attributes.h"
#include "host_torch/tensor_types.h"
#include "jit/wants_gradient.h"

namespace precast::jit {
namespace {

using detail::Arguments;
using detail::Kind;

int same_as(const Arguments& a, size_t leaf) {
  for (size_t i = 0; i < leaf; ++i)
    if (a.leaves[i].kind == Kind::tensor && a.leaves[i].tensor->is_same(*a.leaves[leaf].tensor))
      return static_cast<int>(i);
  return -1;
}

bool is_plain(const at::Tensor& t) { return t.layout() == at::kStrided && !t.is_quantized() && t.has_storage(); }

}  // namespace

bool is_canonical(const at::Tensor& t) {
  int64_t stride = 1;
  for (int64_t d = t.dim(); d-- > 0; stride *= std::max<int64_t>(t.size(d), 1))
    if (t.stride(d) != stride) return false;
  return true;
}

Ambient Ambient::now() {
  Ambient a;
  a.grad = at::GradMode::is_enabled();
  a.inference = c10::InferenceMode::is_enabled();
  a.autocast = at::autocast::is_autocast_enabled(at::kCPU);
  if (a.autocast) a.autocast_dtype = at::autocast::get_autocast_dtype(at::kCPU);
  a.deterministic = at::globalContext().deterministicAlgorithms();
  if (a.deterministic) a.deterministic_warn_only = at::globalContext().deterministicAlgorithmsWarnOnly();
  a.default_dtype = c10::typeMetaToScalarType(c10::get_default_dtype());
  return a;
}

AutocastMode::AutocastMode(const Ambient& m)
    : enabled_(at::autocast::is_autocast_enabled(at::kCPU)), dtype_(at::autocast::get_autocast_dtype(at::kCPU)) {
  at::autocast::set_autocast_enabled(at::kCPU, m.autocast);
  if (m.autocast) at::autocast::set_autocast_dtype(at::kCPU, m.autocast_dtype);
}
AutocastMode::~AutocastMode() {
  if (!enabled_) at::autocast::clear_cache();
  at::autocast::set_autocast_enabled(at::kCPU, enabled_);
  at::autocast::set_autocast_dtype(at::kCPU, dtype_);
}

Guards::Tensor Guards::tensor_of(const Arguments& a, size_t leaf) {
  const at::Tensor& t = *a.leaves[leaf].tensor;
  Tensor g{t.scalar_type(),  t.device(), is_plain(t), t.requires_grad(), t.is_conj(), t.is_neg(),
           t.is_inference(), {},         {},          same_as(a, leaf),  {}};
  if (g.plain) g.sizes = t.sizes().vec(), g.strides = t.strides().vec();
  return g;
}

Guards::Guards(const Arguments& a, std::span<const std::byte> closure, const Ambient& ambient, OpenDims open)
    : positional_(a.positional),
      module_positions_(a.module_positions.begin(), a.module_positions.end()),
      spec_(a.spec),
      closure_(closure.begin(), closure.end()),
      ambient_(ambient) {
  for (size_t i = 0; i < a.leaves.size(); ++i) {
    const detail::Leaf& from = a.leaves[i];
    Leaf& leaf = leaves_.emplace_back();
    leaf.kind = from.kind;
    if (from.kind == Kind::tensor) leaf.tensor = tensor_of(a, i), leaf.tensor->open = open[i];
    if (from.kind == Kind::real) leaf.real = from.real;
    if (from.kind == Kind::boolean || from.kind == Kind::integer) leaf.integer = from.integer;
    if (from.kind == Kind::string) leaf.text.assign(from.text, static_cast<size_t>(from.length));
  }
}

bool Guards::holds(const Leaf& leaf, const Arguments& a, size_t i, bool sizes) {
  const detail::Leaf& now = a.leaves[i];
  if (now.kind != leaf.kind) return false;
  switch (leaf.kind) {
    case Kind::none:
      return true;
    case Kind::boolean:
    case Kind::integer:
      return now.integer == leaf.integer;
    case Kind::real:  // NaN and -0 are values, too
      return std::bit_cast<uint64_t>(now.real) == std::bit_cast<uint64_t>(leaf.real);
    case Kind::string:
      return std::string_view(now.text, static_cast<size_t>(now.length)) == leaf.text;
    case Kind::tensor:
      break;
  }
  const at::Tensor& t = *now.tensor;
  const Tensor& g = *leaf.tensor;
  if (t.scalar_type() != g.dtype || t.device() != g.device || is_plain(t) != g.plain ||
      wants_gradient(t) != g.requires_grad || t.is_conj() != g.conj || t.is_neg() != g.neg ||
      t.is_inference() != g.inference)
    return false;
  if (!g.plain) return true;
  if (same_as(a, i) != g.same_as) return false;
  if (!sizes) return t.dim() == static_cast<int64_t>(g.sizes.size());
  if (g.open.empty()) return t.sizes() == g.sizes && t.strides() == g.strides;
  if (t.dim() != static_cast<int64_t>(g.sizes.size()) || !is_canonical(t)) return false;
  for (int64_t d = 0; d < t.dim(); ++d)
    if (g.open.contains(d) ? t.size(d) < 2 : t.size(d) != g.sizes[static_cast<size_t>(d)]) return false;
  return true;
}

bool Guards::hold_outside(const Arguments& a, std::span<const std::byte> closure, const Ambient& ambient) const {
  return a.positional == positional_ && a.leaves.size() == leaves_.size() && ambient == ambient_ &&
         std::ranges::equal(a.module_positions, module_positions_) && spec_ == a.spec &&
         std::ranges::equal(closure, closure_);
}

bool Guards::hold(const Arguments& a, std::span<const std::byte> closure, const Ambient& ambient) const {
  if (!hold_outside(a, closure, ambient)) return false;
  for (size_t i = 0; i < leaves_.size(); ++i)
    if (!holds(leaves_[i], a, i)) return false;
  return true;
}

std::optional<OpenDims> Guards::to_open(const Arguments& a, std::span<const std::byte> closure,
                                        const Ambient& ambient) const {
  if (!hold_outside(a, closure, ambient)) return std::nullopt;
  OpenDims open;
  for (size_t i = 0; i < leaves_.size(); ++i) {
    if (!holds(leaves_[i], a, i, false)) return std::nullopt;
    if (leaves_[i].kind != Kind::tensor || !leaves_[i].tensor->plain) continue;
    const at::Tensor& t = *a.leaves[i].tensor;
    const Tensor& g = *leaves_[i].tensor;
    const auto may = [](int64_t size) { return size >= 2; };
    for (int64_t d = 0; d < t.dim(); ++d) {
      const int64_t then = g.sizes[static_cast<size_t>(d)];
      if (may(t.size(d)) && is_canonical(t) && (g.open.contains(d) || (then != t.size(d) && may(then))))
        open[i].insert(d);
    }
  }
  return open;
}

std::string Guards::in_words(const Leaf& leaf) {
  switch (leaf.kind) {
    case Kind::none:
      return "none";
    case Kind::boolean:
      return leaf.integer ? "true" : "false";
    case Kind::integer:
      return std::to_string(leaf.integer);
    case Kind::real:
      return host_torch::in_words(ir::Attr(leaf.real));
    case Kind::string:
      return host_torch::in_words(ir::Attr(leaf.text));
    case Kind::tensor:
      break;
  }
  const Tensor& t = *leaf.tensor;
  if (!t.plain) return "a tensor that is not strided";
  ir::Type type;
  type.dtype = static_cast<ir::Dtype>(t.dtype);
  type.sizes = ir::sizes(t.sizes);
  if (t.open.empty()) type.strides = ir::sizes(t.strides);
  for (const int64_t d : t.open)
    type.sizes[static_cast<size_t>(d)] = ir::Size::symbol({.id = static_cast<int>(d), .min = 2});
  if (!t.open.empty()) type.strides = ir::contiguous_strides(type.sizes);
  type.conj = t.conj, type.neg = t.neg;
  return ir::to_string(type) + (t.requires_grad ? " that requires grad" : "") +
         (t.inference ? " of inference mode" : "") +
         (t.same_as >= 0 ? ", the same tensor as leaf " + std::to_string(t.same_as) : "");
}

std::vector<std::string> Guards::in_words() const {
  std::vector<std::string> lines = {"structure " + spec_};
  for (size_t i = 0; i < leaves_.size(); ++i)
    lines.push_back("leaf " + std::to_string(i) + ": " + in_words(leaves_[i]));
  if (!closure_.empty()) lines.push_back("the " + std::to_string(closure_.size()) + " bytes that the callable holds");
  lines.push_back(std::string("grad mode ") + (ambient_.grad ? "on" : "off") +
                  (ambient_.inference ? ", inference mode" : "") +
                  (ambient_.autocast ? std::string(", autocast to ") + c10::toString(ambient_.autocast_dtype) : "") +
                  (ambient_.deterministic ? ", deterministic algorithms" : "") +
                  (ambient_.deterministic_warn_only ? " (warnings only)" : "") + ", default dtype " +
                  c10::toString(ambient_.default_dtype));
  return lines;
}

std::string Guards::first_failure(const Arguments& a, std::span<const std::byte> closure, const Ambient& now,
                                  size_t* held) const {
  size_t count = 0;
  if (!held) held = &count;
  *held = 0;
  const auto differs = [](const std::string& what, const std::string& expected, const std::string& found) {
    return what + ": expected " + expected + ", found " + found;
  };
  if (spec_ != a.spec || a.positional != positional_ || !std::ranges::equal(a.module_positions, module_positions_) ||
      a.leaves.size() != leaves_.size())
    return differs("structure of the arguments", spec_, a.spec);
  const Guards found(a, closure, now);
  for (size_t i = 0; i < leaves_.size(); ++i, ++*held)
    if (!holds(leaves_[i], a, i))
      return differs("leaf " + std::to_string(i), in_words(leaves_[i]), in_words(found.leaves_[i]));
  ++*held;
  if (!std::ranges::equal(closure, closure_)) return "what the callable holds (its captured values) has changed";
  ++*held;
  const auto mode = [](bool on) { return std::string(on ? "on" : "off"); };
  if (now.grad != ambient_.grad) return differs("grad mode", mode(ambient_.grad), mode(now.grad));
  if (now.inference != ambient_.inference)
    return differs("inference mode", mode(ambient_.inference), mode(now.inference));
  if (now.autocast != ambient_.autocast || now.autocast_dtype != ambient_.autocast_dtype) {
    const auto words = [&](const Ambient& m) {
      return mode(m.autocast) + (m.autocast ? std::string(" to ") + c10::toString(m.autocast_dtype) : "");
    };
    return differs("autocast", words(ambient_), words(now));
  }
  if (now.deterministic != ambient_.deterministic || now.deterministic_warn_only != ambient_.deterministic_warn_only) {
    const auto words = [&](const Ambient& m) {
      return mode(m.deterministic) + (m.deterministic_warn_only ? " (warnings only)" : "");
    };
    return differs("deterministic algorithms", words(ambient_), words(now));
  }
  if (now.default_dtype != ambient_.default_dtype)
    return differs("default dtype", c10::toString(ambient_.default_dtype), c10::toString(now.default_dtype));
  ++*held;
  return {};
}

}  // namespace precast::jit
