// One walk in order: each node is replaced by an operand or a smaller node where that is the same bit for bit.
#include <algorithm>
#include <cmath>

#include "passes/layout.h"
#include "passes/passes.h"
#include "passes/promote.h"

namespace precast::passes {
namespace {

using ir::Attr;
using ir::Dtype;
using ir::Graph;
using ir::kNoValue;
using ir::Node;
using ir::Ref;
using ir::Type;
using ir::ValueId;

class Simplifier {
 public:
  explicit Simplifier(Graph& g) : g_(g), now_(g.values.size()), maker_(g.values.size(), -1) {
    for (size_t i = 0; i < now_.size(); ++i) now_[i] = static_cast<ValueId>(i);
  }

  void run() {
    for (Node& n : g_.nodes) {
      ir::for_each_operand(n, [&](ir::Slot, ValueId& id) { rename(id); });
      for (ir::Shared& s : n.shared) rename(s.base);
      if (n.writes.empty() && n.shared.empty() && n.outs.size() == 1 && n.outs[0].id != kNoValue) {
        ValueId same = simplified(n);
        if (same != kNoValue) {
          now_[static_cast<size_t>(n.outs[0].id)] = same;
          continue;
        }
      }
      for (ValueId id : ir::defined_values(n)) maker_[static_cast<size_t>(id)] = static_cast<int>(nodes_.size());
      nodes_.push_back(std::move(n));
    }
    for (ValueId& id : g_.outputs) rename(id);
    g_.nodes = std::move(nodes_);
  }

 private:
  void rename(ValueId& id) const {
    if (id != kNoValue) id = now_[static_cast<size_t>(id)];
  }

  // The node that made a value, if its op is `op`.
  const Node* made_by(ValueId id, std::string_view op) const {
    int i = id == kNoValue ? -1 : maker_[static_cast<size_t>(id)];
    if (i < 0 || nodes_[static_cast<size_t>(i)].op != op) return nullptr;
    return &nodes_[static_cast<size_t>(i)];
  }

  static ValueId ref(const Node& n, const char* arg) {
    const Attr* a = n.find(arg);
    auto* r = a ? std::get_if<Ref>(a) : nullptr;
    return r ? r->id : kNoValue;
  }
  static Size integer(const Node& n, const char* arg) { return *ir::as_size(*n.find(arg)); }
  static Dims ints(const Node& n, const char* arg) { return *ir::as_dims(*n.find(arg)); }
  static void set(Node& n, const char* arg, Attr v) {
    for (ir::Arg& a : n.args)
      if (a.name == arg) a.value = std::move(v);
  }
  const Type& result(const Node& n) const { return g_.type(n.outs[0].id); }

  // An existing value that equals the node's result, or kNoValue after having made the node smaller.
  ValueId simplified(Node& n) {
    if (n.op == "prim::view") return view(n);
    if (n.op == "prim::scatter") return scatter(n);
    if (n.op == "aten::clone") return clone(n);
    if (n.op == "aten::_to_copy") return cast(n);
    if (n.op == "aten::neg") {
      const Node* inner = made_by(ref(n, "self"), "aten::neg");
      return inner ? unchanged(n, ref(*inner, "self")) : kNoValue;
    }
    if (n.op == "aten::where.self") return ref(n, "self") == ref(n, "other") ? unchanged(n, ref(n, "self")) : kNoValue;
    number_for_full(n);
    return identity(n);
  }

  ValueId unchanged(const Node& n, ValueId v) const { return g_.type(v) == result(n) ? v : kNoValue; }

  // ---- windows

  struct Window {
    Size offset;
    Dims sizes, strides;
    Dtype dtype;
    bool operator==(const Window&) const = default;
    Size end() const {
      Type t{.dtype = dtype, .sizes = sizes, .strides = strides};
      return offset + t.span_bytes();
    }
  };
  Window window_of_scatter(const Node& n) const {
    return {integer(n, "offset"), ints(n, "sizes"), ints(n, "strides"), g_.type(ref(n, "src")).dtype};
  }
  static Window whole(const Type& t) { return {0, t.sizes, t.strides, t.dtype}; }

  ValueId view(Node& n) {
    const Type& t = result(n);
    for (;;) {
      ValueId base = ref(n, "base");
      Size offset = integer(n, "offset");
      if (const Node* inner = made_by(base, "prim::view")) {
        Size sum = offset + integer(*inner, "offset");
        set(n, "base", Ref{ref(*inner, "base")});
        set(n, "offset", sum);
      } else if (const Node* write = made_by(base, "prim::scatter")) {
        Window here{offset, t.sizes, t.strides, t.dtype}, there = window_of_scatter(*write);
        if (here == there && g_.type(ref(*write, "src")) == t) return ref(*write, "src");
        if (!ir::always_at_least(there.offset, here.end()) && !ir::always_at_least(here.offset, there.end())) break;
        set(n, "base", Ref{ref(*write, "base")});  // the write does not reach this window
      } else {
        break;
      }
    }
    if (integer(n, "offset") == 0) return unchanged(n, ref(n, "base"));
    return kNoValue;
  }

  ValueId scatter(Node& n) {
    // Only the elements of src count: look through writes of all of it, and through layout changes.
    for (;;) {
      ValueId src = ref(n, "src");
      const Node* inner = made_by(src, "prim::scatter");
      if (inner && window_of_scatter(*inner) == whole(g_.type(src))) {
        set(n, "src", Ref{ref(*inner, "src")});
      } else if (const Node* copy = made_by(src, "aten::clone")) {
        set(n, "src", Ref{ref(*copy, "self")});
      } else {
        break;
      }
    }
    Window here = window_of_scatter(n);
    while (const Node* under = made_by(ref(n, "base"), "prim::scatter")) {
      if (!(window_of_scatter(*under) == here)) break;
      set(n, "base", Ref{ref(*under, "base")});  // overwritten completely
    }
    // What a window holds already: writing it back changes nothing.
    if (const Node* read = made_by(ref(n, "src"), "prim::view")) {
      const Type& t = g_.type(ref(n, "src"));
      if (ref(*read, "base") == ref(n, "base") && here == Window{integer(*read, "offset"), t.sizes, t.strides, t.dtype})
        return unchanged(n, ref(n, "base"));
    }
    const Type& t = result(n);
    if (here == whole(t) && is_dense(t)) {
      ValueId src = ref(n, "src");
      if (g_.type(src) == t) return src;
      n = Node{"aten::clone", {{"self", Ref{src}}, {"memory_format", {}}}, std::move(n.outs), {}, {}};
    }
    return kNoValue;
  }

  // ---- copies

  ValueId clone(Node& n) {
    if (const Node* inner = made_by(ref(n, "self"), "aten::clone")) set(n, "self", Ref{ref(*inner, "self")});
    return unchanged(n, ref(n, "self"));
  }

  // Up to f32 and back is no change; down and up again is a rounding and stays.
  ValueId cast(Node& n) {
    ValueId x = ref(n, "self");
    if (g_.type(x) == result(n)) return x;
    if (const Node* inner = made_by(x, "aten::_to_copy")) {
      ValueId start = ref(*inner, "self");
      Dtype narrow = g_.type(start).dtype, wide = g_.type(x).dtype;
      bool widened = (wide == Dtype::f32 && (narrow == Dtype::f16 || narrow == Dtype::bf16)) ||
                     (wide == Dtype::f64 && ir::is_float(narrow)) || (ir::is_integral(wide) && narrow == Dtype::b8);
      if (widened && narrow == result(n).dtype) return unchanged(n, start);
    }
    if (auto number = number_of(x)) {
      const Type& t = result(n);
      if (ir::is_float(t.dtype) && (number->is_double() || std::fabs(number->real()) < 1 << 24))
        n = Node{"aten::full",
                 {{"size", t.sizes},
                  {"fill_value", rounded(number->real(), t.dtype)},
                  {"dtype", t.dtype},
                  {"layout", {}},
                  {"device", ir::Device{}},
                  {"pin_memory", {}}},
                 std::move(n.outs),
                 {},
                 {}};
    }
    return kNoValue;
  }

  // ---- arithmetic with known numbers

  // The number that all elements of a value have.
  std::optional<Number> number_of(ValueId id) const {
    if (const Node* v = made_by(id, "prim::view")) {
      if (g_.type(ref(*v, "base")).dtype != g_.type(id).dtype) return {};
      id = ref(*v, "base");
    }
    const Node* full = made_by(id, "aten::full");
    if (!full) return {};
    const Attr& a = *full->find("fill_value");
    if (auto* d = std::get_if<double>(&a)) return Number(rounded(*d, g_.type(id).dtype));
    if (auto* i = std::get_if<int64_t>(&a)) return Number(*i);
    if (auto* b = std::get_if<bool>(&a)) return Number(*b);
    return {};
  }

  // x * full(2) is x * 2.
  void number_for_full(Node& n) const {
    static constexpr std::string_view kOps[] = {"add", "sub", "mul", "div", "eq", "ne", "lt", "le", "gt", "ge"};
    if (!n.op.ends_with(".Tensor")) return;
    std::string base = n.op.substr(0, n.op.size() - 7);
    auto known = std::ranges::find(kOps, std::string_view(base).substr(6));
    if (known == std::end(kOps)) return;
    bool commutes = *known == "add" || *known == "mul";
    for (auto [tensor, number] : {std::pair{"self", "other"}, std::pair{"other", "self"}}) {
      if (tensor == std::string_view("other") && !commutes) return;
      ValueId x = ref(n, tensor), y = ref(n, number);
      if (x == kNoValue || y == kNoValue || g_.type(x).sizes != result(n).sizes) continue;
      auto value = number_of(y);
      if (!value || (value->is_bool() && *known != "eq" && *known != "ne")) continue;
      n.op = base + ".Scalar";
      set(n, "other", value->in(g_.type(x).dtype));
      set(n, "self", Ref{x});
      return;
    }
  }

  // x * 1, x / 1, x - 0, and x + 0 of integers. (-0 + 0 is 0, so floats keep it.)
  ValueId identity(const Node& n) const {
    if (!n.op.ends_with(".Scalar")) return kNoValue;
    const Attr* a = n.find("other");
    if (!a) return kNoValue;
    auto is = [&](double v) {
      if (auto* d = std::get_if<double>(a)) return *d == v && !std::signbit(*d);
      if (auto* i = std::get_if<int64_t>(a)) return static_cast<double>(*i) == v;
      return false;
    };
    ValueId x = ref(n, "self");
    bool same = (n.op == "aten::mul.Scalar" && is(1)) || (n.op == "aten::div.Scalar" && is(1)) ||
                (n.op == "aten::sub.Scalar" && is(0)) ||
                (n.op == "aten::add.Scalar" && is(0) && ir::is_integral(result(n).dtype));
    return same ? unchanged(n, x) : kNoValue;
  }

  Graph& g_;
  std::vector<ValueId> now_;
  std::vector<int> maker_;
  std::vector<Node> nodes_;
};

}  // namespace

void simplify(Graph& g) { Simplifier(g).run(); }

}  // namespace precast::passes
