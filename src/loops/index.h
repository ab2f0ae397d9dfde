// Affine integer expressions over loop variables and run-time indices: constant + sum of coefficient * atom.
// Everything a kernel reads or writes is addressed by one of these. Division and modulo are either simplified away
// with the ranges of the variables, or fail: then the caller stores the value that was to be addressed.
#pragma once
#include <cstdint>
#include <functional>
#include <optional>
#include <utility>
#include <vector>

namespace precast::loops {

/// >= 0: a loop variable; < 0: ~id of an integer expression read at run time (Exprs).
using Atom = int32_t;

struct Index {
  int64_t constant = 0;
  std::vector<std::pair<Atom, int64_t>> terms;  // sorted by atom, no zero coefficient

  Index() = default;
  Index(int64_t c) : constant(c) {}  // NOLINT: a number is an index
  static Index atom(Atom a, int64_t coefficient = 1);

  int64_t coefficient(Atom) const;
  bool is_constant() const { return terms.empty(); }
  auto operator<=>(const Index&) const = default;
};

Index operator+(const Index&, const Index&);
Index operator-(const Index&, const Index&);
Index operator*(const Index&, int64_t);

/// How many values an atom takes: it runs over [0, extent).
using ExtentOf = std::function<int64_t(Atom)>;

struct Range {
  int64_t low, high;  // both included
};
Range range(const Index&, const ExtentOf&);

/// Floor division and modulo by k > 0, where they come out affine.
std::optional<Index> floor_div(const Index&, int64_t k, const ExtentOf&);
std::optional<Index> modulo(const Index&, int64_t k, const ExtentOf&);

/// The logical index of the element at `offset` in a dense tensor, where that is affine.
std::optional<std::vector<Index>> delinearize(Index offset, const std::vector<int64_t>& sizes,
                                              const std::vector<int64_t>& strides, const ExtentOf&);
Index linearize(const std::vector<Index>&, const std::vector<int64_t>& strides);

/// Replaces loop variables (atoms >= 0) for which `f` gives something.
Index substitute(const Index&, const std::function<std::optional<Index>(Atom)>& f);

}  // namespace precast::loops
