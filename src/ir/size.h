// A size, stride, offset or count: a number, or an integer polynomial over symbols (u0, u1, ...), which stand for sizes
// that only a call knows. A symbol is in general position: it is never known to be 0 or 1, so `u0 == 1` is false, and
// what is computed must be right for 0 and 1 all the same. What is no polynomial (floor division, modulo, maximum) is
// an opaque factor. Where a number is needed and there is none, `Undecided` is thrown: whoever builds something gives
// it up, and leaves the op to the host, which runs it with real sizes.
#pragma once
#include <algorithm>
#include <compare>
#include <concepts>
#include <cstdint>
#include <functional>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace precast::ir {

/// A size or an order of sizes that depends on symbols was asked for as a number or a truth.
struct Undecided {
  std::string expression;  // "u0", "4*u0 < 2"
};

/// What a symbol can be, and what it was when the graph was recorded. Named "u" + id.
struct Symbol {
  static constexpr int64_t kUnbounded = std::numeric_limits<int64_t>::max();
  int id = 0;
  int64_t min = 0, max = kUnbounded;  // both included
  int64_t hint = 8;
  bool operator==(const Symbol&) const = default;
};
std::string name(const Symbol&);

class Size {
 public:
  struct Expression;  // interned and immortal: equal ones are one

  constexpr Size() = default;
  template <std::integral I>
  constexpr Size(I v) : value_(static_cast<int64_t>(v)) {}  // NOLINT: a number is a size
  static Size symbol(const Symbol&);

  bool is_symbolic() const { return expression_ != nullptr; }
  operator int64_t() const {  // NOLINT: most sizes are numbers
    if (expression_) undecided();
    return value_;
  }
  /// What it roughly is, for choices that change speed and nothing else. Symbols count as at least 2.
  int64_t hint() const;
  /// Its least and greatest value, as far as the bounds of its symbols tell.
  int64_t lower() const;
  int64_t upper() const;
  /// The same where the symbols with these ids are at least 1.
  int64_t lower(const std::vector<int>& positive) const;
  /// The value under the given values of the symbols; nothing on overflow or division by 0.
  std::optional<int64_t> value(const std::function<int64_t(const Symbol&)>&) const;
  Size substitute(const std::function<Size(const Symbol&)>&) const;
  void for_each_symbol(const std::function<void(const Symbol&)>&) const;

  Size operator-() const { return multiply(*this, -1); }
  Size& operator+=(const Size& b) { return *this = add(*this, b); }
  Size& operator-=(const Size& b) { return *this = subtract(*this, b); }
  Size& operator*=(const Size& b) { return *this = multiply(*this, b); }

  static Size add(const Size&, const Size&);
  static Size subtract(const Size&, const Size&);
  static Size multiply(const Size&, const Size&);
  /// Decided by the bounds of the symbols, or Undecided.
  static bool less(const Size&, const Size&);

  /// The same for all values of the symbols.
  bool operator==(const Size&) const = default;
  template <std::integral I>
  friend bool operator==(const Size& a, I b) {
    return a == Size(b);
  }

  /// Terms of the polynomial, for those who print it otherwise: the sum over terms of coefficient * factors.
  struct Factor;
  struct Term {
    int64_t coefficient = 0;
    std::vector<const Factor*> factors;  // sorted; several times: a power
    bool operator==(const Term&) const = default;
  };
  std::vector<Term> terms() const;
  static Size from_terms(std::vector<Term>);

 private:
  [[noreturn]] void undecided() const;
  int64_t value_ = 0;
  const Expression* expression_ = nullptr;
};
using Dims = std::vector<Size>;

struct Size::Factor {
  enum class Kind { symbol, floor_div, mod, max, min } kind = Kind::symbol;
  Symbol symbol{};
  Size a, b;
  std::string text;
  int64_t low = 0, high = 0, hint = 0;
};

// Sizes and numbers mix; templates, so that no conversion is ever chosen instead.
template <class A, class B>
concept Mixed = (std::same_as<A, Size> && (std::same_as<B, Size> || std::integral<B>)) ||
                (std::same_as<B, Size> && std::integral<A>);
template <class A, class B>
  requires Mixed<A, B>
Size operator+(const A& a, const B& b) {
  return Size::add(a, b);
}
template <class A, class B>
  requires Mixed<A, B>
Size operator-(const A& a, const B& b) {
  return Size::subtract(a, b);
}
template <class A, class B>
  requires Mixed<A, B>
Size operator*(const A& a, const B& b) {
  return Size::multiply(a, b);
}
template <class A, class B>
  requires Mixed<A, B>
bool operator<(const A& a, const B& b) {
  return Size::less(a, b);
}
template <class A, class B>
  requires Mixed<A, B>
bool operator>(const A& a, const B& b) {
  return Size::less(b, a);
}
template <class A, class B>
  requires Mixed<A, B>
bool operator<=(const A& a, const B& b) {
  return !Size::less(b, a);
}
template <class A, class B>
  requires Mixed<A, B>
bool operator>=(const A& a, const B& b) {
  return !Size::less(a, b);
}

/// a / b where b divides a for all values of the symbols.
std::optional<Size> divide(const Size& a, const Size& b);
/// a / b rounded down, and what is left, for b > 0, where they are polynomials.
std::optional<std::pair<Size, Size>> quotient(const Size& a, const Size& b, const std::vector<int>& positive = {});
/// Rounded down; the modulo has the sign of the divisor, as in Python.
Size floor_div(const Size& a, const Size& b);
Size mod(const Size& a, const Size& b);
Size max(const Size&, const Size&);
Size min(const Size&, const Size&);
/// Whether a >= b for all values of the symbols; those with the ids `positive` are at least 1.
bool always_at_least(const Size& a, const Size& b, const std::vector<int>& positive = {});
/// Ids of the symbols that divide it: where it is not 0, they are not.
std::vector<int> common_symbols(const Size&);
/// An order for loops and layouts, by what the sizes roughly are: no condition on their values.
inline bool roughly_less(const Size& a, const Size& b) { return a.hint() < b.hint(); }
/// Any order, for sets.
std::strong_ordering order(const Size&, const Size&);
Size product(const Dims&);
bool is_symbolic(const Dims&);
std::vector<int64_t> numbers(const Dims&);  // Undecided where they are none
Dims sizes(const std::vector<int64_t>&);
template <class Numbers>
bool equal(const Dims& dims, const Numbers& numbers) {
  return std::equal(dims.begin(), dims.end(), numbers.begin(), numbers.end());
}
/// numbers(dims) in memory that stays: one copy for all that are equal.
const int64_t* kept_numbers(const Dims&);

/// "12", "u0", "4*u0-1", "2*u0*u1+(u0//2)", "max(u0,1)"
std::string to_string(const Size&);
/// The longest expression at the start of the text, which is shortened by it; nothing if there is none. `symbol` gives
/// what a name like "u0" stands for.
std::optional<Size> parse_size(std::string_view& text, const std::function<std::optional<Symbol>(std::string_view)>&);

}  // namespace precast::ir
