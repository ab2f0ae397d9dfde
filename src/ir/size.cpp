#include "ir/size.h"

#include <algorithm>
#include <charconv>
#include <map>
#include <memory>
#include <mutex>
#include <set>

namespace precast::ir {

using Factor = Size::Factor;
using Term = Size::Term;
using Wide = __int128;

struct Size::Expression {
  std::vector<Term> terms;
  std::string text;
  int64_t low = 0, high = 0, hint = 0;
};

namespace {

constexpr int64_t kMost = std::numeric_limits<int64_t>::max(), kLeast = std::numeric_limits<int64_t>::min();
constexpr size_t kMaxTerms = 64, kMaxFactors = 8;

int64_t clamped(Wide v) { return static_cast<int64_t>(std::clamp<Wide>(v, kLeast, kMost)); }
bool finite(int64_t v) { return v != kMost && v != kLeast; }

/// Numbers from `low` to `high`; the ends of int64 are infinite.
struct Interval {
  int64_t low, high;
};
int64_t plus(int64_t a, int64_t b) { return !finite(a) ? a : !finite(b) ? b : clamped(Wide{a} + b); }
int64_t times(int64_t a, int64_t b) { return a == 0 || b == 0 ? 0 : clamped(Wide{a} * b); }
Interval operator+(Interval a, Interval b) { return {plus(a.low, b.low), plus(a.high, b.high)}; }
Interval operator*(Interval a, Interval b) {
  const auto [low, high] =
      std::minmax({times(a.low, b.low), times(a.low, b.high), times(a.high, b.low), times(a.high, b.high)});
  return {low, high};
}

[[noreturn]] void too_large() { throw Undecided{"an expression of sizes that is too large"}; }

// ---- Polynomials ----

/// Higher powers first, then by name.
bool before(const std::vector<const Factor*>& a, const std::vector<const Factor*>& b) {
  if (a.size() != b.size()) return a.size() > b.size();
  for (size_t i = 0; i < a.size(); ++i)
    if (a[i] != b[i]) return a[i]->text != b[i]->text ? a[i]->text < b[i]->text : a[i] < b[i];
  return false;
}
bool factor_before(const Factor* a, const Factor* b) { return a->text != b->text ? a->text < b->text : a < b; }

std::string text_of(const std::vector<Term>& terms) {
  std::string s;
  for (const Term& t : terms) {
    if (t.coefficient >= 0 && !s.empty()) s += '+';
    std::string product;
    for (const Factor* f : t.factors) product += (product.empty() ? "" : "*") + f->text;
    if (product.empty()) {
      s += std::to_string(t.coefficient);
    } else if (t.coefficient == 1 || t.coefficient == -1) {
      s += (t.coefficient < 0 ? "-" : "") + product;
    } else {
      s += std::to_string(t.coefficient) + "*" + product;
    }
  }
  return s;
}

Interval interval_of(const Term& t) {
  Interval r{t.coefficient, t.coefficient};
  for (const Factor* f : t.factors) r = r * Interval{f->low, f->high};
  return r;
}

/// The least value: with each factor written as its least value plus something that is not negative, what has a
/// positive coefficient adds nothing. The symbols `positive` are at least 1.
int64_t least(const std::vector<Term>& terms, const std::vector<int>& positive) {
  const auto low_of = [&](const Factor* f) {
    const bool raised = f->kind == Factor::Kind::symbol && std::ranges::find(positive, f->symbol.id) != positive.end();
    return raised ? std::max<int64_t>(f->low, 1) : f->low;
  };
  std::map<std::vector<const Factor*>, Wide> moved;
  for (const Term& t : terms) {
    if (!std::all_of(t.factors.begin(), t.factors.end(), [](const Factor* f) { return finite(f->low); })) return kLeast;
    for (size_t subset = 0; subset < size_t{1} << t.factors.size(); ++subset) {
      Wide c = t.coefficient;
      std::vector<const Factor*> rest;
      for (size_t i = 0; i < t.factors.size(); ++i) {
        if (subset >> i & 1) {
          rest.push_back(t.factors[i]);
        } else {
          c = clamped(c * low_of(t.factors[i]));
        }
      }
      if (!finite(clamped(c))) return kLeast;
      Wide& sum = moved[rest];
      sum = clamped(sum + c);
    }
  }
  Wide low = 0;
  for (const auto& [factors, c] : moved) {
    if (factors.empty()) low += c;
    if (factors.empty() || c >= 0) continue;
    Wide most = c;
    for (const Factor* f : factors) {
      if (!finite(f->high)) return kLeast;
      most = clamped(most * (Wide{f->high} - low_of(f)));
    }
    low += most;
  }
  return clamped(low);
}

/// Sorts, adds up equal powers, drops zeros.
std::vector<Term> normal(std::vector<Term> terms) {
  for (Term& t : terms) std::sort(t.factors.begin(), t.factors.end(), factor_before);
  std::sort(terms.begin(), terms.end(), [](const Term& a, const Term& b) { return before(a.factors, b.factors); });
  std::vector<Term> r;
  for (Term& t : terms) {
    if (!r.empty() && r.back().factors == t.factors) {
      if (__builtin_add_overflow(r.back().coefficient, t.coefficient, &r.back().coefficient)) too_large();
    } else {
      if (!r.empty() && r.back().coefficient == 0) r.pop_back();
      r.push_back(std::move(t));
    }
  }
  if (!r.empty() && r.back().coefficient == 0) r.pop_back();
  for (const Term& t : r)
    if (t.factors.size() > kMaxFactors) too_large();
  if (r.size() > kMaxTerms) too_large();
  return r;
}

// ---- Interning ----

template <class T>
class Pool {
 public:
  template <class Make>
  const T* get(const std::string& key, Make&& make) {
    const std::lock_guard lock(mutex_);
    auto& slot = made_[key];
    if (!slot) slot = std::make_unique<T>(make());
    return slot.get();
  }

 private:
  std::mutex mutex_;
  std::map<std::string, std::unique_ptr<T>> made_;
};

std::string address(const void* p) { return std::to_string(reinterpret_cast<uintptr_t>(p)); }

const Factor* intern(const Symbol& s) {
  static auto& pool = *new Pool<Factor>;
  std::string key = name(s);
  for (const int64_t v : {s.min, s.max, s.hint}) key += ' ' + std::to_string(v);
  return pool.get(key, [&] {
    return Factor{.symbol = s,
                  .a = {},
                  .b = {},
                  .text = name(s),
                  .low = s.min,
                  .high = s.max,
                  .hint = std::max<int64_t>(s.hint, 2)};
  });
}

int64_t floor_div(int64_t a, int64_t b) {
  return b == -1 ? clamped(-Wide{a}) : a / b - (a % b != 0 && (a % b < 0) != (b < 0));
}

std::optional<int64_t> apply(Factor::Kind kind, int64_t a, int64_t b) {
  switch (kind) {
    case Factor::Kind::max:
      return std::max(a, b);
    case Factor::Kind::min:
      return std::min(a, b);
    default:
      break;
  }
  if (b == 0 || (b == -1 && a == kLeast)) return {};
  const int64_t q = floor_div(a, b);
  return kind == Factor::Kind::floor_div ? q : a - q * b;
}

/// The range of an opaque factor.
Interval interval_of(Factor::Kind kind, const Size& a, const Size& b) {
  switch (kind) {
    case Factor::Kind::max:
      return {std::max(a.lower(), b.lower()), std::max(a.upper(), b.upper())};
    case Factor::Kind::min:
      return {std::min(a.lower(), b.lower()), std::min(a.upper(), b.upper())};
    case Factor::Kind::mod:
      if (b.lower() <= 0) return {kLeast, kMost};
      return {0, finite(b.upper()) ? b.upper() - 1 : kMost};
    default:
      break;
  }
  const int64_t least = b.lower(), most = b.upper();
  if (least <= 0) return {kLeast, kMost};
  const auto low = a.lower(), high = a.upper();
  const auto over = [](int64_t x, int64_t y) {
    return !finite(x) ? x : !finite(y) ? int64_t{x < 0 ? -1 : 0} : floor_div(x, y);
  };
  return {low < 0 ? over(low, least) : over(low, most), high < 0 ? over(high, most) : over(high, least)};
}

}  // namespace

std::string name(const Symbol& s) { return "u" + std::to_string(s.id); }

Size Size::symbol(const Symbol& s) { return from_terms({{1, {intern(s)}}}); }

Size Size::from_terms(std::vector<Term> terms) {
  terms = normal(std::move(terms));
  if (terms.empty()) return 0;
  if (terms.size() == 1 && terms[0].factors.empty()) return terms[0].coefficient;
  static auto& pool = *new Pool<Expression>;
  std::string key;
  for (const Term& t : terms) {
    key += ' ' + std::to_string(t.coefficient);
    for (const Factor* f : t.factors) key += '*' + address(f);
  }
  Size s;
  s.expression_ = pool.get(key, [&] {
    Expression e;
    e.text = text_of(terms);
    Interval range{0, 0};
    double hint = 0;
    for (const Term& t : terms) {
      range = range + interval_of(t);
      double product = static_cast<double>(t.coefficient);
      for (const Factor* f : t.factors) product *= static_cast<double>(f->hint);
      hint += product;
    }
    std::vector<Term> negative = terms;
    for (Term& t : negative) t.coefficient = clamped(-Wide{t.coefficient});
    const int64_t most = least(negative, {});
    e.low = std::max(range.low, least(terms, {}));
    e.high = std::min(range.high, finite(most) ? -most : kMost);
    constexpr double kLimit = 1e18;
    e.hint = static_cast<int64_t>(std::clamp(hint, -kLimit, kLimit));
    e.terms = std::move(terms);
    return e;
  });
  return s;
}

std::vector<Term> Size::terms() const {
  if (expression_) return expression_->terms;
  return value_ == 0 ? std::vector<Term>{} : std::vector<Term>{{value_, {}}};
}

void Size::undecided() const { throw Undecided{expression_->text}; }

int64_t Size::hint() const { return expression_ ? expression_->hint : value_; }
int64_t Size::lower() const { return expression_ ? expression_->low : value_; }
int64_t Size::lower(const std::vector<int>& positive) const {
  if (!expression_ || positive.empty()) return lower();
  return std::max(lower(), least(expression_->terms, positive));
}
int64_t Size::upper() const { return expression_ ? expression_->high : value_; }

std::optional<int64_t> Size::value(const std::function<int64_t(const Symbol&)>& of) const {
  if (!expression_) return value_;
  Wide sum = 0;
  for (const Term& t : expression_->terms) {
    Wide product = t.coefficient;
    for (const Factor* f : t.factors) {
      std::optional<int64_t> v;
      if (f->kind == Factor::Kind::symbol) {
        v = of(f->symbol);
      } else {
        const auto a = f->a.value(of), b = f->b.value(of);
        if (a && b) v = apply(f->kind, *a, *b);
      }
      if (!v) return {};
      product *= *v;
      if (product != clamped(product)) return {};
    }
    sum += product;
    if (sum != clamped(sum)) return {};
  }
  return static_cast<int64_t>(sum);
}

Size Size::substitute(const std::function<Size(const Symbol&)>& of) const {
  if (!expression_) return *this;
  Size sum;
  for (const Term& t : expression_->terms) {
    Size product = t.coefficient;
    for (const Factor* f : t.factors) {
      if (f->kind == Factor::Kind::symbol) {
        product *= of(f->symbol);
        continue;
      }
      const Size a = f->a.substitute(of), b = f->b.substitute(of);
      switch (f->kind) {
        case Factor::Kind::floor_div:
          product *= floor_div(a, b);
          break;
        case Factor::Kind::mod:
          product *= mod(a, b);
          break;
        case Factor::Kind::max:
          product *= ir::max(a, b);
          break;
        default:
          product *= ir::min(a, b);
          break;
      }
    }
    sum += product;
  }
  return sum;
}

void Size::for_each_symbol(const std::function<void(const Symbol&)>& f) const {
  if (!expression_) return;
  for (const Term& t : expression_->terms)
    for (const Factor* x : t.factors) {
      if (x->kind == Factor::Kind::symbol) f(x->symbol);
      x->a.for_each_symbol(f), x->b.for_each_symbol(f);
    }
}

Size Size::add(const Size& a, const Size& b) {
  int64_t sum = 0;
  if (!a.expression_ && !b.expression_) {
    if (__builtin_add_overflow(a.value_, b.value_, &sum)) too_large();
    return sum;
  }
  std::vector<Term> terms = a.terms();
  for (Term& t : b.terms()) terms.push_back(std::move(t));
  return from_terms(std::move(terms));
}

Size Size::subtract(const Size& a, const Size& b) {
  int64_t difference = 0;
  if (!a.expression_ && !b.expression_ && !__builtin_sub_overflow(a.value_, b.value_, &difference)) return difference;
  return add(a, multiply(b, -1));
}

Size Size::multiply(const Size& a, const Size& b) {
  int64_t product = 0;
  if (!a.expression_ && !b.expression_) {
    if (__builtin_mul_overflow(a.value_, b.value_, &product)) too_large();
    return product;
  }
  std::vector<Term> terms;
  for (const Term& x : a.terms())
    for (const Term& y : b.terms()) {
      Term t;
      if (__builtin_mul_overflow(x.coefficient, y.coefficient, &t.coefficient)) too_large();
      t.factors = x.factors;
      t.factors.insert(t.factors.end(), y.factors.begin(), y.factors.end());
      terms.push_back(std::move(t));
    }
  return from_terms(std::move(terms));
}

bool always_at_least(const Size& a, const Size& b, const std::vector<int>& positive) {
  return Size::subtract(a, b).lower(positive) >= 0;
}

bool Size::less(const Size& a, const Size& b) {
  if (!a.expression_ && !b.expression_) return a.value_ < b.value_;
  const Size gap = subtract(b, a);
  if (gap.lower() > 0) return true;
  if (gap.upper() <= 0) return false;
  throw Undecided{to_string(a) + " < " + to_string(b)};
}

namespace {

/// a / b for single terms.
std::optional<Term> divide(const Term& a, const Term& b) {
  if (b.coefficient == 0 || a.coefficient % b.coefficient != 0) return {};
  Term r{b.coefficient == -1 ? clamped(-Wide{a.coefficient}) : a.coefficient / b.coefficient, {}};
  auto own = b.factors.begin();
  for (const Factor* f : a.factors) {
    if (own != b.factors.end() && *own == f) {
      ++own;
    } else {
      r.factors.push_back(f);
    }
  }
  return own == b.factors.end() ? std::optional(r) : std::nullopt;
}

Size opaque(Factor::Kind kind, const Size& a, const Size& b) {
  static auto& pool = *new Pool<Factor>;
  std::string key = std::to_string(static_cast<int>(kind));
  for (const Size* s : {&a, &b}) {
    key += '|';
    for (const Term& t : s->terms()) {
      key += ' ' + std::to_string(t.coefficient);
      for (const Factor* f : t.factors) key += '*' + address(f);
    }
  }
  const auto operand = [&](const Size& v) {
    const bool apart = kind == Factor::Kind::floor_div || kind == Factor::Kind::mod;
    return apart && v.terms().size() > 1 ? "(" + to_string(v) + ")" : to_string(v);
  };
  const std::string x = operand(a), y = operand(b);
  if (x.size() + y.size() > 2000) too_large();
  const Factor* f = pool.get(key, [&] {
    Factor made{.kind = kind, .a = a, .b = b, .text = {}};
    switch (kind) {
      case Factor::Kind::floor_div:
        made.text = "(" + x + "//" + y + ")";
        break;
      case Factor::Kind::mod:
        made.text = "(" + x + "%" + y + ")";
        break;
      default:
        made.text = (kind == Factor::Kind::max ? "max(" : "min(") + x + "," + y + ")";
        break;
    }
    const Interval range = interval_of(kind, a, b);
    made.low = range.low, made.high = range.high;
    made.hint = apply(kind, a.hint(), b.hint()).value_or(1);
    return made;
  });
  return Size::from_terms({{1, {f}}});
}

/// The quotient rounded down and the rest, where they are seen; else what of the terms b divides, and what is left.
struct Split {
  Size quotient, rest;
  bool exact = false;
};
Split split(const Size& a, const Size& b, const std::vector<int>& positive = {}) {
  const std::vector<Term> divisor = b.terms();
  std::vector<Term> quotient, rest;
  for (const Term& t : a.terms()) {
    if (const auto q = divisor.size() == 1 ? divide(t, divisor[0]) : std::nullopt) {
      quotient.push_back(*q);
    } else {
      rest.push_back(t);
    }
  }
  Split s{Size::from_terms(std::move(quotient)), Size::from_terms(std::move(rest))};
  for (const int64_t q : {0, -1}) {
    const Size left = s.rest - q * b;
    if (left.lower(positive) < 0 || (b - left).lower(positive) <= 0) continue;
    return {s.quotient + q, left, true};
  }
  return s;
}

}  // namespace

std::optional<Size> divide(const Size& a, const Size& b) {
  if (a == b && a.is_symbolic()) return Size(1);
  // Leading terms give the quotient's, one after the other.
  const std::vector<Term> divisor = b.terms();
  if (divisor.empty()) return {};
  Size rest = a, quotient;
  for (size_t steps = 0; rest != 0; ++steps) {
    const auto q = divide(rest.terms()[0], divisor[0]);
    if (!q || steps > kMaxTerms) return {};
    const Size part = Size::from_terms({*q});
    quotient += part;
    rest -= part * b;
  }
  return quotient;
}

std::optional<std::pair<Size, Size>> quotient(const Size& a, const Size& b, const std::vector<int>& positive) {
  if (!a.is_symbolic() && !b.is_symbolic()) {
    const int64_t q = floor_div(int64_t{a}, int64_t{b});
    return std::pair{Size(q), a - q * b};
  }
  if (const auto exact = divide(a, b)) return std::pair{*exact, Size(0)};
  const Split s = split(a, b, positive);
  return s.exact ? std::optional(std::pair{s.quotient, s.rest}) : std::nullopt;
}

Size floor_div(const Size& a, const Size& b) {
  if (!a.is_symbolic() && !b.is_symbolic()) {
    const auto v = apply(Factor::Kind::floor_div, a, b);
    if (!v) throw Undecided{to_string(a) + "//" + to_string(b)};
    return *v;
  }
  if (const auto exact = divide(a, b)) return *exact;
  const Split s = split(a, b);
  return s.exact ? s.quotient : s.quotient + opaque(Factor::Kind::floor_div, s.rest, b);
}

Size mod(const Size& a, const Size& b) {
  if (!a.is_symbolic() && !b.is_symbolic()) return a - floor_div(a, b) * b;
  if (divide(a, b)) return 0;
  const Split s = split(a, b);
  return s.exact ? s.rest : opaque(Factor::Kind::mod, s.rest, b);
}

Size max(const Size& a, const Size& b) {
  if (always_at_least(a, b)) return a;
  if (always_at_least(b, a)) return b;
  return to_string(b) < to_string(a) ? opaque(Factor::Kind::max, b, a) : opaque(Factor::Kind::max, a, b);
}
Size min(const Size& a, const Size& b) {
  if (always_at_least(a, b)) return b;
  if (always_at_least(b, a)) return a;
  return to_string(b) < to_string(a) ? opaque(Factor::Kind::min, b, a) : opaque(Factor::Kind::min, a, b);
}

std::vector<int> common_symbols(const Size& s) {
  std::vector<int> ids;
  const std::vector<Term> terms = s.terms();
  if (!s.is_symbolic()) return ids;
  for (const Factor* f : terms[0].factors) {
    const bool common =
        std::ranges::all_of(terms, [&](const Term& t) { return std::ranges::find(t.factors, f) != t.factors.end(); });
    if (common && f->kind == Factor::Kind::symbol) ids.push_back(f->symbol.id);
  }
  return ids;
}

std::strong_ordering order(const Size& a, const Size& b) {
  if (a.is_symbolic() || b.is_symbolic()) return to_string(a) <=> to_string(b);
  return int64_t{a} <=> int64_t{b};
}

Size product(const Dims& sizes) {
  Size n = 1;
  for (const Size& s : sizes) n *= s;
  return n;
}
bool is_symbolic(const Dims& sizes) {
  return std::any_of(sizes.begin(), sizes.end(), [](const Size& s) { return s.is_symbolic(); });
}

std::vector<int64_t> numbers(const Dims& dims) { return {dims.begin(), dims.end()}; }
Dims sizes(const std::vector<int64_t>& numbers) { return {numbers.begin(), numbers.end()}; }

const int64_t* kept_numbers(const Dims& dims) {
  static auto& kept = *new std::set<std::vector<int64_t>>;
  static std::mutex mutex;
  std::vector<int64_t> n = numbers(dims);
  const std::lock_guard lock(mutex);
  return kept.insert(std::move(n)).first->data();
}

// ---- Text ----

std::string to_string(const Size& s) { return s.is_symbolic() ? text_of(s.terms()) : std::to_string(int64_t{s}); }

namespace {

class Reader {
 public:
  Reader(std::string_view text, const std::function<std::optional<Symbol>(std::string_view)>& symbol)
      : text_(text), symbol_(symbol) {}

  std::optional<Size> sum(int depth) {
    const bool negative = take('-');
    auto r = product(depth);
    if (r && negative) r = -*r;
    while (r && at_ < text_.size() && (text_[at_] == '+' || text_[at_] == '-')) {
      const bool minus = text_[at_++] == '-';
      const auto next = product(depth);
      r = !next ? next : minus ? *r - *next : *r + *next;
    }
    return r;
  }
  size_t at_ = 0;

 private:
  bool take(std::string_view word) {
    if (!text_.substr(at_).starts_with(word)) return false;
    at_ += word.size();
    return true;
  }
  bool take(char c) { return take(std::string_view(&c, 1)); }

  std::optional<Size> product(int depth) {
    auto r = factor(depth);
    while (r && take('*')) {
      const auto next = factor(depth);
      r = next ? std::optional(*r * *next) : next;
    }
    return r;
  }

  std::optional<Size> factor(int depth) {
    constexpr int kDeepest = 16;
    if (depth > kDeepest) return {};
    if (take("max(")) return pair(depth, ",", ir::max);
    if (take("min(")) return pair(depth, ",", ir::min);
    if (take('(')) {
      const auto a = sum(depth + 1);
      if (!a || take(')')) return a;
      const bool quotient = take("//");
      if (!quotient && !take('%')) return {};
      const auto b = sum(depth + 1);
      if (!b || *b == 0 || !take(')')) return {};
      return quotient ? floor_div(*a, *b) : mod(*a, *b);
    }
    size_t end = at_;
    const auto digit = [&](size_t i) { return i < text_.size() && text_[i] >= '0' && text_[i] <= '9'; };
    const bool symbol = end < text_.size() && text_[end] == 'u';
    if (symbol) ++end;
    while (digit(end)) ++end;
    const std::string_view word = text_.substr(at_, end - at_);
    if (word.size() == (symbol ? 1 : 0)) return {};
    at_ = end;
    if (symbol) {
      const auto s = symbol_(word);
      return s ? std::optional(Size::symbol(*s)) : std::nullopt;
    }
    int64_t v = 0;
    const auto [stop, error] = std::from_chars(word.data(), word.data() + word.size(), v);
    return error == std::errc{} ? std::optional(Size(v)) : std::nullopt;
  }

  std::optional<Size> pair(int depth, std::string_view between, Size (*f)(const Size&, const Size&)) {
    const auto a = sum(depth + 1);
    if (!a || !take(between)) return {};
    const auto b = sum(depth + 1);
    if (!b || !take(')')) return {};
    return f(*a, *b);
  }

  std::string_view text_;
  const std::function<std::optional<Symbol>(std::string_view)>& symbol_;
};

}  // namespace

std::optional<Size> parse_size(std::string_view& text,
                               const std::function<std::optional<Symbol>(std::string_view)>& symbol) {
  Reader reader(text, symbol);
  try {
    const auto s = reader.sum(0);
    if (s) text.remove_prefix(reader.at_);
    return s;
  } catch (const Undecided&) {
    return {};
  }
}

}  // namespace precast::ir
