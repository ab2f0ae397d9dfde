// A read takes what was written where that is known: a window of what a window was written into, or of what a cat has
// joined, is one of what was written or joined. Its elements may lie in another layout there, so it stands in where
// only elements count. Steps in place on the chunks of a tensor become plain arithmetic, and the writes die.
#include "passes/lattice.h"
#include "passes/passes.h"

namespace precast::passes {
namespace {

using ir::Graph;
using ir::kNoValue;
using ir::Node;
using ir::Ref;
using ir::Type;
using ir::ValueId;

class Forward {
 public:
  explicit Forward(Graph& g) : g_(g), maker_(g.values.size(), -1), same_(g.values.size(), kNoValue) {}

  void run() {
    for (Node& n : g_.nodes) place(std::move(n));
    g_.nodes = std::move(nodes_);
  }

 private:
  static size_t index(ValueId v) { return static_cast<size_t>(v); }
  const Type& type(ValueId v) const { return g_.type(v); }
  const Node* maker(ValueId v) const { return maker_[index(v)] < 0 ? nullptr : &nodes_[index(maker_[index(v)])]; }
  static ValueId ref(const Node& n, const char* arg) { return std::get<Ref>(*n.find(arg)).id; }
  static int64_t integer(const Node& n, const char* arg) { return *ir::as_size(*n.find(arg)); }

  void push(Node n) {
    for (const ValueId v : ir::defined_values(n)) maker_[index(v)] = static_cast<int>(nodes_.size());
    nodes_.push_back(std::move(n));
  }

  void place(Node n) {
    if (n.op == "prim::view") return view(std::move(n));
    if (n.op == "prim::scatter") return scatter(std::move(n));
    if (reads_elements(n)) ir::for_each_operand(n, [&](ir::Slot, ValueId& v) { v = elements(v); });
    push(std::move(n));
  }

  /// The value, or another one with the same elements.
  ValueId elements(ValueId v) const { return v != kNoValue && same_[index(v)] != kNoValue ? same_[index(v)] : v; }

  std::optional<Window> written(const Node& scatter, ValueId src) const {
    const int64_t size = ir::itemsize(type(src).dtype), offset = integer(scatter, "offset");
    if (offset % size != 0) return {};
    return Window{offset / size, *ir::as_dims(*scatter.find("sizes")), *ir::as_dims(*scatter.find("strides"))};
  }

  void scatter(Node n) {
    ValueId& src = std::get<Ref>(n.args[1].value).id;
    src = elements(src);
    const Type &t = type(n.outs[0].id), &from = type(src);
    const auto w = written(n, src);
    if (w && w->offset == 0 && from.dtype == t.dtype && from.sizes == t.sizes &&
        same_layout(t.sizes, w->strides, t.strides) && !from.conj && !from.neg && !t.conj && !t.neg)
      same_[index(n.outs[0].id)] = src;
    push(std::move(n));
  }

  /// Where the elements of a window on `base` come from: a window on another value.
  struct Source {
    ValueId value;
    Window window;
  };
  std::optional<Source> source(ValueId base, const Type& t, int64_t offset_bytes) const {
    const int64_t size = ir::itemsize(t.dtype);
    Source s{base, {0, t.sizes, t.strides}};
    if (offset_bytes % size != 0 || t.conj || t.neg) return {};
    s.window.offset = offset_bytes / size;
    std::optional<Source> found;
    bool passed = false;
    while (const Node* n = maker(s.value)) {
      const bool write = n->op == "prim::scatter";
      const auto next = write                   ? through_write(*n, s, t.dtype)
                        : n->op == "aten::cat"  ? through_cat(*n, s, t.dtype)
                        : n->op == "prim::view" ? through_view(*n, s, t.dtype)
                                                : std::nullopt;
      if (!next) break;
      if (n->op != "prim::view") passed = write && next->value == ref(*n, "base");
      s = *next;
      // A read between two writes would keep the second one from writing in place.
      const Node* behind = maker(s.value);
      if (!passed || !behind || (behind->op != "prim::scatter" && behind->op != "prim::view")) found = s;
    }
    return found;
  }

  std::optional<Source> through_write(const Node& n, const Source& s, ir::Dtype dtype) const {
    const ValueId src = ref(n, "src");
    const auto w = type(src).dtype == dtype && !type(src).conj && !type(src).neg ? written(n, src) : std::nullopt;
    if (!w) return {};
    if (apart(s.window, *w)) return Source{ref(n, "base"), s.window};
    if (auto in = inside(s.window, *w, type(src).strides)) return Source{src, *in};
    return {};
  }

  std::optional<Source> through_cat(const Node& n, const Source& s, ir::Dtype dtype) const {
    const Type& t = type(n.outs[0].id);
    if (t.dtype != dtype || t.conj || t.neg) return {};
    int64_t dim = integer(n, "dim");
    if (dim < 0) dim += t.dim();
    Window piece{0, t.sizes, t.strides};
    for (const Ref& r : std::get<std::vector<Ref>>(*n.find("tensors"))) {
      const Type& own = type(r.id);
      if (own.dim() != t.dim()) return {};  // an empty one of dim 1
      if (own.dtype != dtype || own.conj || own.neg) return {};
      piece.sizes = own.sizes;
      if (auto in = inside(s.window, piece, own.strides)) return Source{r.id, *in};
      piece.offset += own.sizes[index(static_cast<ValueId>(dim))] * t.strides[index(static_cast<ValueId>(dim))];
    }
    return {};
  }

  std::optional<Source> through_view(const Node& n, const Source& s, ir::Dtype dtype) const {
    const Type& t = type(n.outs[0].id);
    const int64_t size = ir::itemsize(dtype), offset = integer(n, "offset");
    if (offset % size != 0 || t.conj || t.neg) return {};
    Source next = s;
    next.value = ref(n, "base"), next.window.offset += offset / size;
    return next;
  }

  void view(Node n) {
    const ValueId out = n.outs[0].id;
    const Type t = type(out);
    const auto s = source(ref(n, "base"), t, integer(n, "offset"));
    if (!s) return push(std::move(n));
    Type there = t;
    there.strides = s->window.strides;
    const int64_t offset = s->window.offset * ir::itemsize(t.dtype);
    if (same_layout(t.sizes, there.strides, t.strides)) {  // the same bytes elsewhere
      n.args = {{"base", Ref{s->value}}, {"offset", offset}};
      return push(std::move(n));
    }
    push(std::move(n));
    const Type& from = type(s->value);
    if (offset == 0 && from.sizes == there.sizes && same_layout(from.sizes, from.strides, there.strides)) {
      same_[index(out)] = s->value;
      return;
    }
    Node window{"prim::view", {{"base", Ref{s->value}}, {"offset", offset}}, {}, {}, {}};
    const ValueId made = g_.add_value(there);
    maker_.push_back(-1), same_.push_back(kNoValue);
    window.outs.emplace_back().id = made;
    same_[index(out)] = made;
    push(std::move(window));
  }

  Graph& g_;
  std::vector<int> maker_;     // by value: its node among nodes_
  std::vector<ValueId> same_;  // by value: another one with the same elements
  std::vector<Node> nodes_;
};

}  // namespace

void forward_writes(Graph& g) { Forward(g).run(); }

}  // namespace precast::passes
