#include "trace/fit.h"

#include <algorithm>
#include <numeric>

namespace precast::trace {

using ir::Size;

namespace {

using Wide = __int128;

/// The exact integer solution of rows * x = values, if there is just one.
std::optional<std::vector<int64_t>> solve(std::vector<std::vector<Wide>> m, size_t unknowns) {
  size_t row = 0;
  for (size_t c = 0; c < unknowns; ++c, ++row) {
    size_t pivot = row;
    while (pivot < m.size() && m[pivot][c] == 0) ++pivot;
    if (pivot == m.size()) return {};
    std::swap(m[row], m[pivot]);
    for (size_t r = 0; r < m.size(); ++r) {
      if (r == row || m[r][c] == 0) continue;
      const Wide a = m[row][c], b = m[r][c];
      Wide common = 0;
      for (size_t k = 0; k <= unknowns; ++k) {
        m[r][k] = m[r][k] * a - m[row][k] * b;
        common = std::gcd(static_cast<int64_t>(common), static_cast<int64_t>(m[r][k]));
      }
      if (common > 1)
        for (Wide& v : m[r]) v /= common;
    }
  }
  for (size_t r = unknowns; r < m.size(); ++r)
    if (m[r][unknowns] != 0) return {};
  std::vector<int64_t> x(unknowns);
  for (size_t c = 0; c < unknowns; ++c) {
    if (m[c][unknowns] % m[c][c] != 0) return {};
    x[c] = static_cast<int64_t>(m[c][unknowns] / m[c][c]);
  }
  return x;
}

}  // namespace

Fit::Fit(std::shared_ptr<const Symbols> symbols, std::vector<Point> points)
    : symbols_(std::move(symbols)), points_(std::move(points)) {
  for (size_t i = 0; i < symbols_->all.size(); ++i)
    if (symbols_->root(static_cast<int>(i)) == static_cast<int>(i)) {
      roots_.push_back(static_cast<int>(i));
      know(symbols_->size(static_cast<int>(i)));
    }
}

std::optional<std::vector<int64_t>> Fit::values(const Size& s) const {
  std::vector<int64_t> values;
  for (const Point& p : points_) {
    const auto v = symbols_->at(s, p);
    if (!v) return {};
    values.push_back(*v);
  }
  return values;
}

void Fit::know(const Size& s) {
  if (!s.is_symbolic()) return;
  const Size canonical = symbols_->canonical(s);
  auto seen = values(canonical);
  if (!seen || !canonical.is_symbolic()) return;
  const bool is_one = std::all_of(seen->begin(), seen->end(), [&](int64_t v) { return v == seen->front(); });
  const Size other = is_one ? Size(seen->front()) : known_.try_emplace(std::move(*seen), canonical).first->second;
  if (!needed_ && !(other == canonical)) needed_ = apart(other, canonical);
}

std::optional<Size> Fit::operator()(const std::vector<int64_t>& seen, const ir::Dims& from) {
  if (std::all_of(seen.begin(), seen.end(), [&](int64_t v) { return v == seen[0]; })) return Size(seen[0]);
  if (const auto at = known_.find(seen); at != known_.end()) return at->second;
  if (auto s = one_of(made_of(seen, from))) return s;
  if (needed_) return {};
  if (auto p = polynomial(seen)) return p;
  return one_of(rounded(seen, from));
}

std::optional<Size> Fit::one_of(const ir::Dims& candidates) {
  for (const Size& s : candidates)
    if (auto p = apart(candidates[0], s)) {
      if (!needed_) needed_ = p;
      return {};
    }
  return candidates.empty() ? std::nullopt : std::optional(candidates[0]);
}

/// Where two expressions differ, at sizes that are no smaller than those of the first point: ops may not work at
/// smaller ones, where the end of the recording looks anyhow.
std::optional<Point> Fit::apart(const Size& a, const Size& b) {
  if (a == b) return {};
  const std::pair pair{ir::to_string(a), ir::to_string(b)};
  if (equal_.contains(pair)) return {};
  std::vector<int> inside;
  for (const Size* s : {&a, &b})
    s->for_each_symbol([&](const ir::Symbol& u) {
      const int root = symbols_->root(u.id);
      if (std::find(inside.begin(), inside.end(), root) == inside.end()) inside.push_back(root);
    });
  constexpr int64_t kFar = 1 << 14;
  for (const int i : inside) {
    const ir::Symbol& symbol = symbols_->all[static_cast<size_t>(i)].symbol;
    Point p = points_[0];
    const int64_t here = p[static_cast<size_t>(i)];
    const auto differ = [&](int64_t v) {
      p[static_cast<size_t>(i)] = v;
      return symbols_->at(a, p) != symbols_->at(b, p);
    };
    for (int64_t v = here; v <= std::min(symbol.max, here + kFar); ++v)
      if (differ(v)) return p;
  }
  equal_.insert(pair);
  return {};
}

/// One monomial, or few, with one point more than unknowns at least.
std::optional<Size> Fit::polynomial(const std::vector<int64_t>& seen) const {
  std::vector<Size> linear = {Size(1)};
  for (int i : roots_) linear.push_back(symbols_->size(i));
  std::vector<Size> quadratic, cubic;
  for (size_t i = 0; i < linear.size(); ++i)
    for (size_t j = i; j < linear.size(); ++j) quadratic.push_back(linear[i] * linear[j]);
  for (const Size& a : quadratic)
    for (const Size& b : quadratic)
      if (const Size c = a * b; std::find(cubic.begin(), cubic.end(), c) == cubic.end()) cubic.push_back(c);
  const auto try_basis = [&](const std::vector<Size>& basis) -> std::optional<Size> {
    if (basis.size() >= points_.size()) return {};
    std::vector<std::vector<Wide>> rows;
    for (size_t p = 0; p < points_.size(); ++p) {
      auto& row = rows.emplace_back();
      for (const Size& b : basis) row.push_back(symbols_->at(b, points_[p]).value());
      row.push_back(seen[p]);
    }
    const auto x = solve(std::move(rows), basis.size());
    if (!x) return {};
    Size sum = 0;
    for (size_t i = 0; i < basis.size(); ++i) sum += basis[i] * (*x)[i];
    return sum;
  };
  for (const Size& monomial : cubic)
    if (auto s = try_basis({monomial})) return s;
  for (const Size& monomial : cubic)
    if (monomial.is_symbolic())
      if (auto s = try_basis({Size(1), monomial})) return s;
  for (const auto* basis : {&linear, &quadratic})
    if (auto s = try_basis(*basis)) return s;
  return {};
}

/// f + g, f * g and a * f + b: concatenations, flattened dims, pads.
ir::Dims Fit::made_of(const std::vector<int64_t>& seen, const ir::Dims& from) const {
  ir::Dims symbolic, found;
  for (const Size& s : from)
    if (s.is_symbolic() && std::find(symbolic.begin(), symbolic.end(), s) == symbolic.end()) symbolic.push_back(s);
  const auto consider = [&](const Size& s) {
    if (values(s) == seen) found.push_back(s);
  };
  for (size_t i = 0; i < symbolic.size(); ++i) {
    for (size_t j = i; j < symbolic.size(); ++j)
      consider(symbolic[i] + symbolic[j]), consider(symbolic[i] * symbolic[j]);
    const auto f = values(symbolic[i]);
    if (!f) continue;
    for (size_t p = 1; p < seen.size(); ++p) {
      const int64_t run = (*f)[p] - (*f)[0], rise = seen[p] - seen[0];
      if (run == 0) continue;
      if (rise % run == 0) consider(symbolic[i] * (rise / run) + Size(seen[0] - (*f)[0] * (rise / run)));
      break;
    }
  }
  return found;
}

/// (n + c) // k
ir::Dims Fit::rounded(const std::vector<int64_t>& seen, const ir::Dims& from) const {
  ir::Dims found;
  for (const Size& n : from) {
    if (!n.is_symbolic()) continue;
    const auto first = symbols_->at(n, points_[0]);
    for (int64_t k = 2; first && k <= 4; ++k)
      for (int64_t c = seen[0] * k - *first; c < (seen[0] + 1) * k - *first; ++c)
        if (const Size s = ir::floor_div(n + Size(c), Size(k)); values(s) == seen) found.push_back(s);
  }
  return found;
}

std::vector<Point> general_points(const Symbols& symbols, const std::vector<int64_t>& least) {
  // Residues modulo 2, 3 and 4 are all there.
  constexpr int64_t kSteps[] = {0, 2, 7, 5, 10, 16, 19, 13, 23, 29, 26, 31};
  const size_t n = symbols.all.size(), count = n == 1 ? 4 : n == 2 ? 6 : n + 5;
  std::vector<Point> points(count, Point(n));
  for (size_t i = 0; i < n; ++i) {
    const ir::Symbol s = symbols.all[i].symbol;
    const int64_t low = std::max(s.min, std::min(least[i], std::max<int64_t>(s.max - 9, 2)));
    for (size_t p = 0; p < count; ++p) {
      int64_t v =
          low + kSteps[(p * (i + 1) + 2 * i + i / 3) % std::size(kSteps)] + (n > 1 ? static_cast<int64_t>(i) : 0);
      if (v > s.max) v = s.max - (v - s.max - 1) % std::max<int64_t>(s.max - low + 1, 1);
      points[p][i] = std::max(v, s.min);
    }
  }
  for (size_t i = 0; i < n; ++i) {
    std::vector<int64_t> column;
    for (const Point& p : points) column.push_back(p[i]);
    std::sort(column.begin(), column.end());
    column.erase(std::unique(column.begin(), column.end()), column.end());
    if (column.size() < 3) return {};
  }
  return points;
}

}  // namespace precast::trace
