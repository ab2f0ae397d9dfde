#include "ir/print.h"

#include <charconv>
#include <cmath>

namespace precast::ir {
namespace {

std::string number(double d) {
  if (std::isnan(d)) return std::signbit(d) ? "-nan" : "nan";
  if (std::isinf(d)) return d < 0 ? "-inf" : "inf";
  char buffer[40];
  std::string s(buffer, std::to_chars(buffer, buffer + sizeof buffer, d).ptr);
  return s.find_first_of(".e") == s.npos ? s + ".0" : s;  // an integer would parse as an integer
}

std::string quoted(std::string_view text) {
  std::string s = "\"";
  for (char c : text) {
    constexpr char kHex[] = "0123456789abcdef";
    auto u = static_cast<unsigned char>(c);
    if (c == '"' || c == '\\')
      s += {'\\', c};
    else if (c == '\n')
      s += "\\n";
    else if (u < 0x20 || u == 0x7f)
      s += {'\\', 'x', kHex[u >> 4], kHex[u & 15]};
    else
      s += c;
  }
  return s + '"';
}

std::string declaration(const Symbol& s) {
  const bool open = s.max == Symbol::kUnbounded;
  return name(s) + " in [" + std::to_string(s.min) + ", " + (open ? "inf)" : std::to_string(s.max) + "]") + " hint " +
         std::to_string(s.hint);
}

template <class List, class F>
std::string joined(const List& list, F&& item) {
  std::string s;
  for (size_t i = 0; i < list.size(); ++i) s += (i ? ", " : "") + item(list[i]);
  return s;
}

class Printer {
 public:
  explicit Printer(const Graph& g) : g_(g) {}

  std::string definition(ValueId id) const {
    if (static_cast<size_t>(id) >= g_.values.size()) return "%" + std::to_string(id) + ": ?";
    const Value& v = g_.values[static_cast<size_t>(id)];
    return "%" + std::to_string(id) + ": " + to_string(v.type) + (v.name.empty() ? "" : " " + quoted(v.name));
  }

  std::string node(const Node& n) const {
    std::string s = joined(n.outs, [&](const Out& o) { return out(o); });
    if (!n.outs.empty()) s += " = ";
    s += n.op + "(";
    for (size_t a = 0; a < n.args.size(); ++a) {
      s += (a ? ", " : "") + n.args[a].name + "=";
      s += std::visit([&](const auto& v) { return attr(v, n, static_cast<int>(a)); }, n.args[a].value);
    }
    s += ")";
    for (const Shared& sh : n.shared) {
      s += " shared(" + use(sh.base) + " -> " + definition(sh.value);
      for (const Shared::View& v : sh.views)
        s += ", " + slot(n, v.slot) + " @ " + to_string(v.offset_bytes) + ": " + to_string(v.type);
      s += ")";
    }
    return s;
  }

 private:
  static std::string use(ValueId id) { return id == kNoValue ? "None" : "%" + std::to_string(id); }

  std::string operand(Ref r, const Node& n, Slot slot) const {
    for (const Write& w : n.writes)
      if (w.slot == slot) return use(r.id) + " -> " + definition(w.value);
    return use(r.id);
  }

  static std::string slot(const Node& n, Slot s) {
    const Arg& a = n.args[static_cast<size_t>(s.arg)];
    bool list = std::holds_alternative<std::vector<Ref>>(a.value);
    return list ? a.name + "[" + std::to_string(s.item) + "]" : a.name;
  }

  std::string out(const Out& o) const {
    if (o.is_list) return "(" + joined(o.list, [&](Ref r) { return r.id == kNoValue ? "_" : definition(r.id); }) + ")";
    if (o.id != kNoValue) return definition(o.id);
    if (std::holds_alternative<std::monostate>(o.expect)) return "_";
    return "[" + std::visit([&](const auto& v) { return attr(v, Node{}, 0); }, o.expect) + "]";
  }

  std::string attr(std::monostate, const Node&, int) const { return "None"; }
  std::string attr(bool v, const Node&, int) const { return v ? "true" : "false"; }
  std::string attr(int64_t v, const Node&, int) const { return std::to_string(v); }
  std::string attr(const Size& v, const Node&, int) const {
    const std::string s = to_string(v);
    return dtype_from_name(s) ? "(" + s + ")" : s;  // u8 is a dtype, too
  }
  std::string attr(double v, const Node&, int) const { return number(v); }
  std::string attr(std::complex<double> v, const Node&, int) const {
    return "complex(" + number(v.real()) + ", " + number(v.imag()) + ")";
  }
  std::string attr(const std::string& v, const Node&, int) const { return quoted(v); }
  std::string attr(Dtype v, const Node&, int) const { return std::string(name(v)); }
  std::string attr(Device v, const Node&, int) const { return name(v); }
  std::string attr(Ref v, const Node& n, int a) const { return v.id == kNoValue ? "undefined" : operand(v, n, {a, 0}); }
  std::string attr(const std::vector<Ref>& v, const Node& n, int a) const {
    if (v.empty()) return "Tensor[]";
    int i = 0;
    return "[" + joined(v, [&](Ref r) { return operand(r, n, {a, i++}); }) + "]";
  }
  std::string attr(const std::vector<int64_t>& v, const Node&, int) const {
    return v.empty() ? "int[]" : "[" + joined(v, [](int64_t i) { return std::to_string(i); }) + "]";
  }
  std::string attr(const Dims& v, const Node&, int) const {
    return "[" + joined(v, [](const Size& s) { return to_string(s); }) + "]";
  }
  std::string attr(const std::vector<double>& v, const Node&, int) const {
    return v.empty() ? "float[]" : "[" + joined(v, number) + "]";
  }
  std::string attr(const std::vector<bool>& v, const Node&, int) const {
    return v.empty() ? "bool[]" : "[" + joined(v, [](bool b) { return std::string(b ? "true" : "false"); }) + "]";
  }

  const Graph& g_;
};

}  // namespace

std::string print(const Graph& g, const Node& n) { return Printer(g).node(n); }

std::string print(const Graph& g) {
  Printer p(g);
  std::string s;
  if (!g.symbols.empty()) s = "symbols: " + joined(g.symbols, declaration) + "\n";
  s += "graph(" + joined(g.inputs, [&](ValueId id) { return p.definition(id); }) + ") {\n";
  for (const Node& n : g.nodes) s += "  " + p.node(n) + "\n";
  return s + "  return (" + joined(g.outputs, [](ValueId id) { return "%" + std::to_string(id); }) + ")\n}\n";
}

}  // namespace precast::ir
