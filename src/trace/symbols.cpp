#include "trace/symbols.h"

#include <algorithm>

#include "precast/error.h"

namespace precast::trace {

using ir::Size;

bool Truth::at(const std::function<int64_t(const Size&)>& v) const {
  switch (kind) {
    case Kind::constant:
      return value;
    case Kind::equal:
      return v(a) == v(b);
    case Kind::less:
      return v(a) < v(b);
    case Kind::at_most:
      return v(a) <= v(b);
    case Kind::both:
      return left->at(v) && right->at(v);
    case Kind::either:
      return left->at(v) || right->at(v);
    case Kind::negation:
      return !left->at(v);
  }
  return false;
}

std::string Truth::text() const {
  const auto pair = [&](const char* op) { return ir::to_string(a) + op + ir::to_string(b); };
  const auto both = [&](const char* op) { return "(" + left->text() + op + right->text() + ")"; };
  switch (kind) {
    case Kind::constant:
      return value ? "true" : "false";
    case Kind::equal:
      return pair(" == ");
    case Kind::less:
      return pair(" < ");
    case Kind::at_most:
      return pair(" <= ");
    case Kind::both:
      return both(" and ");
    case Kind::either:
      return both(" or ");
    case Kind::negation:
      return left->kind == Kind::equal ? ir::to_string(left->a) + " != " + ir::to_string(left->b)
                                       : "not (" + left->text() + ")";
  }
  return "";
}

int Symbols::add(ir::Symbol s, int64_t real, std::string where) {
  s.id = static_cast<int>(all.size());
  all.push_back({s, real, std::move(where), -1});
  return s.id;
}

int Symbols::root(int id) const {
  while (all.at(static_cast<size_t>(id)).same_as >= 0) id = all[static_cast<size_t>(id)].same_as;
  return id;
}

void Symbols::join(int a, int b) {
  a = root(a), b = root(b);
  if (a == b) return;
  if (b < a) std::swap(a, b);
  One &to = all[static_cast<size_t>(a)], &from = all[static_cast<size_t>(b)];
  to.symbol.min = std::max(to.symbol.min, from.symbol.min);
  to.symbol.max = std::min(to.symbol.max, from.symbol.max);
  from.same_as = a;
  ++changes;
}

Size Symbols::canonical(const Size& s) const {
  if (!s.is_symbolic() || all.empty()) return s;
  return s.substitute([&](const ir::Symbol& u) { return size(u.id); });
}

int64_t Symbols::real(const Size& s) const {
  const auto v = s.value([&](const ir::Symbol& u) { return all.at(static_cast<size_t>(u.id)).real; });
  if (!v) refuse_guard(ir::to_string(s), origins(s));
  return *v;
}

std::optional<int64_t> Symbols::at(const Size& s, const Point& p) const {
  return s.value([&](const ir::Symbol& u) { return p.at(static_cast<size_t>(root(u.id))); });
}

std::string Symbols::in_words(const Point& p, const char* between) const {
  std::string text;
  for (size_t i = 0; i < p.size(); ++i)
    if (root(static_cast<int>(i)) == static_cast<int>(i))
      text += (text.empty() ? "u" : std::string(between) + "u") + std::to_string(i) + "=" + std::to_string(p[i]);
  return text;
}

std::optional<bool> Symbols::decide(const Truth& t) const {
  const auto less = [](const Size& a, const Size& b) -> std::optional<bool> {
    try {
      return Size::less(a, b);
    } catch (const ir::Undecided&) {
      return {};
    }
  };
  const Size a = canonical(t.a), b = canonical(t.b);
  switch (t.kind) {
    case Truth::Kind::constant:
      return t.value;
    case Truth::Kind::equal:
      if (a == b) return true;
      if (less(a, b).value_or(false) || less(b, a).value_or(false)) return false;
      return {};
    case Truth::Kind::less:
      return less(a, b);
    case Truth::Kind::at_most:
      if (const auto l = less(b, a)) return !*l;
      return {};
    case Truth::Kind::negation:
      if (const auto l = decide(*t.left)) return !*l;
      return {};
    case Truth::Kind::both:
    case Truth::Kind::either: {
      const bool strong = t.kind == Truth::Kind::either;  // the value that decides alone
      const auto l = decide(*t.left), r = decide(*t.right);
      if (l == strong || r == strong) return strong;
      if (l && r) return !strong;
      return {};
    }
  }
  return {};
}

std::string Symbols::origins(const Size& s) const {
  std::vector<int> seen;
  std::string text;
  canonical(s).for_each_symbol([&](const ir::Symbol& u) {
    if (std::find(seen.begin(), seen.end(), u.id) != seen.end()) return;
    seen.push_back(u.id);
    text += (text.empty() ? "" : ", ") + ir::name(u) + " is " + all.at(static_cast<size_t>(u.id)).where;
  });
  return text;
}

void Symbols::refuse_guard(const std::string& expression, const std::string& origins) const {
  const std::string message =
      "the function needs to know " + expression + calling_place() + (origins.empty() ? "" : " (" + origins + ")") +
      ", but a dim marked with mark_unbacked stands for any size, so nothing may depend on its value. Do not mark that "
      "dim, give it bounds that decide, or write the function without the question (sym_size() in place of size(), "
      "view_symint and the like in place of view)";
  if (refuse) refuse(Check::dynamic_guard, message);
  throw RunFailure(refuse ? "the recording cannot go on" : message);  // no other way on, in a test build either
}

}  // namespace precast::trace
