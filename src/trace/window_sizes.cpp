#include "trace/window_sizes.h"

#include <algorithm>
#include <limits>
#include <string_view>
#include <utility>

namespace precast::trace {

using ir::Dims;
using ir::Size;

namespace {

/// The arguments of one op, by place.
class Arguments {
 public:
  explicit Arguments(const LogEntry& e) : e_(e) {}

  const ir::Type* tensor(size_t arg) const {
    const Place* p = place(arg);
    return p ? &p->type : nullptr;
  }
  const Place* place(size_t arg) const {
    for (const auto& o : e_.operands)
      if (o.arg == arg && o.item < 0) return &o.place;
    return nullptr;
  }
  std::optional<Size> number(size_t arg) const {
    for (const auto& x : e_.integers)
      if (x.arg == arg && x.item < 0) return x.value;
    const c10::IValue& v = e_.stack.at(arg);
    return v.isInt() ? std::optional(Size(v.toInt())) : std::nullopt;
  }
  bool is_none(size_t arg) const {
    return std::none_of(e_.integers.begin(), e_.integers.end(), [&](auto& x) { return x.arg == arg; }) &&
           e_.stack.at(arg).isNone();
  }
  bool flag(size_t arg) const { return e_.stack.at(arg).isBool() && e_.stack.at(arg).toBool(); }
  /// One for each of the last `n` dims; a single number counts for all. An empty list is `otherwise`.
  std::optional<Dims> list(size_t arg, size_t n, const std::optional<Dims>& otherwise = {}) const {
    const c10::IValue& v = e_.stack.at(arg);
    if (!v.isIntList()) return {};
    Dims all = ir::sizes(v.toIntVector());
    for (const auto& x : e_.integers)
      if (x.arg == arg && x.item >= 0) all.at(static_cast<size_t>(x.item)) = x.value;
    if (all.empty()) return otherwise;
    if (all.size() == 1) all.resize(n, all[0]);
    return all.size() == n ? std::optional(all) : std::nullopt;
  }

 private:
  const LogEntry& e_;
};

struct Steps {
  Dims window, stride, padding, dilation;
  bool ceil = false;
};

/// How many windows fit: (n + 2 padding - reach) // stride + 1.
std::optional<Size> windows(const Size& n, const Steps& s, size_t d) {
  const Size reach = s.dilation[d] * (s.window[d] - 1) + 1, room = n + s.padding[d] * 2 - reach;
  if (!s.ceil) return ir::floor_div(room, s.stride[d]) + 1;
  // A last window that would start in the padding behind is left out: here there is none.
  if (!ir::always_at_least(reach, s.padding[d] + s.stride[d])) return {};
  return ir::floor_div(room + s.stride[d] - 1, s.stride[d]) + 1;
}

std::optional<Geometry> slide(const ir::Type* x, const std::optional<Size>& channels, const Steps& s) {
  const size_t n = s.window.size();
  if (!x || x->sizes.size() < n + 1) return {};
  Geometry g{x->sizes, {}};
  const size_t first = g.sizes.size() - n;
  if (channels) g.sizes[first - 1] = *channels;
  for (size_t d = 0; d < n; ++d) {
    const auto size = windows(x->sizes[first + d], s, d);
    if (!size) return {};
    g.sizes[first + d] = *size;
  }
  return g;
}

std::optional<Geometry> convolution(const Arguments& a) {
  const ir::Type *x = a.tensor(0), *weight = a.tensor(1);
  if (!x || !weight || weight->sizes.size() < 3) return {};
  const size_t n = weight->sizes.size() - 2;
  const auto stride = a.list(3, n), padding = a.list(4, n), dilation = a.list(5, n), more = a.list(7, n);
  const auto groups = a.number(8);
  if (!stride || !padding || !dilation || !more || !groups) return {};
  const Dims window(weight->sizes.begin() + 2, weight->sizes.end());
  if (!a.flag(6)) return slide(x, weight->sizes[0], {window, *stride, *padding, *dilation});
  if (x->sizes.size() < n + 1) return {};
  Geometry g{x->sizes, {}};  // transposed: no rounding
  const size_t first = g.sizes.size() - n;
  g.sizes[first - 1] = weight->sizes[1] * *groups;
  for (size_t d = 0; d < n; ++d)
    g.sizes[first + d] = (x->sizes[first + d] - 1) * (*stride)[d] - (*padding)[d] * 2 +
                         (*dilation)[d] * (window[d] - 1) + (*more)[d] + 1;
  return g;
}

/// Arguments: input, window, stride (empty: the window), padding, dilation if it has one, ceil_mode.
template <size_t dims, bool dilated>
std::optional<Geometry> pool(const Arguments& a) {
  const auto window = a.list(1, dims), stride = a.list(2, dims, window), padding = a.list(3, dims);
  const auto dilation = dilated ? a.list(4, dims) : std::optional(Dims(dims, 1));
  if (!window || !stride || !padding || !dilation) return {};
  return slide(a.tensor(0), {}, {*window, *stride, *padding, *dilation, a.flag(dilated ? 5 : 4)});
}

/// The dim that argument 1 names; -1: none.
int64_t dim_of(const Arguments& a, const ir::Type* t) {
  const auto dim = a.number(1);
  const auto rank = t ? static_cast<int64_t>(t->sizes.size()) : 0;
  if (!dim || dim->is_symbolic()) return -1;
  const int64_t d = int64_t{*dim} < 0 ? int64_t{*dim} + rank : int64_t{*dim};
  return d < rank ? d : -1;
}

/// x.unfold(dim, size, step)
std::optional<Geometry> unfold(const Arguments& a) {
  const ir::Type* x = a.tensor(0);
  const int64_t dim = dim_of(a, x);
  const auto size = a.number(2), step = a.number(3);
  if (dim < 0 || !size || !step) return {};
  Geometry g{x->sizes, {}};
  Size& n = g.sizes[static_cast<size_t>(dim)];
  n = ir::floor_div(n - *size, *step) + 1;
  g.sizes.push_back(*size);
  return g;
}

/// x.slice(dim, start, end, step): both ends are counted from behind where they are negative, and cut off at the ends
/// of the tensor.
std::optional<Geometry> slice(const Arguments& a) {
  constexpr int64_t kBehind = std::numeric_limits<int64_t>::max() / 2;
  const Place* x = a.place(0);
  const int64_t dim = dim_of(a, x ? &x->type : nullptr);
  const auto step = a.number(4);
  if (dim < 0 || !step) return {};
  const auto d = static_cast<size_t>(dim);
  const Size n = x->type.sizes[d];
  const auto from_front = [&](size_t arg, const Size& otherwise) -> std::optional<Size> {
    if (a.is_none(arg)) return otherwise;
    const auto at = a.number(arg);
    if (!at || at->is_symbolic()) return {};
    return int64_t{*at} >= kBehind ? n : int64_t{*at} < 0 ? n + *at : *at;
  };
  const auto start = from_front(2, Size(0)), end = from_front(3, n);
  if (!start || !end) return {};
  const Size first = ir::max(*start, Size(0)), length = ir::max(ir::min(*end, n) - first, Size(0));
  Geometry g{x->type.sizes, x->offset + ir::min(first, n) * x->type.strides[d]};
  g.sizes[d] = ir::floor_div(length + *step - 1, *step);
  return g;
}

/// arange(end), arange(start, end), arange(start, end, step)
template <int numbers>
std::optional<Geometry> range(const Arguments& a) {
  const auto start = numbers == 1 ? std::optional(Size(0)) : a.number(0), end = a.number(numbers == 1 ? 0 : 1);
  const auto step = numbers == 3 ? a.number(2) : std::optional(Size(1));
  if (!start || !end || !step || step->is_symbolic() || int64_t{*step} < 1) return {};
  return Geometry{{ir::floor_div(*end - *start + *step - 1, *step)}, {}};
}

/// im2col(x, window, dilation, padding, stride): a column for each window.
std::optional<Geometry> im2col(const Arguments& a) {
  const ir::Type* x = a.tensor(0);
  const auto window = a.list(1, 2), dilation = a.list(2, 2), padding = a.list(3, 2), stride = a.list(4, 2);
  if (!x || !window || !dilation || !padding || !stride) return {};
  auto g = slide(x, {}, {*window, *stride, *padding, *dilation});
  if (!g) return {};
  const size_t n = g->sizes.size();
  const Size columns = g->sizes[n - 2] * g->sizes[n - 1];
  g->sizes[n - 3] = x->sizes[n - 3] * (*window)[0] * (*window)[1];
  g->sizes[n - 2] = columns;
  g->sizes.pop_back();
  return g;
}

using Rule = std::optional<Geometry> (*)(const Arguments&);
constexpr std::pair<std::string_view, Rule> kRules[] = {
    {"aten::convolution", convolution},
    {"aten::max_pool2d_with_indices", pool<2, true>},
    {"aten::max_pool3d_with_indices", pool<3, true>},
    {"aten::avg_pool2d", pool<2, false>},
    {"aten::avg_pool3d", pool<3, false>},
    {"aten::unfold", unfold},
    {"aten::im2col", im2col},
    {"aten::slice.Tensor", slice},
    {"aten::arange", range<1>},
    {"aten::arange.start", range<2>},
    {"aten::arange.start_step", range<3>},
};

}  // namespace

std::optional<Geometry> window_geometry(const LogEntry& e) {
  for (const auto& [op, rule] : kRules)
    if (op == e.info->name) return rule(Arguments(e));
  return {};
}

}  // namespace precast::trace
