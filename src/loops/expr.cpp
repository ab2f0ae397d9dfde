#include "loops/expr.h"

#include <bit>
#include <limits>
#include <set>

#include "util/errors.h"

namespace precast::loops {

namespace {

std::string key(const Expr& e) {
  std::string k =
      std::to_string(static_cast<int>(e.kind)) + ' ' + std::to_string(static_cast<int>(e.dtype)) + ' ' + e.name;
  auto add = [&](const Size& v) { k += ' ', k += ir::to_string(v); };
  for (const ExprId a : e.args) add(a);
  add(std::bit_cast<int64_t>(e.real)), add(e.integer), add(e.buffer), add(e.extent), add(e.dim), add(e.wrap);
  add(e.at.constant);
  for (const auto& [atom, c] : e.at.terms) add(atom), add(c);
  return k;
}

}  // namespace

ExprId Exprs::intern(Expr e) {
  auto [it, fresh] = known_.emplace(key(e), static_cast<ExprId>(nodes_.size()));
  if (fresh) nodes_.push_back(std::move(e));
  return it->second;
}

ExprId Exprs::constant(ir::Dtype t, double v) {
  if (!ir::is_float(t)) return constant(t, static_cast<int64_t>(v));
  return intern({.kind = Expr::Kind::constant, .dtype = t, .real = v});
}
ExprId Exprs::constant(ir::Dtype t, int64_t v) {
  if (ir::is_float(t)) return constant(t, static_cast<double>(v));
  return intern({.kind = Expr::Kind::constant, .dtype = t, .integer = t == ir::Dtype::b8 ? v != 0 : v});
}
ExprId Exprs::operand_number(ir::Dtype t, double v) {
  if (t != ir::Dtype::f16 && t != ir::Dtype::bf16) return constant(t, v);
  return intern({.kind = Expr::Kind::exact, .dtype = t, .real = v});
}
ExprId Exprs::load(BufferId b, ir::Dtype t, Index at) {
  return intern({.kind = Expr::Kind::load, .dtype = t, .buffer = b, .at = std::move(at)});
}
ExprId Exprs::index(Index at, ir::Dtype t) {
  if (at.is_constant() && !at.constant.is_symbolic()) return constant(t, int64_t{at.constant});
  return intern({.kind = Expr::Kind::index, .dtype = t, .at = std::move(at)});
}
std::optional<ExprId> Exprs::narrow(ExprId id) {
  const Expr e = (*this)[id];
  if (e.dtype != ir::Dtype::i64) return std::nullopt;
  const auto fits = [](int64_t v) {
    return v > std::numeric_limits<int32_t>::min() && v < std::numeric_limits<int32_t>::max();
  };
  if (e.kind == Expr::Kind::constant && fits(e.integer)) return constant(ir::Dtype::i32, e.integer);
  if (e.kind != Expr::Kind::index) return std::nullopt;
  for (const auto& [atom, c] : e.at.terms)
    if (atom < 0) return std::nullopt;
  const Range r = range(e.at, extent_of());
  return fits(r.low.lower()) && fits(r.high.upper()) ? std::optional(index(e.at, ir::Dtype::i32)) : std::nullopt;
}
ExprId Exprs::call(std::string name, ir::Dtype result, std::vector<ExprId> args) {
  if (result == ir::Dtype::b8 && args.size() == 2) {
    const auto a = narrow(args[0]), b = narrow(args[1]);
    if (a && b) args = {*a, *b};
  }
  return intern({.kind = Expr::Kind::call, .dtype = result, .name = std::move(name), .args = std::move(args)});
}
ExprId Exprs::cast(ir::Dtype t, ExprId e) {
  if ((*this)[e].dtype == t) return e;
  if (const auto n = narrow(e)) {
    if (t == ir::Dtype::i32) return *n;
    e = *n;
  }
  return intern({.kind = Expr::Kind::cast, .dtype = t, .args = {e}});
}
ExprId Exprs::checked(std::string op, int dim, Size extent, bool wrap, ExprId e) {
  return intern({.kind = Expr::Kind::checked,
                 .dtype = ir::Dtype::i64,
                 .name = std::move(op),
                 .args = {e},
                 .extent = extent,
                 .dim = dim,
                 .wrap = wrap});
}
ExprId Exprs::select(ExprId condition, ExprId a, ExprId b) {
  return call("select", (*this)[a].dtype, {condition, a, b});
}

Atom Exprs::variable(Size extent) {
  extents_.push_back(std::move(extent));
  return static_cast<Atom>(extents_.size() - 1);
}

Size Exprs::extent(Atom a) const {
  if (a >= 0) return extents_[static_cast<size_t>(a)];
  const Expr& e = (*this)[~a];
  return e.kind == Expr::Kind::checked ? e.extent : Size(std::numeric_limits<int32_t>::max());
}

Index Exprs::as_index(ExprId e) {
  const Expr& x = (*this)[e];
  PRECAST_CHECK(x.dtype == ir::Dtype::i64, "an index is i64");
  if (x.kind == Expr::Kind::index) return x.at;
  if (x.kind == Expr::Kind::constant) return Index(x.integer);
  return Index::atom(~e);
}

ExprId Exprs::substitute(ExprId id, const Variables& f) {
  Memo memo;
  return substitute(id, f, memo);
}
Index Exprs::substitute(const Index& at, const Variables& f) {
  Memo memo;
  return substitute(at, f, memo);
}

Index Exprs::substitute(const Index& at, const Variables& f, Memo& memo) {
  Index r(at.constant);
  for (const auto& [atom, c] : at.terms) {
    if (atom < 0) {
      r = r + Index::atom(~substitute(~atom, f, memo), c);
    } else {
      const auto v = f(atom);
      r = r + (v ? *v * c : Index::atom(atom, c));
    }
  }
  return r;
}

ExprId Exprs::substitute(ExprId id, const Variables& f, Memo& memo) {
  if (auto it = memo.find(id); it != memo.end()) return it->second;
  Expr e = (*this)[id];
  for (ExprId& a : e.args) a = substitute(a, f, memo);
  e.at = substitute(e.at, f, memo);
  const ExprId r = e.kind == Expr::Kind::index ? index(std::move(e.at), e.dtype) : intern(std::move(e));
  memo.emplace(id, r);
  return r;
}

ExprId Exprs::rewrite(ExprId id, const std::function<std::optional<ExprId>(ExprId)>& f) {
  Memo memo;
  std::function<ExprId(ExprId)> go = [&](ExprId x) -> ExprId {
    if (auto it = memo.find(x); it != memo.end()) return it->second;
    ExprId r;
    if (auto whole = f(x)) {
      r = *whole;
    } else {
      Expr e = (*this)[x];
      for (ExprId& a : e.args) a = go(a);
      Index at(e.at.constant);
      for (const auto& [atom, c] : e.at.terms) at = at + Index::atom(atom < 0 ? ~go(~atom) : atom, c);
      e.at = std::move(at);
      r = intern(std::move(e));
    }
    memo.emplace(x, r);
    return r;
  };
  return go(id);
}

void Exprs::visit(const std::vector<ExprId>& roots, const std::function<void(ExprId)>& f) const {
  std::set<ExprId> seen;
  std::vector<ExprId> order;  // f may add expressions, which moves those that are there
  const std::function<void(ExprId)> go = [&](ExprId x) {
    if (!seen.insert(x).second) return;
    const Expr& e = (*this)[x];
    for (const ExprId a : e.args) go(a);
    for (const auto& [atom, c] : e.at.terms)
      if (atom < 0) go(~atom);
    order.push_back(x);
  };
  for (const ExprId r : roots) go(r);
  for (const ExprId x : order) f(x);
}
void Exprs::visit(ExprId id, const std::function<void(ExprId)>& f) const { visit(std::vector{id}, f); }

double operation_cost(const Expr& e) {
  static const auto& costs = *new std::map<std::string, double>{
      {"div", 4},      {"sqrt", 4},    {"rsqrt", 8},     {"reciprocal", 4}, {"exp", 12},   {"exp2", 12},
      {"expm1", 14},   {"log", 14},    {"log2", 14},     {"log10", 14},     {"log1p", 16}, {"sin", 20},
      {"cos", 20},     {"tan", 30},    {"asin", 20},     {"acos", 20},      {"atan", 20},  {"sinh", 20},
      {"cosh", 20},    {"tanh", 16},   {"asinh", 30},    {"acosh", 30},     {"atanh", 30}, {"erf", 22},
      {"erfc", 30},    {"erfinv", 40}, {"lgamma", 60},   {"digamma", 60},   {"pow", 40},   {"atan2", 30},
      {"sigmoid", 16}, {"hypot", 10},  {"nextafter", 6}, {"remainder", 20}, {"fmod", 20},  {"div_floor", 20},
      {"div_trunc", 6}};
  switch (e.kind) {
    case Expr::Kind::constant:
    case Expr::Kind::exact:
      return 0;
    case Expr::Kind::load:
    case Expr::Kind::index:
      return 1;
    case Expr::Kind::cast:
      return 1;
    case Expr::Kind::checked:
      return 3;
    case Expr::Kind::call:
      break;
  }
  const auto it = costs.find(e.name);
  return (it == costs.end() ? 1 : it->second) + (e.dtype == ir::Dtype::f16 || e.dtype == ir::Dtype::bf16 ? 4 : 0);
}

double Exprs::cost(ExprId id) const {
  double sum = 0;
  visit(id, [&](ExprId x) { sum += operation_cost((*this)[x]); });
  return sum;
}

}  // namespace precast::loops
