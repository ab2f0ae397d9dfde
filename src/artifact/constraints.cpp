#include "artifact/constraints.h"

#include <algorithm>

namespace precast::artifact {

using ir::Size;

namespace {

/// Of elements, from the first to one past the last, as a polynomial: below 0 where one says nothing.
Size reach(const ir::Type& t) {
  Size last = 1;
  for (size_t d = 0; d < t.sizes.size(); ++d) last += (t.sizes[d] - 1) * t.strides[d];
  return last * ir::itemsize(t.dtype);
}

class Constraints {
 public:
  void type(const ir::Type& t) {
    for (const Size& s : t.sizes) expression(s), not_negative(s);
    for (const Size& s : t.strides) expression(s);
  }
  void attribute(const ir::Attr& a) {
    if (const auto* s = std::get_if<Size>(&a)) expression(*s);
    if (const auto* l = std::get_if<ir::Dims>(&a))
      for (const Size& s : *l) expression(s);
  }
  void window(const ir::Type& base, const Size& offset, const ir::Type& view) {
    type(view), expression(offset), not_negative(offset);
    if (view.numel() == 0) return;  // reads nothing
    if (!ir::always_at_least(reach(base), offset + reach(view)))
      not_negative(base.span_bytes() - (offset + view.span_bytes()) * ir::min(view.numel(), 1));  // empty: anywhere
  }

  ir::Dims all;

 private:
  void not_negative(const Size& s) {
    if (s.is_symbolic() && s.lower() < 0 && std::ranges::find(all, s) == all.end()) all.push_back(s);
  }
  void expression(const Size& s) {
    if (!s.is_symbolic()) return;
    for (const Size::Term& t : s.terms())
      for (const Size::Factor* f : t.factors) {
        expression(f->a), expression(f->b);
        if (f->kind == Size::Factor::Kind::floor_div || f->kind == Size::Factor::Kind::mod) not_negative(f->b - 1);
      }
  }
};

}  // namespace

ir::Dims constraints_of(const ir::Graph& g, const Signature& s) {
  if (g.symbols.empty()) return {};
  Constraints c;
  for (const ir::Value& v : g.values) c.type(v.type);
  for (const ir::Node& n : g.nodes) {
    for (const ir::Arg& a : n.args) c.attribute(a.value);
    const bool view = n.op == "prim::view";
    if (!view && n.op != "prim::scatter") continue;
    const ir::Type& base = g.type(std::get<ir::Ref>(*n.find("base")).id);
    ir::Type window = g.type(view ? n.outs[0].id : std::get<ir::Ref>(*n.find("src")).id);
    if (!view) window.strides = *ir::as_dims(*n.find("strides"));
    c.window(base, *ir::as_size(*n.find("offset")), window);
  }
  for (const ir::Node& n : g.nodes)
    for (const ir::Shared& shared : n.shared)
      for (const ir::Shared::View& v : shared.views) c.window(g.type(shared.base), v.offset_bytes, v.type);

  const std::vector<const ir::Type*> sources = source_types(s);
  for (const ir::Type* t : sources) c.type(*t);
  for (const Result& r : s.results) {
    if (r.kind == Result::Kind::output_view)
      c.window(g.type(g.outputs.at(static_cast<size_t>(r.index))), r.offset_bytes, r.type);
    if (r.kind == Result::Kind::source_view)
      c.window(*sources.at(static_cast<size_t>(r.index)), r.offset_bytes, r.type);
  }
  for (const Gradient& grad : s.grads)
    if (grad.part)
      c.window(g.type(g.outputs.at(static_cast<size_t>(grad.output))), grad.part->offset_bytes, grad.part->type);
  return c.all;
}

}  // namespace precast::artifact
