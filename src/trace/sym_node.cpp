// Sizes and conditions as LibTorch holds them.
#include <c10/core/SymNodeImpl.h>

#include <algorithm>

#include "trace/symbols.h"

namespace precast::trace {

using ir::Size;

namespace {

TruthPtr constant(bool value) { return std::make_shared<Truth>(Truth{.value = value}); }
TruthPtr compare(Truth::Kind kind, Size a, Size b) {
  return std::make_shared<Truth>(Truth{.kind = kind, .a = std::move(a), .b = std::move(b)});
}
TruthPtr combine(Truth::Kind kind, TruthPtr a, TruthPtr b = nullptr) {
  return std::make_shared<Truth>(Truth{.kind = kind, .left = std::move(a), .right = std::move(b)});
}

// Ops that take a short cut where a tensor is empty, to the result that their general way has as well.
constexpr std::string_view kEmptyShortcuts[] = {
    "aten::dropout",        "aten::feature_dropout",
    "aten::alpha_dropout",  "aten::scaled_dot_product_attention",
    "aten::lstm_input",     "aten::lstm_data",
    "aten::gru_input",      "aten::rnn_tanh_input",
    "aten::rnn_relu_input", "aten::_batch_norm_impl_index",
    "aten::cdist",          "aten::_cdist_forward",
};

/// An expression or a condition, as LibTorch holds it.
class Node final : public c10::SymNodeImpl {
 public:
  Node(std::shared_ptr<Symbols> s, Size v) : symbols_(std::move(s)), size_(std::move(v)) {}
  Node(std::shared_ptr<Symbols> s, TruthPtr t) : symbols_(std::move(s)), truth_(std::move(t)) {}

  Size size() const { return symbols_->canonical(size_); }

  bool is_int() override { return !truth_; }
  bool is_bool() override { return truth_ != nullptr; }
  bool is_float() override { return false; }

  using N = c10::SymNode;
  N add(const N& o) override { return make(size() + of(o)); }
  N sub(const N& o) override { return make(size() - of(o)); }
  N mul(const N& o) override { return make(size() * of(o)); }
  N floordiv(const N& o) override { return make(quotient(of(o), &ir::floor_div)); }
  N int_floordiv(const N& o) override { return floordiv(o); }
  N mod(const N& o) override { return make(quotient(of(o), &ir::mod)); }
  N neg() override { return make(-size()); }
  N sym_min(const N& o) override { return make(ir::min(size(), of(o))); }
  N sym_max(const N& o) override { return make(ir::max(size(), of(o))); }
  N ceil() override { return make(size()); }
  N floor() override { return make(size()); }
  N eq(const N& o) override { return make(compare(Truth::Kind::equal, size(), of(o))); }
  N ne(const N& o) override { return make(combine(Truth::Kind::negation, compare(Truth::Kind::equal, size(), of(o)))); }
  N lt(const N& o) override { return make(compare(Truth::Kind::less, size(), of(o))); }
  N le(const N& o) override { return make(compare(Truth::Kind::at_most, size(), of(o))); }
  N gt(const N& o) override { return make(compare(Truth::Kind::less, of(o), size())); }
  N ge(const N& o) override { return make(compare(Truth::Kind::at_most, of(o), size())); }
  N sym_and(const N& o) override { return make(combine(Truth::Kind::both, truth_, truth_of(o))); }
  N sym_or(const N& o) override { return make(combine(Truth::Kind::either, truth_, truth_of(o))); }
  N sym_not() override { return make(combine(Truth::Kind::negation, truth_)); }
  N clone() override { return c10::make_intrusive<Node>(*this); }
  N wrap_int(int64_t n) override { return make(Size(n)); }
  N wrap_bool(bool b) override { return make(constant(b)); }
  N sym_float() override { as_float(); }
  N truediv(const N&) override { as_float(); }
  N pow(const N&) override { as_float(); }

  int64_t guard_int(const char*, int64_t) override {
    if (auto known = maybe_as_int()) return *known;
    symbols_->refuse_guard(str(), symbols_->origins(size()));
  }
  bool guard_bool(const char*, int64_t) override {
    if (auto known = constant_bool()) return *known;
    if (const auto known = decide_from(1, *truth_)) {
      const std::string op = calling_op();
      if (std::find(std::begin(kEmptyShortcuts), std::end(kEmptyShortcuts), op) != std::end(kEmptyShortcuts))
        return *known;
    }
    refuse_truth();
  }
  double guard_float(const char*, int64_t) override { as_float(); }
  // In general position: sizes are neither 0 nor 1, and otherwise nothing is known.
  bool guard_or_false(const char*, int64_t) override { return constant_bool().value_or(false); }
  bool guard_or_true(const char*, int64_t) override { return constant_bool().value_or(true); }
  bool statically_known_true(const char*, int64_t) override { return constant_bool().value_or(false); }
  bool guard_size_oblivious(const char*, int64_t) override {
    if (auto known = constant_bool()) return *known;
    if (auto known = decide_from(2, *truth_)) return *known;
    refuse_truth();
  }
  bool expect_true(const char*, int64_t) override {
    if (auto known = constant_bool()) return *known;
    if (!truth_->at([&](const Size& s) { return symbols_->real(s); })) return false;
    if (const Truth& t = *truth_; t.kind == Truth::Kind::equal && unify(t.a, t.b)) return true;
    symbols_->assumed.push_back(truth_);
    return true;
  }

  bool has_hint() override { return true; }
  std::string str() override { return truth_ ? truth_->text() : ir::to_string(size()); }
  std::optional<int64_t> maybe_as_int() override {
    if (truth_) return {};
    const Size s = size();
    if (!s.is_symbolic()) return int64_t{s};
    return symbols_->live ? std::nullopt : std::optional(symbols_->real(s));
  }
  std::optional<int64_t> constant_int() override { return maybe_as_int(); }
  std::optional<bool> constant_bool() override {
    if (!truth_) return {};
    if (!symbols_->live) return truth_->at([&](const Size& s) { return symbols_->real(s); });
    return symbols_->decide(*truth_);
  }
  bool is_constant() override { return truth_ ? constant_bool().has_value() : maybe_as_int().has_value(); }
  bool is_symbolic() override { return !is_constant(); }
  int64_t int_() override { return guard_int(nullptr, 0); }
  bool bool_() override { return guard_bool(nullptr, 0); }

 private:
  N make(Size s) { return c10::make_intrusive<Node>(symbols_, std::move(s)); }
  N make(TruthPtr t) { return c10::make_intrusive<Node>(symbols_, std::move(t)); }
  Node& node(const N& n) const {
    auto* found = dynamic_cast<Node*>(n.get());
    if (!found) symbols_->refuse_guard(n->str(), "");
    return *found;
  }
  Size of(const N& n) const { return node(n).size(); }
  TruthPtr truth_of(const N& n) const { return node(n).truth_; }

  Size quotient(const Size& b, Size (*f)(const Size&, const Size&)) {
    if (b.lower() > 0) return f(size(), b);
    symbols_->refuse_guard(str() + " / " + ir::to_string(b), symbols_->origins(b));
  }

  [[noreturn]] void as_float() {
    symbols_->refuse_guard(str() + " as a floating point number", symbols_->origins(size()));
  }
  [[noreturn]] void refuse_truth() {
    std::string origins;
    const auto walk = [&](auto&& self, const Truth& t) -> void {
      if (t.left) self(self, *t.left);
      if (t.right) self(self, *t.right);
      if (!t.left && !t.right) origins += symbols_->origins(t.a - t.b);
    };
    walk(walk, *truth_);
    symbols_->refuse_guard(str(), origins);
  }

  bool unify(const Size& a, const Size& b) {
    const auto symbol = [&](const Size& s) {
      int id = -1;
      s.for_each_symbol([&](const ir::Symbol& u) { id = u.id; });
      return id >= 0 && s == symbols_->size(id) ? id : -1;
    };
    const int i = symbol(symbols_->canonical(a)), j = symbol(symbols_->canonical(b));
    if (i < 0 || j < 0) return false;
    symbols_->join(i, j);
    return true;
  }

  /// As if no size were smaller.
  std::optional<bool> decide_from(int64_t least, const Truth& t) const {
    const auto large = [&](const Size& s) {
      return symbols_->canonical(s).substitute([&](const ir::Symbol& u) {
        ir::Symbol v = u;
        v.min = std::max<int64_t>(v.min, least);
        return v.min <= v.max ? Size::symbol(v) : Size::symbol(u);
      });
    };
    const auto copy = [&](auto&& self, const Truth& t) -> TruthPtr {
      Truth c = t;
      c.a = large(t.a), c.b = large(t.b);
      if (t.left) c.left = self(self, *t.left);
      if (t.right) c.right = self(self, *t.right);
      return std::make_shared<Truth>(std::move(c));
    };
    return Symbols().decide(*copy(copy, t));
  }

  std::shared_ptr<Symbols> symbols_;
  Size size_;
  TruthPtr truth_;
};

}  // namespace

c10::SymInt Symbols::to_sym(const Size& s) {
  if (!s.is_symbolic()) return c10::SymInt(int64_t{s});
  return c10::SymInt(c10::SymNode(c10::make_intrusive<Node>(shared_from_this(), s)));
}

Size Symbols::from_sym(const c10::SymInt& s) const {
  if (auto number = s.maybe_as_int()) return *number;
  const c10::SymNode holder = s.toSymNode();
  auto* node = dynamic_cast<Node*>(holder.get());
  if (!node) refuse_guard(holder->str(), "");
  return node->size();
}

}  // namespace precast::trace
