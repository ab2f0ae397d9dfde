// Pooling as reductions over windows of channels-last tensors, and its gradients in the form that gathers: each element
// of the input sums over the few windows that may contain it, so that nothing is written twice.
#include <algorithm>
#include <limits>
#include <numeric>

#include "passes/rules.h"
#include "passes/windows.h"

namespace precast::passes {
namespace {

using ir::Dtype;

Val computed(Val v) { return cast(v, ir::is_float(v.dtype()) ? compute_dtype(v.dtype()) : Dtype::i64); }

/// The operand with a batch dim, channels last; the result goes back the same way.
struct Images {
  Val x;            // [N, S..., C]
  size_t rank = 0;  // spatial dims
  bool batched = true;
  Dims sizes() const { return Dims(x.sizes().begin() + 1, x.sizes().end() - 1); }
};
Images images(Val x, size_t rank) {
  const bool batched = x.sizes().size() == rank + 2;
  if (!batched && x.sizes().size() != rank + 1) decline("unusual sizes");
  if (x.numel() == 0) decline("nothing to pool");
  return {channels_last(batched ? x : unsqueeze(x, 0)), rank, batched};
}
Val like(const Images& i, Val y) {
  y = channels_first(y);
  return i.batched ? y : squeeze(y, 0);
}

/// A dim of another tensor among `rank` spatial ones: [1, ..., n, ..., 1], and one for the channels.
Val along(Val v, size_t dim, size_t rank) {
  Dims sizes(rank + 2, 1);
  sizes[dim + 1] = v.numel();
  return reshape(v, sizes);
}
Dims dims_from(size_t first, size_t count) {
  Dims d(count);
  std::iota(d.begin(), d.end(), static_cast<int64_t>(first));
  return d;
}

Number lowest(Dtype d) {
  switch (d) {
    case Dtype::u8:
      return 0;
    case Dtype::i8:
      return std::numeric_limits<int8_t>::min();
    case Dtype::i16:
      return std::numeric_limits<int16_t>::min();
    case Dtype::i32:
      return int64_t{std::numeric_limits<int32_t>::min()};
    case Dtype::i64:
      return std::numeric_limits<int64_t>::min();
    default:
      return -std::numeric_limits<double>::infinity();
  }
}

// ---- positions: i32 numbers of the elements of the spatial dims, as ATen's indices count them

constexpr int64_t kNowhere = std::numeric_limits<int32_t>::max();

void check_positions(const Dims& sizes) {
  int64_t n = 1;
  for (const int64_t s : sizes) n *= s;
  if (n >= kNowhere) decline("too many elements for 32-bit positions");
}

/// Where in each window the maximum is: the first place, or the last NaN.
Val place_of(Val under, Val best, Val positions, const Dims& window_dims) {
  Dims sizes = under.sizes();
  for (const int64_t d : window_dims) sizes[static_cast<size_t>(d)] = 1;
  Val first = reduce("amin", where(binary("eq.Tensor", under, reshape(best, sizes)), positions, kNowhere), window_dims,
                     false, Dtype::i32);
  if (ir::is_float(under.dtype())) {
    Val last_nan = reduce("amax", where(isnan(under), positions, -1), window_dims, false, Dtype::i32);
    first = where(ge(last_nan, 0), last_nan, first);
  }
  return cast(first, Dtype::i64);
}

// ---- windows at equal distances

struct Pool {
  Dims kernel, stride, padding, dilation;
  size_t rank() const { return kernel.size(); }
  Windows windows(const Dims& count) const {
    Windows w{{}, count, stride, kernel, dilation};
    for (const int64_t p : padding) w.start.push_back(-p);
    return w;
  }
};
Pool pool_of(Op& op, size_t rank) {
  Pool p;
  p.kernel = for_each_dim(op.ints("kernel_size"), rank);
  p.stride = op.given("stride") ? op.ints("stride") : Dims{};
  p.stride = p.stride.empty() ? p.kernel : for_each_dim(p.stride, rank);
  p.padding = for_each_dim(op.ints("padding"), rank);
  p.dilation = op.find("dilation") ? for_each_dim(op.ints("dilation"), rank) : Dims(rank, 1);
  for (size_t d = 0; d < rank; ++d)
    if (p.stride[d] < 1 || p.kernel[d] < 1 || p.dilation[d] < 1 || p.padding[d] < 0) decline("unusual geometry");
  return p;
}
Dims places(const ir::Type& t, size_t rank) { return Dims(t.sizes.end() - static_cast<int64_t>(rank), t.sizes.end()); }

/// A view of the windows of x after a border of `value`.
Val under(Val x, const Pool& p, const Dims& count, Number value) {
  Windows w = p.windows(count);
  const Dims sizes(x.sizes().begin() + 1, x.sizes().end() - 1);
  x = bordered(x, p.padding, border(sizes, w).high, value);
  std::ranges::fill(w.start, 0);
  return windows(x, w);
}

/// For the gradient: h + padding = stride * a + r; the windows that may reach it are a, a - 1, ... .
struct Reach {
  Dims rows, windows;  // how many values a takes, how many windows
};
Reach reach(const Dims& sizes, const Pool& p) {
  Reach r;
  for (size_t d = 0; d < sizes.size(); ++d) {
    r.rows.push_back(ir::floor_div(sizes[d] + p.padding[d] + p.stride[d] - 1, p.stride[d]));
    r.windows.push_back(((p.kernel[d] - 1) * p.dilation[d]) / p.stride[d] + 1);
  }
  return r;
}

/// [N, places..., C] as [N, rows..., 1..., windows..., C]: the windows that reach the places of a row, the nearest
/// last.
Val reaching(Val g, const Reach& r, Number value) {
  const size_t rank = r.rows.size();
  Dims low, high;
  for (size_t d = 0; d < rank; ++d) {
    low.push_back(r.windows[d] - 1);
    high.push_back(ir::max(r.rows[d] - g.sizes()[d + 1], 0));
  }
  Val w = windows(bordered(g, low, high, value), {Dims(rank, 0), r.rows, Dims(rank, 1), r.windows, Dims(rank, 1)});
  for (size_t d = 0; d < rank; ++d) w = unsqueeze(w, static_cast<int64_t>(2 * d) + 2);
  return w;
}

/// Dims of [N, (rows, r)..., windows..., C].
Val by_phase(Val v, size_t d, size_t rank) {  // [stride] -> r of dim d
  Dims sizes(3 * rank + 2, 1);
  sizes[2 * d + 2] = v.numel();
  return reshape(v, sizes);
}
Val by_window(Val v, size_t d, size_t rank) {
  Dims sizes(3 * rank + 2, 1);
  sizes[2 * rank + d + 1] = v.numel();
  return reshape(v, sizes);
}
Val by_row(Val v, size_t d, size_t rank) {
  Dims sizes(3 * rank + 2, 1);
  sizes[2 * d + 1] = v.numel();
  return reshape(v, sizes);
}

/// Sums over the windows and cuts the elements of the input out: [N, sizes..., C].
Val gathered(Val terms, const Dims& sizes, const Pool& p) {
  const size_t rank = p.rank();
  Val y = sum(terms, dims_from(2 * rank + 1, rank), false);
  Dims joined = {y.sizes()[0]};
  for (size_t d = 0; d < rank; ++d) joined.push_back(y.sizes()[2 * d + 1] * p.stride[d]);
  joined.push_back(y.sizes().back());
  y = reshape(y, joined);
  for (size_t d = 0; d < rank; ++d) y = slice(y, static_cast<int64_t>(d) + 1, p.padding[d], sizes[d]);
  return y;
}

// ---- maximum

template <size_t rank>
void max_pool(Op& op) {
  const Images in = images(op.val("self"), rank);
  const Pool p = pool_of(op, rank);
  const Dims sizes = in.sizes(), count = places(op.wanted(0), rank);
  if (in.x.dtype() == Dtype::b8) decline("no order");
  Val w = under(in.x, p, count, lowest(in.x.dtype()));
  const Dims window = dims_from(rank + 1, rank);
  Val best = reduce("amax", w, window, false, in.x.dtype());
  op.result(0, like(in, best));
  if (!op.wants(1)) return;
  check_positions(sizes);
  Dims grid = {1};
  grid.insert(grid.end(), sizes.begin(), sizes.end());
  grid.push_back(1);
  int64_t n = 1;
  for (const int64_t s : sizes) n *= s;
  Val positions = under(reshape(op.b.arange(n, Dtype::i32), grid), p, count, kNowhere);
  op.result(1, like(in, place_of(w, best, positions, window)));
}

/// Whether the indices are those of the pooling whose gradient this is: then each is in its own window.
bool of_this_pooling(Op& op, std::initializer_list<const char*> geometry) {
  const Origin* origin = op.b.origin(op.val("indices"));
  if (!origin || origin->out != 1 || origin->node.op + "_backward" != op.name()) return false;
  const auto* pooled = std::get_if<ir::Ref>(origin->node.find("self"));
  if (!pooled || op.b.type(pooled->id).sizes != op.val("self").sizes()) return false;
  return std::ranges::all_of(geometry, [&](const char* arg) {
    const ir::Attr *a = origin->node.find(arg), *b = op.find(arg);
    return a && b && *a == *b;
  });
}

/// The gradient for indices from anywhere.
void scattered(Op& op, size_t rank) {
  Val x = op.val("self"), g = op.val("grad_output"), at = op.val("indices");
  const auto planes = [&](Val v) {
    const size_t leading = v.sizes().size() - rank;
    return reshape(v, {ir::product({v.sizes().begin(), v.sizes().begin() + static_cast<int64_t>(leading)}),
                       ir::product(places(v.type(), rank))});
  };
  Val zeros = op.b.full(x.sizes(), 0, compute_dtype(x.dtype()));
  Val flat = planes(zeros);
  Val y = op.b.emit("aten::scatter_add",
                    {{"self", ir::Ref{flat.id}},
                     {"dim", int64_t{1}},
                     {"index", ir::Ref{planes(at).id}},
                     {"src", ir::Ref{planes(computed(g)).id}}},
                    ir::contiguous(flat.dtype(), flat.sizes()));
  op.result(0, cast(reshape(y, x.sizes()), x.dtype()));
}

template <size_t rank>
void max_pool_backward(Op& op) {
  const Images in = images(op.val("self"), rank), gradient = images(op.val("grad_output"), rank),
               indices = images(op.val("indices"), rank);
  const Pool p = pool_of(op, rank);
  const Dims sizes = in.sizes();
  if (!ir::is_float(in.x.dtype()) || gradient.x.dtype() != in.x.dtype()) decline("not floats of one dtype");
  if (!of_this_pooling(op, {"kernel_size", "stride", "padding", "dilation", "ceil_mode"})) return scattered(op, rank);
  check_positions(sizes);
  const Reach r = reach(sizes, p);
  Val g = reaching(computed(gradient.x), r, 0), at = reaching(cast(indices.x, Dtype::i32), r, -1);
  Val position;
  int64_t below = 1;
  for (size_t d = rank; d-- > 0; below *= sizes[d]) {
    Val own = by_row(op.b.arange(r.rows[d], Dtype::i32) * p.stride[d] - p.padding[d], d, rank) +
              by_phase(op.b.arange(p.stride[d], Dtype::i32), d, rank);
    own = own * below;
    position = position ? position + own : own;
  }
  Val terms = where(binary("eq.Tensor", at, position), g, 0);
  op.result(0, like(in, cast(gathered(terms, sizes, p), in.x.dtype())));
}

// ---- average

/// What each window is divided by: [1, places..., 1], or a number where it is the same for all.
struct Divisor {
  std::optional<int64_t> same;
  Val each;
  Val divide(Val v) const {
    if (!ir::is_float(v.dtype())) return div_mode(v, same ? v.b->number(*same, v.dtype()) : each, "trunc");
    return same ? v / Number(static_cast<double>(*same)) : v / each;
  }
};
Divisor divisor(Op& op, const Dims& sizes, const Dims& count, const Pool& p, Dtype dtype) {
  Divisor result;
  if (op.given("divisor_override")) {
    result.same = op.integer("divisor_override");
    return result;
  }
  const bool with_padding = op.flag("count_include_pad");
  int64_t product = 1;
  bool equal = true;
  for (size_t d = 0; d < sizes.size(); ++d) {
    const int64_t most = with_padding ? sizes[d] + p.padding[d] : sizes[d];
    const auto length = [&](int64_t place) {
      const int64_t start = place * p.stride[d] - p.padding[d], end = std::min<int64_t>(start + p.kernel[d], most);
      return end - (with_padding ? start : std::max<int64_t>(start, 0));
    };
    for (int64_t place = 0; place < count[d]; ++place) {
      if (length(place) < 1) decline("a window outside the input");
      equal &= length(place) == length(0);
    }
    product *= length(0);
    Val start = op.b.arange(count[d]) * p.stride[d] - p.padding[d], end = at_most(start + p.kernel[d], most);
    Val own = along(cast(end - (with_padding ? start : at_least(start, 0)), dtype), d, sizes.size());
    result.each = result.each ? result.each * own : own;
  }
  if (equal) result.same = product;
  return result;
}

template <size_t rank>
void avg_pool(Op& op) {
  const Images in = images(op.val("self"), rank);
  const Pool p = pool_of(op, rank);
  const Dims count = places(op.wanted(0), rank);
  Val total = sum(under(computed(in.x), p, count, 0), dims_from(rank + 1, rank), false);
  const Divisor by = divisor(op, in.sizes(), count, p, total.dtype());
  op.result(0, like(in, cast(by.divide(total), in.x.dtype())));
}

template <size_t rank>
void avg_pool_backward(Op& op) {
  const Images in = images(op.val("self"), rank), gradient = images(op.val("grad_output"), rank);
  const Pool p = pool_of(op, rank);
  const Dims sizes = in.sizes();
  if (gradient.x.dtype() != in.x.dtype()) decline("not of one dtype");
  const Reach r = reach(sizes, p);
  Val g = computed(gradient.x);
  Val terms = reaching(divisor(op, sizes, gradient.sizes(), p, g.dtype()).divide(g), r, 0), inside;
  for (size_t d = 0; d < rank; ++d) {
    if (p.kernel[d] % p.stride[d] == 0) continue;  // then each of these windows reaches each of these places
    Val distance = by_phase(op.b.arange(p.stride[d]), d, rank) +
                   by_window((r.windows[d] - 1 - op.b.arange(r.windows[d])) * p.stride[d], d, rank);
    Val own = lt(distance, p.kernel[d]);
    inside = inside ? logical_and(inside, own) : own;
  }
  Dims repeated = terms.sizes();
  for (size_t d = 0; d < rank; ++d) repeated[2 * d + 2] = p.stride[d];
  terms = expand(terms, repeated);
  if (inside) terms = where(inside, terms, 0);
  op.result(0, like(in, cast(gathered(terms, sizes, p), in.x.dtype())));
}

// ---- adaptive: window i of n covers [floor(i * size / n), ceil((i + 1) * size / n)). Turned around, element h of size
// belongs to windows [floor(h * n / size), ceil((h + 1) * n / size)): the same with n and size exchanged.

struct Table {
  Val index, valid, length;  // [n, longest] i64, [n, longest] bool, [n] i64
  int64_t longest = 0;
};
Table table(Builder& b, int64_t size, int64_t n) {
  const auto start = [&](int64_t i) { return i * size / n; };
  const auto end = [&](int64_t i) { return ((i + 1) * size + n - 1) / n; };
  Table t;
  for (int64_t i = 0; i < n; ++i) t.longest = std::max(t.longest, end(i) - start(i));
  const auto quotient = [&](Val v) { return div_mode(v, b.number(n, Dtype::i64), "floor"); };
  Val i = b.arange(n), first = quotient(i * size), last = quotient((i + 1) * size + (n - 1));
  Val at = unsqueeze(first, 1) + unsqueeze(b.arange(t.longest), 0);
  t.valid = binary("lt.Tensor", at, unsqueeze(last, 1));
  t.index = at_most(at, size - 1);
  t.length = last - first;
  return t;
}

/// x [N, S..., C] under windows: [N, (n, longest)..., C].
Val select_windows(Val x, const std::vector<Table>& tables) {
  const size_t rank = tables.size();
  Dims sizes = {x.sizes()[0]};
  for (size_t d = 0; d < rank; ++d) {
    x = index_select(x, static_cast<int64_t>(d) + 1, reshape(tables[d].index, {tables[d].index.numel()}));
    sizes.insert(sizes.end(), tables[d].index.sizes().begin(), tables[d].index.sizes().end());
  }
  sizes.push_back(x.sizes().back());
  return reshape(x, sizes);
}
/// [n, longest] of dim d among [N, (n, longest)..., C].
Val in_windows(Val v, size_t d, size_t rank) {
  Dims sizes(2 * rank + 2, 1);
  sizes[2 * d + 1] = v.sizes()[0], sizes[2 * d + 2] = v.sizes()[1];
  return reshape(v, sizes);
}
Val all_valid(const std::vector<Table>& tables) {
  Val valid;
  for (size_t d = 0; d < tables.size(); ++d) {
    Val own = in_windows(tables[d].valid, d, tables.size());
    valid = valid ? logical_and(valid, own) : own;
  }
  return valid;
}
Val lengths(const std::vector<Table>& tables, Dtype dtype) {
  Val all;
  for (size_t d = 0; d < tables.size(); ++d) {
    Val own = along(cast(tables[d].length, dtype), d, tables.size());
    all = all ? all * own : own;
  }
  return all;
}
Dims window_dims(size_t rank) {
  Dims d;
  for (size_t i = 0; i < rank; ++i) d.push_back(static_cast<int64_t>(2 * i) + 2);
  return d;
}
std::vector<Table> tables_of(Builder& b, const Dims& sizes, const Dims& n) {
  std::vector<Table> t;
  for (size_t d = 0; d < sizes.size(); ++d) {
    if (n[d] < 1) decline("no windows");
    t.push_back(table(b, sizes[d], n[d]));
  }
  return t;
}

template <size_t rank>
void adaptive_avg_pool(Op& op) {
  const Images in = images(op.val("self"), rank);
  if (!ir::is_float(in.x.dtype())) decline("an average of integers");
  const Dims sizes = in.sizes(), n = places(op.wanted(0), rank);
  Val x = computed(in.x), y;
  Pool tiles{{}, {}, Dims(rank, 0), Dims(rank, 1)};
  bool tiled = true;
  double area = 1;
  for (size_t d = 0; d < rank; ++d) {
    if (n[d] < 1) decline("no windows");
    tiled &= sizes[d] % n[d] == 0;
    tiles.kernel.push_back(sizes[d] / n[d]);
    area *= static_cast<double>(sizes[d] / n[d]);
  }
  tiles.stride = tiles.kernel;
  if (tiled) {
    y = sum(under(x, tiles, n, 0), dims_from(rank + 1, rank), false) / Number(area);
  } else {
    const auto tables = tables_of(op.b, sizes, n);
    y = sum(where(all_valid(tables), select_windows(x, tables), 0), window_dims(rank), false) /
        lengths(tables, x.dtype());
  }
  op.result(0, like(in, cast(y, in.x.dtype())));
}

template <size_t rank>
void adaptive_avg_pool_backward(Op& op) {
  const Images in = images(op.val("self"), rank), gradient = images(op.val("grad_output"), rank);
  if (!ir::is_float(in.x.dtype()) || gradient.x.dtype() != in.x.dtype()) decline("not floats of one dtype");
  const Dims sizes = in.sizes(), n = gradient.sizes();
  Val g = computed(gradient.x);
  g = g / lengths(tables_of(op.b, sizes, n), g.dtype());
  const auto back = tables_of(op.b, n, sizes);
  Val y = sum(where(all_valid(back), select_windows(g, back), 0), window_dims(rank), false);
  op.result(0, like(in, cast(y, in.x.dtype())));
}

/// Numbers of the elements that the tables' windows see.
Val positions(const std::vector<Table>& tables, const Dims& sizes) {
  Val all;
  int64_t below = 1;
  for (size_t d = tables.size(); d-- > 0; below *= sizes[d]) {
    Val own = in_windows(cast(tables[d].index, Dtype::i32) * below, d, tables.size());
    all = all ? all + own : own;
  }
  return all;
}

template <size_t rank>
void adaptive_max_pool(Op& op) {
  const Images in = images(op.val("self"), rank);
  if (!ir::is_float(in.x.dtype())) decline("a maximum of integers");
  const Dims sizes = in.sizes();
  const auto tables = tables_of(op.b, sizes, places(op.wanted(0), rank));
  Val valid = all_valid(tables), w = where(valid, select_windows(in.x, tables), lowest(in.x.dtype()));
  Val best = reduce("amax", w, window_dims(rank), false, in.x.dtype());
  op.result(0, like(in, best));
  if (!op.wants(1)) return;
  check_positions(sizes);
  op.result(1, like(in, place_of(w, best, where(valid, positions(tables, sizes), kNowhere), window_dims(rank))));
}

template <size_t rank>
void adaptive_max_pool_backward(Op& op) {
  const Images in = images(op.val("self"), rank), gradient = images(op.val("grad_output"), rank),
               indices = images(op.val("indices"), rank);
  if (!ir::is_float(in.x.dtype()) || gradient.x.dtype() != in.x.dtype()) decline("not floats of one dtype");
  const Dims sizes = in.sizes();
  if (!of_this_pooling(op, {})) return scattered(op, rank);
  check_positions(sizes);
  const auto back = tables_of(op.b, gradient.sizes(), sizes);
  Val g = select_windows(computed(gradient.x), back), at = select_windows(cast(indices.x, Dtype::i32), back), own;
  int64_t below = 1;
  for (size_t d = rank; d-- > 0; below *= sizes[d]) {
    Val line = in_windows(unsqueeze(op.b.arange(sizes[d], Dtype::i32) * below, 1), d, rank);
    own = own ? own + line : line;
  }
  Val hit = logical_and(all_valid(back), binary("eq.Tensor", at, own));
  op.result(0, like(in, cast(sum(where(hit, g, 0), window_dims(rank), false), in.x.dtype())));
}

constexpr Row kRows[] = {
    {"aten::max_pool1d", max_pool<1>},
    {"aten::max_pool2d_with_indices", max_pool<2>},
    {"aten::max_pool3d_with_indices", max_pool<3>},
    {"aten::max_pool2d_with_indices_backward", max_pool_backward<2>},
    {"aten::max_pool3d_with_indices_backward", max_pool_backward<3>},
    {"aten::avg_pool1d", avg_pool<1>},
    {"aten::avg_pool2d", avg_pool<2>},
    {"aten::avg_pool3d", avg_pool<3>},
    {"aten::avg_pool2d_backward", avg_pool_backward<2>},
    {"aten::avg_pool3d_backward", avg_pool_backward<3>},
    {"aten::adaptive_avg_pool1d", adaptive_avg_pool<1>},
    {"aten::_adaptive_avg_pool2d", adaptive_avg_pool<2>},
    {"aten::_adaptive_avg_pool3d", adaptive_avg_pool<3>},
    {"aten::_adaptive_avg_pool2d_backward", adaptive_avg_pool_backward<2>},
    {"aten::_adaptive_avg_pool3d_backward", adaptive_avg_pool_backward<3>},
    {"aten::adaptive_max_pool2d", adaptive_max_pool<2>},
    {"aten::adaptive_max_pool3d", adaptive_max_pool<3>},
    {"aten::adaptive_max_pool2d_backward", adaptive_max_pool_backward<2>},
    {"aten::adaptive_max_pool3d_backward", adaptive_max_pool_backward<3>},
};

}  // namespace

std::span<const Row> pool_rules() { return kRows; }

}  // namespace precast::passes
