#include "passes/lattice.h"

#include <algorithm>
#include <functional>

namespace precast::passes {
namespace {

/// What the digit of one radix takes: [low, low + count), and the window's dims that walk it.
struct Digit {
  int64_t radix = 1, low = 0, count = 1;
  int dim = -1;       // of the window; -1: none
  int64_t times = 1;  // steps of that dim to one step here
};
struct Digits {
  std::vector<Digit> all;  // largest radix first
  int64_t rest = 0;        // of the offset
};

using Radices = std::vector<int64_t>;

/// The strides of both, largest first, if each divides the one before.
std::optional<Radices> common_radices(const Window& a, const Window& b) {
  Radices found;
  for (const Window* w : {&a, &b})
    if (ir::is_symbolic(w->sizes) || ir::is_symbolic(w->strides)) return std::nullopt;
  for (const Window* w : {&a, &b})
    for (size_t d = 0; d < w->sizes.size(); ++d) {
      if (w->sizes[d] == 0) return std::nullopt;
      if (w->sizes[d] > 1 && w->strides[d] > 0) found.push_back(w->strides[d]);
    }
  std::ranges::sort(found, std::greater<>());
  found.erase(std::ranges::unique(found).begin(), found.end());
  for (size_t i = 1; i < found.size(); ++i)
    if (found[i - 1] % found[i] != 0) return std::nullopt;
  return found;
}

/// The window as ranges of digits; nothing where one digit carries into the next.
std::optional<Digits> digits_of(const Window& w, const Radices& radices) {
  Digits r;
  r.rest = w.offset;
  for (const int64_t radix : radices) {
    r.all.push_back({.radix = radix, .low = r.rest / radix});
    r.rest %= radix;
  }
  std::vector<int> dims;  // smallest stride first
  for (size_t d = 0; d < w.sizes.size(); ++d)
    if (w.sizes[d] > 1 && w.strides[d] > 0) dims.push_back(static_cast<int>(d));
  std::ranges::sort(dims, {}, [&](int d) { return int64_t{w.strides[static_cast<size_t>(d)]}; });
  for (const int d : dims) {
    int64_t count = w.sizes[static_cast<size_t>(d)], times = 1;
    auto i =
        static_cast<size_t>(std::ranges::find(radices, int64_t{w.strides[static_cast<size_t>(d)]}) - radices.begin());
    for (;; --i) {
      Digit& digit = r.all[i];
      if (digit.dim >= 0) return std::nullopt;
      digit.dim = d, digit.times = times, digit.count = count;
      const int64_t most = i > 0 ? radices[i - 1] / radices[i] : digit.low + count;
      if (digit.low + count <= most) break;
      if (digit.low != 0 || count % most != 0) return std::nullopt;  // else the dim goes on in the next digit
      digit.count = most, count /= most, times *= most;
    }
  }
  return r;
}

}  // namespace

bool apart(const Window& a, const Window& b) {
  const auto radices = common_radices(a, b);
  if (!radices) return false;
  const auto x = digits_of(a, *radices), y = digits_of(b, *radices);
  if (!x || !y) return false;
  if (x->rest != y->rest) return true;
  for (size_t i = 0; i < radices->size(); ++i) {
    const Digit &p = x->all[i], &q = y->all[i];
    if (p.low + p.count <= q.low || q.low + q.count <= p.low) return true;
  }
  return false;
}

std::optional<Window> inside(const Window& part, const Window& whole, const Dims& strides) {
  const auto radices = common_radices(part, whole);
  if (!radices) return std::nullopt;
  for (size_t d = 0; d < whole.sizes.size(); ++d)
    if (whole.sizes[d] > 1 && whole.strides[d] <= 0) return std::nullopt;
  const auto inner = digits_of(part, *radices), outer = digits_of(whole, *radices);
  if (!inner || !outer || inner->rest != outer->rest) return std::nullopt;
  Window found{.sizes = part.sizes, .strides = Dims(part.sizes.size(), 0)};
  for (size_t i = radices->size(); i-- > 0;) {
    const Digit &p = inner->all[i], &q = outer->all[i];
    if (p.low < q.low || p.low + p.count > q.low + q.count) return std::nullopt;
    const int64_t step = q.dim < 0 ? 0 : int64_t{strides[static_cast<size_t>(q.dim)]} * q.times;
    found.offset += (p.low - q.low) * step;
    if (p.dim < 0 || p.count == 1) continue;
    Size& stride = found.strides[static_cast<size_t>(p.dim)];
    if (p.times == 1 && stride == 0)
      stride = step;
    else if (step != stride * p.times)
      return std::nullopt;
  }
  return found;
}

}  // namespace precast::passes
