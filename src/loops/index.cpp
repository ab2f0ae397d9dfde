#include "loops/index.h"

#include <algorithm>
#include <numeric>

namespace precast::loops {

Index Index::atom(Atom a, int64_t coefficient) {
  Index e;
  if (coefficient != 0) e.terms.emplace_back(a, coefficient);
  return e;
}

int64_t Index::coefficient(Atom a) const {
  for (const auto& [atom, c] : terms)
    if (atom == a) return c;
  return 0;
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
      if (const int64_t c = i->second + j->second; c != 0) sum.terms.emplace_back(i->first, c);
      ++i, ++j;
    }
  }
  return sum;
}

Index operator*(const Index& a, int64_t k) {
  if (k == 0) return {};
  Index r(a.constant * k);
  for (const auto& [atom, c] : a.terms) r.terms.emplace_back(atom, c * k);
  return r;
}

Index operator-(const Index& a, const Index& b) { return a + b * -1; }

Range range(const Index& e, const ExtentOf& extent) {
  Range r{e.constant, e.constant};
  for (const auto& [atom, c] : e.terms) {
    const int64_t last = std::max<int64_t>(extent(atom) - 1, 0);
    (c > 0 ? r.high : r.low) += c * last;
  }
  return r;
}

namespace {

int64_t floor_div(int64_t a, int64_t b) { return a / b - (a % b != 0 && (a % b < 0) != (b < 0)); }

/// Splits e = quotient * k + rest, moving what divides evenly; the rest keeps a constant in [0, k).
struct Split {
  Index quotient, rest;
};
Split split(const Index& e, int64_t k) {
  const int64_t q = floor_div(e.constant, k);
  Split s{Index(q), Index(e.constant - q * k)};
  for (const auto& [atom, c] : e.terms) {
    if (c % k == 0) {
      s.quotient.terms.emplace_back(atom, c / k);
    } else {
      s.rest.terms.emplace_back(atom, c);
    }
  }
  return s;
}

}  // namespace

std::optional<Index> floor_div(const Index& e, int64_t k, const ExtentOf& extent) {
  if (k == 1) return e;
  const Split s = split(e, k);
  const Range r = range(s.rest, extent);
  if (const int64_t block = floor_div(r.low, k); block == floor_div(r.high, k)) return s.quotient + Index(block);
  // (g * a + c) / (g * b) = (a + c / g) / b for c in [0, g).
  int64_t g = k;
  for (const auto& [atom, c] : s.rest.terms) g = std::gcd(g, c);
  if (g > 1) {
    Index reduced(s.rest.constant / g);
    for (const auto& [atom, c] : s.rest.terms) reduced.terms.emplace_back(atom, c / g);
    if (auto q = floor_div(reduced, k / g, extent)) return s.quotient + *q;
  }
  return std::nullopt;
}

std::optional<Index> modulo(const Index& e, int64_t k, const ExtentOf& extent) {
  auto q = floor_div(e, k, extent);
  if (!q) return std::nullopt;
  return e - *q * k;
}

std::optional<std::vector<Index>> delinearize(Index offset, const std::vector<int64_t>& sizes,
                                              const std::vector<int64_t>& strides, const ExtentOf& extent) {
  std::vector<size_t> order;
  for (size_t d = 0; d < sizes.size(); ++d)
    if (sizes[d] != 1) order.push_back(d);
  std::sort(order.begin(), order.end(), [&](size_t a, size_t b) { return strides[a] > strides[b]; });
  std::vector<Index> index(sizes.size());
  for (const size_t d : order) {
    if (strides[d] <= 0) return std::nullopt;
    auto q = floor_div(offset, strides[d], extent);
    if (!q) return std::nullopt;
    index[d] = *q;
    offset = offset - *q * strides[d];
  }
  const Range left = range(offset, extent);
  if (left.low != 0 || left.high != 0) return std::nullopt;
  return index;
}

Index linearize(const std::vector<Index>& index, const std::vector<int64_t>& strides) {
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
