#include "emit/writer.h"

#include <algorithm>
#include <charconv>
#include <cmath>

#include "emit/size_text.h"
#include "util/errors.h"

namespace precast::emit {

using ir::Dtype;
using ir::Size;
using loops::Atom;
using loops::Expr;
using loops::ExprId;
using loops::Index;

std::string type_name(Dtype t) { return t == Dtype::b8 ? "b8" : std::string(ir::name(t)); }

Dtype register_dtype(Dtype t) { return t == Dtype::f16 || t == Dtype::bf16 ? Dtype::f32 : t; }

std::string literal(double v) {
  if (std::isnan(v)) return "__builtin_nan(\"\")";
  if (std::isinf(v)) return v > 0 ? "__builtin_inf()" : "-__builtin_inf()";
  char digits[40];
  std::string s(digits, std::to_chars(digits, digits + sizeof digits, v).ptr);
  if (s.find_first_of(".e") == std::string::npos) s += ".0";
  return s;
}

std::string literal(Dtype t, int64_t v) {
  if (t == Dtype::b8) return v ? "true" : "false";
  if (v == std::numeric_limits<int64_t>::min()) return "(-9223372036854775807LL - 1)";
  return std::to_string(v) + (v > INT32_MAX || v < INT32_MIN ? "LL" : "");
}

std::string Writer::close() {
  std::string text = take_text();
  scopes_.pop_back();
  return text;
}

std::string Writer::take_text() { return std::exchange(scopes_.back().text, {}); }

void Writer::bind(ExprId e, std::string name) { scopes_.back().names[e] = std::move(name); }

const std::set<Atom>& Writer::dependencies(ExprId id) {
  if (const auto it = dependencies_.find(id); it != dependencies_.end()) return it->second;
  std::set<Atom> found;
  const Expr& e = exprs_[id];
  for (const ExprId a : e.args) found.merge(std::set<Atom>(dependencies(a)));
  for (const auto& [atom, c] : e.at.terms) {
    if (atom >= 0) found.insert(atom);
    if (atom < 0) found.merge(std::set<Atom>(dependencies(~atom)));
  }
  return dependencies_[id] = std::move(found);
}

size_t Writer::depth(ExprId id) {
  std::set<Atom> missing = dependencies(id);
  size_t least = 0;
  for (const ExprId operand : operands(id)) least = std::max(least, scope_of(operand));
  const Expr& e = exprs_[id];
  if (e.kind == Expr::Kind::load && made_here(e.buffer)) least = scopes_.size() - 1;
  for (size_t d = 0; d < scopes_.size(); ++d) {
    for (const Atom a : scopes_[d].bound) missing.erase(a);
    if (missing.empty() && d >= least) return d;
  }
  internal_error(__FILE__, __LINE__, "an expression depends on a variable that no loop binds");
}

/// What the text of an expression names: its arguments, and the loaded integers in its address.
std::vector<ExprId> Writer::operands(ExprId id) const {
  const Expr& e = exprs_[id];
  std::vector<ExprId> found(e.args.begin(), e.args.end());
  for (const auto& [atom, c] : e.at.terms)
    if (atom < 0) found.push_back(~atom);
  return found;
}

size_t Writer::scope_of(ExprId id) const {
  for (size_t d = scopes_.size(); d-- > 0;)
    if (scopes_[d].names.contains(id)) return d;
  return 0;
}

/// Its elements change while the kernel runs, so a read must stay behind the write even if no loop variable says so.
bool Writer::made_here(loops::BufferId b) const {
  return scratch.contains(b) || std::any_of(parameters.begin(), parameters.end(),
                                            [&](const Parameter& p) { return p.written && p.pointer.buffer == b; });
}

std::string Writer::value(ExprId id) {
  for (auto scope = scopes_.rbegin(); scope != scopes_.rend(); ++scope)
    if (const auto it = scope->names.find(id); it != scope->names.end()) return it->second;
  const std::string text = expression(id);  // operands are placed first
  const size_t d = depth(id);
  const std::string name = fresh();
  scopes_[d].text += "const auto " + name + " = " + text + ";\n";
  scopes_[d].names[id] = name;
  return name;
}

std::string Writer::value_now(ExprId id) {
  const std::string text = expression(id), name = fresh();
  line("const auto " + name + " = " + text + ";");
  return name;
}

std::string Writer::expression(ExprId id) {
  const Expr e = exprs_[id];
  const std::string t = type_name(e.dtype);
  switch (e.kind) {
    case Expr::Kind::constant:
      return "splat<" + t + ", W>(" + (ir::is_float(e.dtype) ? literal(e.real) : literal(e.dtype, e.integer)) + ")";
    case Expr::Kind::exact:
      return "splat<f32, W>(" + literal(e.real) + ")";
    case Expr::Kind::load:
      return load(e);
    case Expr::Kind::index:
      return lanes_of(e.at, t.c_str());
    case Expr::Kind::cast:
      return "cast<" + t + ", " + type_name(exprs_[e.args[0]].dtype) + ">(" + value(e.args[0]) + ")";
    case Expr::Kind::checked: {
      can_fail = true;
      if (e.extent.is_symbolic()) guard_empty(id);
      const std::string x = value(e.args[0]);
      const bool inside = varies(id) && tail;
      return "check_index<W>(" + x + ", " + text(e.extent) + ", " + (e.wrap ? "true" : "false") + ", " +
             (inside ? "len" : "W") + ", fault, \"" + e.name + "\", " + std::to_string(e.dim) + ")";
    }
    case Expr::Kind::call:
      return call(e);
  }
  return {};
}

/// Nothing can be read from a dimension without elements, not even to go on after an index was found wrong.
void Writer::guard_empty(ExprId id) {
  const Expr& e = exprs_[id];
  Size points = 1;
  for (const Atom a : dependencies(id)) points *= exprs_.extent(a);
  guards.insert("if (" + text(e.extent) + " == 0 && " + text(points) + " > 0) return report(fault, \"" + e.name +
                "\", 0, 0, " + std::to_string(e.dim) + ");\n");
}

std::string Writer::call(const Expr& e) {
  static const auto& kExact =
      *new std::set<std::string>{"neg",   "abs",  "sign",  "relu",  "maximum", "minimum",  "fmax", "fmin",
                                 "floor", "ceil", "round", "trunc", "select",  "copysign", "clone"};
  static const auto& kDivisions = *new std::set<std::string>{"div_floor", "div_trunc", "remainder", "fmod"};
  std::string args;
  bool varying = false;
  for (const ExprId a : e.args) {
    args += (args.empty() ? "" : ", ") + value(a);
    varying |= varies(a);
  }
  if (!ir::is_float(e.dtype) && kDivisions.contains(e.name)) {
    can_fail = true;
    return "checked_" + e.name + "<" + type_name(e.dtype) + ", W>(" + args + ", " + (varying && tail ? "len" : "W") +
           ", fault)";
  }
  static const auto& kByDtype = *new std::set<std::string>{"div_floor", "div_trunc", "nextafter"};
  const std::string text = e.name + (kByDtype.contains(e.name) ? "<" + type_name(e.dtype) + ">(" : "(") + args + ")";
  const bool rounds = (e.dtype == Dtype::f16 || e.dtype == Dtype::bf16) && !kExact.contains(e.name);
  return rounds ? "round_to<" + type_name(e.dtype) + ">(" + text + ")" : text;
}

// ---- Addresses ----

std::string Writer::pointer(loops::BufferId b, Dtype t, const Size& constant, bool written) {
  const Pointer p{b, constant * ir::itemsize(t)};
  for (size_t i = 0; i < parameters.size(); ++i)
    if (parameters[i].pointer == p && parameters[i].dtype == t) {
      parameters[i].written |= written;
      return "p" + std::to_string(i);
    }
  parameters.push_back({p, t, written});
  return "p" + std::to_string(parameters.size() - 1);
}

bool Writer::lanes_vary(const Index& at) {
  for (const auto& [atom, c] : at.terms)
    if (atom < 0 && varies(~atom)) return true;
  return false;
}

std::string Writer::scalar(const Index& at) {
  std::string s;
  for (const auto& [atom, c] : at.terms) {
    const std::string x = atom >= 0 ? variables_.at(atom) : value(~atom) + "[0]";
    s += (s.empty() ? "" : " + ") + x + (c == 1 ? "" : " * " + text(c));
  }
  if (at.constant != 0) s += (s.empty() ? "" : " + ") + text(at.constant);
  return s.empty() ? "0" : s;
}

std::string Writer::lanes_of(const Index& at, const char* type) {
  const Size step = lane >= 0 ? at.coefficient(lane) : Size(0);
  Index uniform(at.constant);
  std::string varying;
  for (const auto& [atom, c] : at.terms) {
    if (atom < 0 && varies(~atom)) {
      varying += " + " + value(~atom) + " * " + text(c);
    } else {
      uniform = uniform + Index::atom(atom, c);
    }
  }
  const std::string base = step != 0 ? "iota<" + std::string(type) + ", W>(" + scalar(uniform) + ", " + text(step) + ")"
                                     : "splat<" + std::string(type) + ", W>(" + scalar(uniform) + ")";
  return base + varying;
}

std::string Writer::load(const Expr& e) {
  const std::string t = type_name(e.dtype);
  const std::string len = tail ? ", len" : "";
  if (const auto s = scratch.find(e.buffer); s != scratch.end()) {
    const std::string r = type_name(register_dtype(e.dtype));
    const std::string at = scalar(s->second.at);
    if (s->second.per_lane) return "load<" + r + ", W>(" + s->second.array + " + (" + at + ") * W)";
    return "load<" + r + ", W>(" + s->second.array + " + " + at + len + ")";
  }
  const std::string p = pointer(e.buffer, e.dtype, e.at.constant, false);
  const Index at = e.at - Index(e.at.constant);
  if (lanes_vary(at)) return "load_at<" + t + ", W>(" + p + ", " + lanes_of(at, "i64") + ", " + lanes() + ")";
  const std::string address = p + (at.is_constant() ? "" : " + " + scalar(at));
  const Size step = lane >= 0 ? at.coefficient(lane) : Size(0);
  if (step == 0) return "load_one<" + t + ", W>(" + address + ")";
  if (step == 1) return "load<" + t + ", W>(" + address + len + ")";
  return "load_strided<" + t + ", W>(" + address + ", " + text(step) + ", " + lanes() + ")";
}

void Writer::store(loops::BufferId b, Dtype dtype, const Index& where, const std::string& x) {
  const std::string t = type_name(dtype);
  const std::string p = pointer(b, dtype, where.constant, true);
  const Index at = where - Index(where.constant);
  PRECAST_CHECK(!lanes_vary(at), "a store whose lanes go to addresses known at run time only");
  const std::string address = p + (at.is_constant() ? "" : " + " + scalar(at));
  const Size step = lane >= 0 ? at.coefficient(lane) : Size(0);
  if (step == 0) {
    line("store<" + t + ">(" + address + ", " + x + ", 1);");
  } else if (step == 1) {
    line("store<" + t + ">(" + address + ", " + x + (tail ? ", len);" : ");"));
  } else {
    line("store_strided<" + t + ">(" + address + ", " + text(step) + ", " + x + ", " + lanes() + ");");
  }
}

}  // namespace precast::emit
