#include "jit/variant.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <cstdio>

#include "jit/wants_gradient.h"
#include "precast/error.h"

namespace precast::jit {

namespace {

/// Results may lie as the weights do. Graphs that are run op by op take any layout, so nobody else asks.
void check_layouts(const artifact::Signature& signature, const Seen& s) {
  size_t i = 0;
  for (const auto* list : {&signature.params, &signature.buffers})
    for (const artifact::TensorMeta& t : *list) {
      const at::Tensor& now = *s.tensors[i++];
      if (!ir::equal(t.type.sizes, now.sizes()) || !ir::equal(t.type.strides, now.strides()))
        throw PrecompileError("module tensor '" + t.name + "' lies otherwise in memory: expected " +
                              ir::to_string(t.type));
    }
}

}  // namespace

std::string count(size_t n, const std::string& what) { return std::to_string(n) + " " + what + (n == 1 ? "" : "s"); }

std::string in_words(const Program& p) {
  const Account& a = p.account();
  const auto in_seconds = [](double s) {
    char text[32];
    std::snprintf(text, sizeof text, "%.3f s", s);
    return std::string(text);
  };
  std::string text = "  " + count(static_cast<size_t>(a.ops), "op") + ", " +
                     count(static_cast<size_t>(a.kernels), "kernel") + ", " +
                     count(static_cast<size_t>(a.host_ops), "host op") + "; lowered in " + in_seconds(a.seconds) + "\n";
  std::string times;
  for (const auto& [phase, seconds] : a.phases)
    times += (times.empty() ? "" : ", ") + phase + " " + in_seconds(seconds);
  text += "  times: " + times + "\n";
  if (p.differentiable())
    text += "  forward and backward; " + count(static_cast<size_t>(a.saved), "value") + " saved (" +
            std::to_string(static_cast<int64_t>(a.saved_bytes)) + " bytes), " + std::to_string(a.recomputed) +
            " computed again\n";
  for (const std::string& line : a.tuning) text += "  max_autotune: " + line + "\n";
  for (const std::string& miss : a.misses)
    text += "  disk cache: " + (miss.empty() ? std::string("hit") : "miss, " + miss) + "\n";
  for (const std::string& k : a.kernel_names) text += "  kernel " + k + "\n";
  for (const std::string& h : a.host_reasons) text += "  host op " + h + "\n";
  return text;
}

Variant::Variant(const Seen& s, const OpenDims& dims) : guards(s.arguments, s.closure, s.ambient, dims), open(dims) {
  for (size_t i = 0; i < s.bound; ++i) requires_grad.push_back(s.tensors[i]->requires_grad());
  if (!s.model) return;
  model = s.model;
  members.emplace(refs(s.arguments), model->objects());
}

bool Variant::holds(const Seen& s) const {
  if (!guards.hold(s.arguments, s.closure, s.ambient) || requires_grad.size() != s.bound) return false;
  bool same = true;
  for (size_t i = 0; i < s.bound; ++i) same &= wants_gradient(*s.tensors[i]) == static_cast<bool>(requires_grad[i]);
  for (const auto& [source, there] : found_grads)
    same &= s.tensors[static_cast<size_t>(source)]->grad().defined() == there;
  if (!same || !model || !s.model) return same && model == s.model;
  if (s.model != model && (s.model->modes() != model->modes() || s.model->objects() != model->objects())) return false;
  return !members || members->hold();
}

std::string Variant::first_failure(const Seen& s, size_t* held) const {
  if (std::string why = guards.first_failure(s.arguments, s.closure, s.ambient, held); !why.empty()) return why;
  size_t passed = 0;
  if (!held) held = &passed;
  if (s.model && model && s.model->objects() != model->objects()) return "the modules: these are others";
  ++*held;
  if (requires_grad.size() != s.bound)
    return "the modules: expected " + std::to_string(requires_grad.size()) + " parameters and buffers, found " +
           std::to_string(s.bound);
  for (size_t i = 0; i < s.bound; ++i)
    if (s.tensors[i]->requires_grad() != static_cast<bool>(requires_grad[i]))
      return "module tensor " + std::to_string(i) + ": requires_grad: expected " +
             (requires_grad[i] ? "true, found false" : "false, found true");
  for (const auto& [source, there] : found_grads)
    if (s.tensors[static_cast<size_t>(source)]->grad().defined() != there)
      return "module tensor " + std::to_string(source) +
             (there ? ": expected a gradient, found none" : ": expected no gradient, found one");
  if (!s.model || !model) return {};
  ++*held;
  if (s.model->modes() != model->modes()) return "the modules are in another mode (train, eval)";
  return members ? members->first_change() : "";
}

void Variant::give_up(std::string why) {
  eager = std::move(why);
  members.reset();  // an eager call sees what they hold
  runs_eagerly = true;
}

void Variant::check_model(const Program& p, const Seen& s) {
  if (s.model.get() == fits_) return;
  const std::lock_guard lock(fitting_mutex_);
  if (std::ranges::find(fitting_, s.model) == fitting_.end()) {
    p.check(refs(s.arguments));
    check_layouts(p.recorded().signature, s);
    constexpr size_t kKept = 4;  // the modules are the same: their tensors have been replaced
    if (fitting_.size() == kKept) fitting_.erase(fitting_.begin());
    fitting_.push_back(s.model);
  }
  fits_ = s.model.get();
}

std::string Variant::in_words() const {
  std::string text;
  if (!made_because.empty()) text += "  made because: " + made_because + "\n";
  for (const std::string& line : guards.in_words()) text += "  guard: " + line + "\n";
  if (model) {
    std::string modes;
    for (const std::string& m : model->modes()) modes += (modes.empty() ? "" : " ") + m;
    text += "  guard: these modules, modes " + modes + " (t: training, e: evaluation; in the order of a walk)\n";
    const auto wanting = static_cast<size_t>(std::ranges::count(requires_grad, true));
    text += "  guard: " + count(wanting, "parameter") + " of " + std::to_string(requires_grad.size()) +
            " module tensors require grad\n";
    for (const auto& [source, there] : found_grads)
      text += "  guard: module tensor " + std::to_string(source) + (there ? " has a gradient\n" : " has no gradient\n");
  }
  for (const std::string& c : conditions) text += "  condition: " + c + "\n";
  if (!eager.empty()) return text + "  runs eagerly: " + eager + "\n";
  if (!is_ready()) return text + "  is being compiled\n";
  return text + jit::in_words(*program.get());
}

}  // namespace precast::jit
