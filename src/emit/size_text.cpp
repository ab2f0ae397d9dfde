#include "emit/size_text.h"

#include <cctype>

namespace precast::emit {

using ir::Size;

namespace {

std::string variable(const ir::Symbol& s) { return "size" + std::to_string(s.id); }

std::string factor(const Size::Factor& f) {
  using Kind = Size::Factor::Kind;
  switch (f.kind) {
    case Kind::symbol:
      return variable(f.symbol);
    case Kind::floor_div:
      return "size_div(" + text(f.a) + ", " + text(f.b) + ")";
    case Kind::mod:
      return "size_mod(" + text(f.a) + ", " + text(f.b) + ")";
    case Kind::max:
      return "size_max(" + text(f.a) + ", " + text(f.b) + ")";
    case Kind::min:
      break;
  }
  return "size_min(" + text(f.a) + ", " + text(f.b) + ")";
}

}  // namespace

std::string text(const Size& s) {
  if (!s.is_symbolic()) return std::to_string(int64_t{s});
  std::string sum;
  const std::vector<Size::Term> terms = s.terms();
  for (const Size::Term& t : terms) {
    std::string product;
    if (t.coefficient != 1 || t.factors.empty()) product = number(Size(t.coefficient));
    for (const Size::Factor* f : t.factors) product += (product.empty() ? "" : " * ") + factor(*f);
    sum += (sum.empty() ? "" : " + ") + product;
  }
  const bool alone = terms.size() == 1 && terms[0].coefficient == 1 && terms[0].factors.size() == 1;
  return alone ? sum : "(" + sum + ")";
}

std::string number(const Size& s) {
  if (s.is_symbolic()) return text(s);
  const int64_t n = s;
  return std::to_string(n) + (n > INT32_MAX || n < INT32_MIN ? "LL" : "");
}

bool names(const std::string& text, const std::string& name) {
  const auto in_word = [&](size_t i) { return i < text.size() && (std::isalnum(text[i]) != 0 || text[i] == '_'); };
  for (size_t at = 0; (at = text.find(name, at)) != std::string::npos; ++at)
    if ((at == 0 || !in_word(at - 1)) && !in_word(at + name.size())) return true;
  return false;
}

std::string declare_sizes(const std::string& text, const std::vector<ir::Symbol>& symbols, const std::string& array) {
  std::string declarations;
  for (size_t i = 0; i < symbols.size(); ++i)
    if (names(text, variable(symbols[i])))
      declarations += "const i64 " + variable(symbols[i]) + " = (" + array + ")[" + std::to_string(i) + "];\n";
  return declarations;
}

}  // namespace precast::emit
