#include "ir/graph.h"

#include "util/errors.h"

namespace precast::ir {

const Attr* Node::find(std::string_view arg_name) const {
  for (const Arg& a : args)
    if (a.name == arg_name) return &a.value;
  return nullptr;
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

}  // namespace precast::ir
