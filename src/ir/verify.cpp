#include "ir/verify.h"

#include <algorithm>

#include "ir/print.h"
#include "util/errors.h"

namespace precast::ir {
namespace {

struct Broken {
  std::string rule;
};

void require(bool ok, const std::string& rule) {
  if (!ok) throw Broken{rule};
}

std::string percent(ValueId id) { return "%" + std::to_string(id); }

class Verifier {
 public:
  explicit Verifier(const Graph& g) : g_(g), defined_(g.values.size()) {}

  std::optional<Fault> run() {
    int node = -1;
    try {
      check_symbols();
      for (ValueId id : g_.inputs) define(id);
      for (node = 0; node < static_cast<int>(g_.nodes.size()); ++node) check(g_.nodes[static_cast<size_t>(node)]);
      node = -1;
      for (ValueId id : g_.outputs) use(id, "an output");
    } catch (const Broken& b) {
      std::string at = node < 0 ? "" : " in " + print(g_, g_.nodes[static_cast<size_t>(node)]);
      return Fault{node, b.rule + at};
    }
    return {};
  }

 private:
  void use(ValueId id, const char* what) const {
    require(id >= 0 && static_cast<size_t>(id) < defined_.size() && defined_[static_cast<size_t>(id)],
            std::string(what) + " names " + percent(id) + ", which is not defined before");
  }

  void check_symbols() const {
    for (size_t i = 0; i < g_.symbols.size(); ++i) {
      const Symbol& s = g_.symbols[i];
      require(s.min >= 0 && s.min <= s.max, "the bounds of " + name(s) + " leave no value");
      for (size_t k = 0; k < i; ++k) require(g_.symbols[k].id != s.id, name(s) + " is declared twice");
    }
  }
  void declared(const Size& size) const {
    size.for_each_symbol([&](const Symbol& s) {
      require(std::ranges::find(g_.symbols, s) != g_.symbols.end(), "the symbol " + name(s) + " is not declared");
    });
  }
  void declared(const Type& t) const {
    for (const Size& s : t.sizes) declared(s);
    for (const Size& s : t.strides) declared(s);
  }

  void define(ValueId id) {
    require(id >= 0 && static_cast<size_t>(id) < defined_.size(), percent(id) + " is no value of the graph");
    require(!defined_[static_cast<size_t>(id)], percent(id) + " is defined twice");
    const Type& t = g_.type(id);
    require(t.sizes.size() == t.strides.size(), percent(id) + " has not as many strides as sizes");
    auto negative = [](const Size& n) { return n.upper() < 0; };
    require(std::ranges::none_of(t.sizes, negative) && std::ranges::none_of(t.strides, negative),
            percent(id) + " has a negative size or stride");
    declared(t);
    defined_[static_cast<size_t>(id)] = true;
  }

  static bool is_ref_slot(const Node& n, Slot s) {
    if (s.arg < 0 || static_cast<size_t>(s.arg) >= n.args.size()) return false;
    const Attr& a = n.args[static_cast<size_t>(s.arg)].value;
    if (auto* l = std::get_if<std::vector<Ref>>(&a)) return s.item >= 0 && static_cast<size_t>(s.item) < l->size();
    return s.item == 0 && std::holds_alternative<Ref>(a);
  }
  static ValueId operand(const Node& n, Slot s) {
    const Attr& a = n.args[static_cast<size_t>(s.arg)].value;
    if (auto* l = std::get_if<std::vector<Ref>>(&a)) return (*l)[static_cast<size_t>(s.item)].id;
    return std::get<Ref>(a).id;
  }

  void check(const Node& n) {
    for_each_operand(n, [&](Slot, ValueId id) {
      if (id != kNoValue) use(id, "an operand");
    });
    auto before = [](Slot a, Slot b) { return a.arg != b.arg ? a.arg < b.arg : a.item < b.item; };
    for (size_t i = 0; i < n.writes.size(); ++i) {
      const Write& w = n.writes[i];
      require(is_ref_slot(n, w.slot) && operand(n, w.slot) != kNoValue, "a write names no tensor operand");
      require(i == 0 || before(n.writes[i - 1].slot, w.slot), "writes must stand in the order of their operands");
    }
    for (const Arg& a : n.args) {
      if (auto* s = std::get_if<Size>(&a.value)) declared(*s);
      if (auto* l = std::get_if<Dims>(&a.value))
        for (const Size& s : *l) declared(s);
    }
    for (const Shared& s : n.shared) check(n, s);
    for (const Out& o : n.outs) check(o);
    for_each_definition(n, [&](ValueId id) { define(id); });
    for (const Write& w : n.writes)
      require(g_.type(w.value).dtype == g_.type(operand(n, w.slot)).dtype, "a write changes the dtype");
    for (const Shared& s : n.shared)
      require(g_.type(s.value) == g_.type(s.base), "a shared clone must have the type of its base");
    if (n.op.starts_with("prim::")) check_prim(n);
  }

  void check(const Node& n, const Shared& s) const {
    use(s.base, "a shared base");
    for (const Shared::View& v : s.views) {
      require(is_ref_slot(n, v.slot), "a shared view names no tensor operand");
      require(v.type.sizes.size() == v.type.strides.size(), "a shared view has not as many strides as sizes");
      declared(v.type), declared(v.offset_bytes);
      check_window(v.type, v.offset_bytes, g_.type(s.base));
    }
  }

  static void check(const Out& o) {
    require(o.is_list || o.list.empty(), "a return holds a list and is none");
    require(!o.is_list || o.id == kNoValue, "a return is a list and a value");
    require(std::holds_alternative<std::monostate>(o.expect) || (o.id == kNoValue && !o.is_list),
            "a return is a condition and a tensor");
  }

  // With symbols, only what no values of them allow is a fault.
  static void check_window(const Type& window, const Size& offset, const Type& base) {
    Size span = window.span_bytes();
    require(offset.upper() >= 0, "the offset of a window is negative");
    require(span.lower() == 0 || (base.span_bytes() - span - offset).upper() >= 0, "a window reaches beyond its base");
    require(window.device == base.device, "a window lies on another device than its base");
  }

  static const Attr& arg(const Node& n, size_t i, const char* name) {
    require(i < n.args.size() && n.args[i].name == name, std::string("expected the argument ") + name);
    return n.args[i].value;
  }
  template <class T>
  static T of_kind(std::optional<T> v, const char* name) {
    require(v.has_value(), std::string("the argument ") + name + " has the wrong kind");
    return *v;
  }
  static Ref ref(const Node& n, size_t i, const char* name) {
    auto* r = std::get_if<Ref>(&arg(n, i, name));
    return of_kind(r ? std::optional(*r) : std::nullopt, name);
  }
  static Size size(const Node& n, size_t i, const char* name) { return of_kind(as_size(arg(n, i, name)), name); }
  static Dims dims(const Node& n, size_t i, const char* name) { return of_kind(as_dims(arg(n, i, name)), name); }

  void check_prim(const Node& n) const {
    bool view = n.op == "prim::view";
    require(view || n.op == "prim::scatter", "unknown prim op");
    require(n.writes.empty() && n.shared.empty(), "a prim op writes nothing");
    require(n.outs.size() == 1 && n.outs[0].id != kNoValue, "a prim op returns one value");
    const Type& result = g_.type(n.outs[0].id);
    const Ref base = ref(n, 0, "base");
    use(base.id, "base");
    if (view) {
      require(n.args.size() == 2, "prim::view has two arguments");
      return check_window(result, size(n, 1, "offset"), g_.type(base.id));
    }
    require(n.args.size() == 5, "prim::scatter has five arguments");
    const Ref src = ref(n, 1, "src");
    use(src.id, "src");
    Type window = g_.type(src.id);
    require(result == g_.type(base.id), "the result of prim::scatter must have the type of its base");
    require(dims(n, 3, "sizes") == window.sizes, "the window must have the sizes of src");
    window.strides = dims(n, 4, "strides");
    require(window.strides.size() == window.sizes.size(), "the window has not as many strides as sizes");
    Size limit = result.span_bytes();
    for (size_t i = 0; i < window.sizes.size(); ++i)  // keeps span_bytes from overflow
      require(
          window.strides[i].upper() >= 0 && (window.sizes[i].lower() < 2 || (limit - window.strides[i]).upper() >= 0),
          "a window reaches beyond its base");
    check_window(window, size(n, 2, "offset"), result);
  }

  const Graph& g_;
  std::vector<bool> defined_;
};

}  // namespace

std::optional<Fault> find_fault(const Graph& g) { return Verifier(g).run(); }

void verify(const Graph& g, const char* where) {
  if (auto fault = find_fault(g)) PRECAST_CHECK(false, "bad graph after " + std::string(where) + ": " + fault->message);
}

}  // namespace precast::ir
