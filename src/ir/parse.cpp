// Recursive descent without recursion: the grammar of print.h has no nesting beyond one list, so arbitrary
// bytes cost memory in proportion to their length and no stack.
#include <algorithm>
#include <charconv>
#include <limits>
#include <unordered_map>

#include "ir/print.h"
#include "ir/verify.h"
#include "precast/error.h"

namespace precast::ir {
namespace {

// Geometry up to this many bytes cannot overflow when it is multiplied out.
constexpr int64_t kMaxBytes = int64_t{1} << 60;

class Parser {
 public:
  explicit Parser(std::string_view text) : text_(text) {}

  Graph run() {
    if (try_word("symbols:")) do
        symbol();
      while (try_char(','));
    expect_word("graph");
    list('(', ')', [&] { g_.inputs.push_back(definition()); });
    expect('{');
    std::vector<size_t> starts;
    for (;;) {
      skip_space();
      size_t start = at_;
      if (try_word("return")) break;
      starts.push_back(start);
      g_.nodes.push_back(node());
    }
    list('(', ')', [&] { g_.outputs.push_back(use()); });
    expect('}');
    skip_space();
    if (at_ != text_.size()) fail("nothing after the closing '}'");
    if (auto fault = find_fault(g_)) {
      size_t i = static_cast<size_t>(fault->node);
      at_ = fault->node >= 0 && i < starts.size() ? starts[i] : text_.size();
      fail_with(fault->message);
    }
    return std::move(g_);
  }

 private:
  // ---- errors and tokens

  [[noreturn]] void fail_with(const std::string& message) const {
    size_t line = 1, start = 0;
    for (size_t i = 0; i < at_ && i < text_.size(); ++i)
      if (text_[i] == '\n') ++line, start = i + 1;
    throw PrecompileError("graph text, line " + std::to_string(line) + ", column " + std::to_string(at_ - start + 1) +
                          ": " + message);
  }
  [[noreturn]] void fail(const std::string& expected) const {
    std::string found;
    for (size_t i = at_; i < text_.size() && found.size() < 16 && text_[i] >= ' ' && text_[i] < 127; ++i)
      found += text_[i];
    if (at_ >= text_.size())
      found = "the end of the text";
    else
      found = found.empty() ? "an unprintable byte" : "'" + found + "'";
    fail_with("expected " + expected + ", found " + found);
  }

  static bool is_digit(char c) { return c >= '0' && c <= '9'; }
  static bool is_word(char c) {
    return is_digit(c) || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' || c == ':' || c == '.' ||
           c == '<' || c == '>';
  }
  void skip_space() {
    while (at_ < text_.size() && (text_[at_] == ' ' || text_[at_] == '\n' || text_[at_] == '\t' || text_[at_] == '\r'))
      ++at_;
  }
  char peek() {
    skip_space();
    return at_ < text_.size() ? text_[at_] : '\0';
  }
  bool try_char(char c) {
    if (peek() != c || at_ >= text_.size()) return false;
    ++at_;
    return true;
  }
  void expect(char c) {
    if (!try_char(c)) fail(std::string("'") + c + "'");
  }
  std::string_view peek_word() {
    skip_space();
    size_t end = at_;
    while (end < text_.size() && is_word(text_[end])) ++end;
    return text_.substr(at_, end - at_);
  }
  bool try_word(std::string_view w) {
    if (peek_word() != w) return false;
    at_ += w.size();
    return true;
  }
  void expect_word(std::string_view w) {
    if (!try_word(w)) fail("'" + std::string(w) + "'");
  }
  std::string word(const char* what) {
    std::string_view w = peek_word();
    if (w.empty() || is_digit(w[0])) fail(what);
    at_ += w.size();
    return std::string(w);
  }

  template <class F>
  void list(char open, char close, F&& item) {
    expect(open);
    if (try_char(close)) return;
    do item();
    while (try_char(','));
    if (!try_char(close)) fail(std::string("',' or '") + close + "'");
  }

  int64_t integer() {
    skip_space();
    int64_t v = 0;
    auto [end, error] = std::from_chars(text_.data() + at_, text_.data() + text_.size(), v);
    if (error != std::errc{}) fail("an integer of 64 bits");
    at_ = static_cast<size_t>(end - text_.data());
    return v;
  }
  int64_t number_to(int64_t most, const char* what) {
    skip_space();
    size_t start = at_;
    int64_t v = integer();
    if (v < 0 || v > most) at_ = start, fail(what);
    return v;
  }
  int64_t count() { return number_to(kMaxBytes, "a number from 0 to 2^60"); }

  // u1 in [2, 64] hint 16
  void symbol() {
    Symbol s;
    skip_space();
    size_t start = at_;
    std::string n = word("a symbol");
    auto [end, error] = std::from_chars(n.data() + 1, n.data() + n.size(), s.id);
    if (error != std::errc{} || name(s) != n || s.id < 0) at_ = start, fail("a symbol (u0, u1, ...)");
    if (find_symbol(n)) at_ = start, fail("a symbol that is not declared yet");
    expect_word("in");
    expect('[');
    s.min = count();
    expect(',');
    if (try_word("inf")) {
      expect(')');
    } else {
      s.max = count();
      expect(']');
    }
    expect_word("hint");
    s.hint = count();
    if (s.min > s.max) at_ = start, fail_with("the bounds of " + n + " leave no value");
    g_.symbols.push_back(s);
  }
  std::optional<Symbol> find_symbol(std::string_view n) const {
    for (const Symbol& s : g_.symbols)
      if (name(s) == n) return s;
    return {};
  }

  // An expression of symbols, or a number.
  Size expression() {
    if (!ahead_is_expression()) return integer();
    std::string_view rest = text_.substr(at_);
    auto s = parse_size(rest, [&](std::string_view n) { return find_symbol(n); });
    if (!s) fail("an integer of 64 bits or an expression of declared symbols");
    at_ = text_.size() - rest.size();
    return *s;
  }
  Size size() {
    skip_space();
    size_t start = at_;
    if (!ahead_is_expression()) return number_to(kMaxBytes, "a size from 0 to 2^60");
    Size s = expression();
    if (s.upper() < 0) at_ = start, fail("a size from 0 to 2^60");
    return s;
  }

  double real() {
    skip_space();
    bool negative = at_ < text_.size() && text_[at_] == '-';
    if (negative) ++at_;
    double v = 0;
    if (try_word("inf"))
      v = std::numeric_limits<double>::infinity();
    else if (try_word("nan"))
      v = std::numeric_limits<double>::quiet_NaN();
    else {
      if (at_ >= text_.size() || !is_digit(text_[at_])) fail("a number");
      auto [end, error] = std::from_chars(text_.data() + at_, text_.data() + text_.size(), v);
      if (error != std::errc{}) fail("a number that a double holds");
      at_ = static_cast<size_t>(end - text_.data());
    }
    return negative ? -v : v;
  }

  // True if the number ahead is written as a double, not as an integer.
  bool ahead_is_real() {
    skip_space();
    size_t i = at_ + (at_ < text_.size() && text_[at_] == '-' ? 1 : 0);
    if (i < text_.size() && !is_digit(text_[i])) return !ahead_is_expression();
    while (i < text_.size() && is_digit(text_[i])) ++i;
    return i < text_.size() && (text_[i] == '.' || text_[i] == 'e');
  }
  // True if what is ahead is more than a number.
  bool ahead_is_expression() {
    skip_space();
    size_t i = at_ + (at_ < text_.size() && text_[at_] == '-' ? 1 : 0);
    if (i >= text_.size()) return false;
    if (!is_digit(text_[i])) return text_[i] == 'u' || text_[i] == 'm' || text_[i] == '(';
    while (i < text_.size() && is_digit(text_[i])) ++i;
    return i < text_.size() && (text_[i] == '*' || text_[i] == '+' || text_[i] == '-');
  }

  std::string string() {
    expect('"');
    std::string s;
    while (at_ < text_.size() && text_[at_] != '"') {
      char c = text_[at_++];
      if (c == '\\') c = escape();
      s += c;
    }
    if (at_ >= text_.size()) fail("'\"'");
    ++at_;
    return s;
  }
  char escape() {
    char c = at_ < text_.size() ? text_[at_] : '\0';
    if (c == '"' || c == '\\') return ++at_, c;
    if (c == 'n') return ++at_, '\n';
    int v = 0;
    if (c != 'x' || at_ + 3 > text_.size()) fail(R"(one of \" \\ \n \xHH)");
    auto [end, error] = std::from_chars(text_.data() + at_ + 1, text_.data() + at_ + 3, v, 16);
    if (error != std::errc{} || end != text_.data() + at_ + 3) fail("two hexadecimal digits after \\x");
    at_ += 3;
    return static_cast<char>(v);
  }

  // ---- types and values

  Type type() {
    skip_space();
    auto dtype = dtype_from_name(peek_word());
    if (!dtype) fail("a dtype (f32, i64, bool, ...)");
    at_ += peek_word().size();
    Type t{.dtype = *dtype, .sizes = {}, .strides = {}};
    list('[', ']', [&] { t.sizes.push_back(size()); });
    if (peek() == '{') {
      list('{', '}', [&] { t.strides.push_back(size()); });
      if (t.strides.size() != t.sizes.size()) fail_with("there must be as many strides as sizes");
    }
    bool given = !t.strides.empty();
    int64_t numel = itemsize(t.dtype), span = 0;
    for (size_t i = 0; i < t.sizes.size(); ++i) {
      if (t.sizes[i].is_symbolic()) continue;
      int64_t s = std::max<int64_t>(t.sizes[i], 1);
      if (__builtin_mul_overflow(numel, s, &numel) || numel > kMaxBytes) fail_with("the type is over 2^60 bytes");
      int64_t reach = 0;
      if (given && !t.strides[i].is_symbolic() &&
          (__builtin_mul_overflow(s - 1, int64_t{t.strides[i]}, &reach) || (span += reach) > kMaxBytes / 32))
        fail_with("the strides reach over 2^60 bytes");
    }
    if (!given) t.strides = contiguous_strides(t.sizes);
    t.conj = try_word("conj");
    t.neg = try_word("neg");
    if (try_char('@')) t.device = device();
    return t;
  }
  Device device() {
    auto d = device_from_name(peek_word());
    if (!d) fail("a device (cpu, cuda:0, ...)");
    at_ += peek_word().size();
    return *d;
  }

  int64_t value_number() {
    expect('%');
    return count();
  }
  ValueId definition() {
    skip_space();
    size_t start = at_;
    int64_t number = value_number();
    expect(':');
    Type t = type();
    ValueId id = g_.add_value(std::move(t), peek() == '"' ? string() : std::string());
    if (!ids_.emplace(number, id).second) at_ = start, fail("a value that is not defined yet");
    return id;
  }
  ValueId use() {
    skip_space();
    size_t start = at_;
    auto it = ids_.find(value_number());
    if (it == ids_.end()) at_ = start, fail("a value defined above");
    return it->second;
  }
  // %3, or %3 -> %4: type.
  Ref operand(Node& n, Slot slot) {
    Ref r{use()};
    if (try_char('-')) {
      expect('>');
      n.writes.push_back({slot, definition()});
    }
    return r;
  }

  // ---- nodes

  Node node() {
    Node n;
    if (char c = peek(); c == '%' || c == '(' || c == '[' || peek_word() == "_") {
      do n.outs.push_back(out());
      while (try_char(','));
      expect('=');
    }
    n.op = word("an op, a return value or 'return'");
    if (n.op.find("::") == n.op.npos) at_ -= n.op.size(), fail("an op name with '::'");
    list('(', ')', [&] {
      std::string name = word("an argument name");
      expect('=');
      n.args.push_back({std::move(name), {}});
      n.args.back().value = attr(n, static_cast<int>(n.args.size()) - 1);
    });
    while (try_word("shared")) n.shared.push_back(shared(n));
    return n;
  }

  Out out() {
    Out o;
    if (try_word("_")) return o;
    if (peek() == '(') {
      o.is_list = true;
      list('(', ')', [&] { o.list.push_back({try_word("_") ? kNoValue : definition()}); });
    } else if (try_char('[')) {
      Node none;
      o.expect = attr(none, 0);
      if (std::holds_alternative<std::monostate>(o.expect) || holds_ref(o.expect))
        fail_with("a condition is a number, a bool or a string");
      expect(']');
    } else {
      o.id = definition();
    }
    return o;
  }
  static bool holds_ref(const Attr& a) {
    return std::holds_alternative<Ref>(a) || std::holds_alternative<std::vector<Ref>>(a);
  }

  Shared shared(const Node& n) {
    Shared s;
    expect('(');
    s.base = use();
    expect('-');
    expect('>');
    s.value = definition();
    while (try_char(',')) {
      Shared::View v;
      std::string name = word("an argument name");
      while (v.slot.arg < static_cast<int>(n.args.size()) && n.args[static_cast<size_t>(v.slot.arg)].name != name)
        ++v.slot.arg;
      if (v.slot.arg == static_cast<int>(n.args.size())) fail_with("the op has no argument '" + name + "'");
      if (try_char('[')) {
        int64_t item = count();
        if (item > std::numeric_limits<int>::max()) fail_with("no such entry");
        v.slot.item = static_cast<int>(item);
        expect(']');
      }
      expect('@');
      v.offset_bytes = size();
      expect(':');
      v.type = type();
      s.views.push_back(std::move(v));
    }
    expect(')');
    return s;
  }

  Attr attr(Node& n, int arg) {
    char c = peek();
    if (c == '"') return string();
    if (c == '%') return operand(n, {arg, 0});
    if (c == '[') return list_attr(n, arg);
    std::string_view w = peek_word();
    if (c == '(' || w == "max" || w == "min" || find_symbol(w)) return expression();
    if (c == '-' || is_digit(c)) return number();
    if (w == "inf" || w == "nan") return real();
    if (try_word("None")) return std::monostate{};
    if (try_word("true")) return true;
    if (try_word("false")) return false;
    if (try_word("undefined")) return Ref{};
    if (try_word("complex")) {
      expect('(');
      double re = real();
      expect(',');
      double im = real();
      expect(')');
      return std::complex<double>(re, im);
    }
    if (at_ + w.size() < text_.size() && text_[at_ + w.size()] == '[') return empty_list(w);
    if (auto d = dtype_from_name(w)) return at_ += w.size(), Attr(*d);
    if (auto d = device_from_name(w)) return at_ += w.size(), Attr(*d);
    fail("an argument value");
  }
  Attr number() {
    if (ahead_is_real()) return real();
    return expression();
  }
  Attr empty_list(std::string_view kind) {
    Attr a;
    if (kind == "Tensor")
      a = std::vector<Ref>{};
    else if (kind == "int")
      a = std::vector<int64_t>{};
    else if (kind == "float")
      a = std::vector<double>{};
    else if (kind == "bool")
      a = std::vector<bool>{};
    else
      fail("Tensor[], int[], float[] or bool[]");
    at_ += kind.size();
    expect('[');
    expect(']');
    return a;
  }
  // The first entry decides what the list holds.
  Attr list_attr(Node& n, int arg) {
    size_t start = at_;
    expect('[');
    char c = peek();
    std::string_view w = peek_word();
    at_ = start;
    if (c == ']') fail("an entry (empty lists are Tensor[], int[], float[], bool[])");
    if (c == '%' || w == "None") {
      std::vector<Ref> v;
      list('[', ']', [&] { v.push_back(try_word("None") ? Ref{} : operand(n, {arg, static_cast<int>(v.size())})); });
      return v;
    }
    if (w == "true" || w == "false") {
      std::vector<bool> v;
      list('[', ']', [&] {
        bool yes = try_word("true");
        if (!yes) expect_word("false");
        v.push_back(yes);
      });
      return v;
    }
    ++at_;
    bool reals = ahead_is_real();
    at_ = start;
    if (reals) {
      std::vector<double> v;
      list('[', ']', [&] { v.push_back(real()); });
      return v;
    }
    Dims v;
    list('[', ']', [&] { v.push_back(expression()); });
    return v;
  }

  std::string_view text_;
  size_t at_ = 0;
  Graph g_;
  std::unordered_map<int64_t, ValueId> ids_;
};

}  // namespace

Graph parse(std::string_view text) { return Parser(text).run(); }

}  // namespace precast::ir
