#include "loops/index.h"

#include <algorithm>
#include <numeric>

namespace precast::loops {

Index Index::atom(Atom a, Size coefficient) {
  Index e;
  if (coefficient != 0) e.terms.emplace_back(a, coefficient);
  return e;
}

Size Index::coefficient(Atom a) const {
  for (const auto& [atom, c] : terms)
    if (atom == a) return c;
  return 0;
}

std::strong_ordering Index::operator<=>(const Index& b) const {
  if (const auto o = ir::order(constant, b.constant); o != 0) return o;
  for (size_t i = 0; i < terms.size() && i < b.terms.size(); ++i) {
    if (terms[i].first != b.terms[i].first) return terms[i].first <=> b.terms[i].first;
    if (const auto o = ir::order(terms[i].second, b.terms[i].second); o != 0) return o;
  }
  return terms.size() <=> b.terms.size();
}

Index operator+(const Index& a, const Index& b) {
  Index sum(a.constant + b.constant);
  auto i = a.terms.begin(), j = b.terms.begin();
  while (i != a.terms.end() || j != b.terms.end()) {
    if (j == b.terms.end() || (i != a.terms.end() && i->first < j->first)) {
      sum.terms.push_back(*i++);
    } else if (i == a.terms.end() || j->first < i->first) {
      sum.terms.push_back(*j++);
    } else {
      if (const Size c = i->second + j->second; c != 0) sum.terms.emplace_back(i->first, c);
      ++i, ++j;
    }
  }
  return sum;
}

Index operator*(const Index& a, const Size& k) {
  if (k == 0) return {};
  Index r(a.constant * k);
  for (const auto& [atom, c] : a.terms) r.terms.emplace_back(atom, c * k);
  return r;
}

Index operator-(const Index& a, const Index& b) { return a + b * -1; }

Range range(const Index& e, const ExtentOf& extent) {
  Range r{e.constant, e.constant};
  for (const auto& [atom, c] : e.terms) {
    Size last = extent(atom) - 1;
    if (!last.is_symbolic()) last = std::max<int64_t>(last, 0);  // a symbolic loop has a point, or nobody asks
    (c.lower() >= 0 || c > 0 ? r.high : r.low) += c * last;
  }
  return r;
}

namespace {

/// Splits e = quotient * k + rest, moving what divides evenly; the rest keeps a constant in [0, k).
struct Split {
  Index quotient, rest;
};
std::optional<Split> split(const Index& e, const Size& k, const std::vector<int>& positive) {
  const auto constant = ir::quotient(e.constant, k, positive);
  if (!constant) return std::nullopt;
  Split s{Index(constant->first), Index(constant->second)};
  for (const auto& [atom, c] : e.terms) {
    if (const auto q = ir::divide(c, k)) {
      s.quotient.terms.emplace_back(atom, *q);
    } else {
      s.rest.terms.emplace_back(atom, c);
    }
  }
  return s;
}

/// What divides k and all of e, as far as that is seen.
Size common_divisor(const Index& e, const Size& k) {
  Size g = k;
  for (const auto& [atom, c] : e.terms) {
    if (!g.is_symbolic() && !c.is_symbolic()) {
      g = std::gcd(int64_t{g}, int64_t{c});
    } else if (ir::divide(g, c)) {
      g = c;
    } else if (!ir::divide(c, g)) {
      return 1;
    }
  }
  return g;
}

}  // namespace

std::vector<int> positive_symbols(const Index& e, const Size& k, const ExtentOf& extent) {
  std::vector<int> ids = ir::common_symbols(k);
  for (const auto& [atom, c] : e.terms)
    for (const int id : ir::common_symbols(extent(atom))) ids.push_back(id);
  return ids;
}

std::optional<Index> floor_div(const Index& e, const Size& k, const ExtentOf& extent) {
  if (k == 1) return e;
  const std::vector<int> positive = positive_symbols(e, k, extent);
  const auto s = split(e, k, positive);
  if (!s) return std::nullopt;
  const Range r = range(s->rest, extent);
  const auto low = ir::quotient(r.low, k, positive), high = ir::quotient(r.high, k, positive);
  if (low && high && low->first == high->first) return s->quotient + Index(low->first);
  // (g * a + c) / (g * b) = (a + c / g) / b for c in [0, g).
  const Size g = common_divisor(s->rest, k);
  if (g != 1) {
    const auto constant = ir::quotient(s->rest.constant, g, positive);
    if (!constant) return std::nullopt;
    Index reduced(constant->first);
    for (const auto& [atom, c] : s->rest.terms) reduced.terms.emplace_back(atom, *ir::divide(c, g));
    if (auto q = floor_div(reduced, *ir::divide(k, g), extent)) return s->quotient + *q;
  }
  return std::nullopt;
}

std::optional<Index> modulo(const Index& e, const Size& k, const ExtentOf& extent) {
  auto q = floor_div(e, k, extent);
  if (!q) return std::nullopt;
  return e - *q * k;
}

std::optional<std::vector<Index>> delinearize(Index offset, const Dims& sizes, const Dims& strides,
                                              const ExtentOf& extent) {
  std::vector<size_t> order;
  for (size_t d = 0; d < sizes.size(); ++d)
    if (sizes[d] != 1) order.push_back(d);
  std::sort(order.begin(), order.end(), [&](size_t a, size_t b) { return ir::roughly_less(strides[b], strides[a]); });
  std::vector<Index> index(sizes.size());
  for (const size_t d : order) {
    if (strides[d].lower() < 0 || strides[d] == 0) return std::nullopt;
    auto q = floor_div(offset, strides[d], extent);
    if (!q) return std::nullopt;
    index[d] = *q;
    offset = offset - *q * strides[d];
  }
  const Range left = range(offset, extent);
  if (left.low != 0 || left.high != 0) return std::nullopt;
  return index;
}

Index linearize(const std::vector<Index>& index, const Dims& strides) {
  Index offset;
  for (size_t d = 0; d < index.size(); ++d) offset = offset + index[d] * strides[d];
  return offset;
}

Index substitute(const Index& e, const std::function<std::optional<Index>(Atom)>& f) {
  Index r(e.constant);
  for (const auto& [atom, c] : e.terms) {
    const auto replacement = atom >= 0 ? f(atom) : std::nullopt;
    r = r + (replacement ? *replacement * c : Index::atom(atom, c));
  }
  return r;
}

}  // namespace precast::loops
