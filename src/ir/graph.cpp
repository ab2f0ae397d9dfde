#include "ir/graph.h"

#include "precast/error.h"
#include "util/errors.h"

namespace precast::ir {

const Attr* Node::find(std::string_view arg_name) const {
  for (const Arg& a : args)
    if (a.name == arg_name) return &a.value;
  return nullptr;
}

Attr::Attr(Size s) {
  if (s.is_symbolic())
    emplace<Size>(s);
  else
    emplace<int64_t>(s);
}
Attr::Attr(Dims dims) {
  if (is_symbolic(dims))
    emplace<Dims>(dims);
  else
    emplace<std::vector<int64_t>>(dims.begin(), dims.end());
}
std::optional<Size> as_size(const Attr& a) {
  if (auto* i = std::get_if<int64_t>(&a)) return Size(*i);
  if (auto* s = std::get_if<Size>(&a)) return *s;
  return {};
}
std::optional<Dims> as_dims(const Attr& a) {
  if (auto* list = std::get_if<std::vector<int64_t>>(&a)) return Dims(list->begin(), list->end());
  if (auto* list = std::get_if<Dims>(&a)) return *list;
  return {};
}

ValueId Graph::add_value(Type type, std::string value_name) {
  values.push_back({std::move(type), std::move(value_name)});
  return static_cast<ValueId>(values.size() - 1);
}

std::vector<ValueId> defined_values(const Node& n) {
  std::vector<ValueId> ids;
  for_each_definition(n, [&](ValueId id) { ids.push_back(id); });
  return ids;
}

std::vector<bool> dependents(const Graph& g, const std::vector<ValueId>& of) {
  std::vector<bool> depends(g.values.size());
  for (const ValueId v : of) depends[static_cast<size_t>(v)] = true;
  for (const Node& n : g.nodes) {
    bool reads = false;
    for_each_read(n, [&](ValueId v) { reads = reads || depends[static_cast<size_t>(v)]; });
    if (reads) for_each_definition(n, [&](ValueId v) { depends[static_cast<size_t>(v)] = true; });
  }
  return depends;
}

void renumber(Graph& g) {
  std::vector<ValueId> number(g.values.size(), kNoValue);
  std::vector<Value> values;
  auto define = [&](ValueId& id) {
    auto& slot = number[static_cast<size_t>(id)];
    slot = static_cast<ValueId>(values.size());
    values.push_back(std::move(g.values[static_cast<size_t>(id)]));
    id = slot;
  };
  auto use = [&](ValueId& id) {
    if (id == kNoValue) return;
    id = number[static_cast<size_t>(id)];
    PRECAST_CHECK(id != kNoValue, "a value is used before it is defined");
  };
  for (ValueId& id : g.inputs) define(id);
  for (Node& n : g.nodes) {
    for_each_operand(n, [&](Slot, ValueId& id) { use(id); });
    for (Shared& s : n.shared) use(s.base);
    for_each_definition(n, define);
  }
  for (ValueId& id : g.outputs) use(id);
  g.values = std::move(values);
}

namespace {

using Values = std::function<int64_t(const Symbol&)>;

Size value_of(const Size& s, const Values& values) {
  const auto v = s.value(values);
  if (!v) throw PrecompileError("the size " + to_string(s) + " has no value for the sizes given");
  return *v;
}
Dims values_of(const Dims& dims, const Values& values) {
  Dims r;
  for (const Size& s : dims) r.push_back(value_of(s, values));
  return r;
}

}  // namespace

Type substitute(const Type& t, const Values& values) {
  if (!t.is_symbolic()) return t;
  Type r = t;
  r.sizes = values_of(t.sizes, values);
  r.strides = t.strides == contiguous_strides(t.sizes) ? contiguous_strides(r.sizes) : values_of(t.strides, values);
  return r;
}

Graph substitute(const Graph& symbolic, const Values& values) {
  Graph g = symbolic;
  g.symbols.clear();
  for (Value& v : g.values) v.type = substitute(v.type, values);
  const auto replace = [&](Attr& a) {
    if (auto* s = std::get_if<Size>(&a)) a = Attr(value_of(*s, values));
    if (auto* l = std::get_if<Dims>(&a)) a = Attr(values_of(*l, values));
  };
  for (Node& n : g.nodes) {
    for (Arg& a : n.args) replace(a.value);
    for (Out& o : n.outs) replace(o.expect);
    for (Shared& s : n.shared)
      for (Shared::View& v : s.views) {
        v.offset_bytes = value_of(v.offset_bytes, values);
        v.type = substitute(v.type, values);
      }
  }
  return g;
}

}  // namespace precast::ir
