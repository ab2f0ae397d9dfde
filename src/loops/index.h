// Affine integer expressions over loop variables and run-time indices: constant + sum of coefficient * atom.
// Everything a kernel reads or writes is addressed by one of these. Division and modulo are either simplified away
// with the ranges of the variables, or fail: then the caller stores the value that was to be addressed.
#pragma once
#include <cstdint>
#include <functional>
#include <optional>
#include <utility>
#include <vector>

#include "ir/size.h"

namespace precast::loops {

using ir::Dims;
using ir::Size;

/// >= 0: a loop variable; < 0: ~id of an integer expression read at run time (Exprs).
using Atom = int32_t;

struct Index {
  Size constant = 0;
  std::vector<std::pair<Atom, Size>> terms;  // sorted by atom, no zero coefficient

  Index() = default;
  Index(Size c) : constant(c) {}  // NOLINT: a number is an index
  template <std::integral I>
  Index(I c) : constant(c) {}  // NOLINT
  static Index atom(Atom a, Size coefficient = 1);

  Size coefficient(Atom) const;
  bool is_constant() const { return terms.empty(); }
  bool operator==(const Index&) const = default;
  std::strong_ordering operator<=>(const Index&) const;  // any order, for sets
};

Index operator+(const Index&, const Index&);
Index operator-(const Index&, const Index&);
Index operator*(const Index&, const Size&);

/// How many values an atom takes: it runs over [0, extent).
using ExtentOf = std::function<Size(Atom)>;

struct Range {
  Size low, high;  // both included
};
Range range(const Index&, const ExtentOf&);

/// Symbols that are not 0 where e is computed: a loop has a point there, and what has the stride k an element.
std::vector<int> positive_symbols(const Index& e, const Size& k, const ExtentOf&);

/// Floor division and modulo by k > 0, where they come out affine.
std::optional<Index> floor_div(const Index&, const Size& k, const ExtentOf&);
std::optional<Index> modulo(const Index&, const Size& k, const ExtentOf&);

/// The logical index of the element at `offset` in a dense tensor, where that is affine.
std::optional<std::vector<Index>> delinearize(Index offset, const Dims& sizes, const Dims& strides, const ExtentOf&);
Index linearize(const std::vector<Index>&, const Dims& strides);

/// Replaces loop variables (atoms >= 0) for which `f` gives something.
Index substitute(const Index&, const std::function<std::optional<Index>(Atom)>& f);

}  // namespace precast::loops
