// The graph: a list of functional operations on tensor values (SSA).
// The text form in print.h is the same thing, and parses back.
#pragma once
#include <complex>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "ir/type.h"

namespace precast::ir {

using ValueId = int32_t;
inline constexpr ValueId kNoValue = -1;

/// A tensor operand. kNoValue is an undefined tensor (None).
struct Ref {
  ValueId id = kNoValue;
  bool operator==(const Ref&) const = default;
};

/// The value of one argument. monostate is None. A scalar keeps its kind: 1, 1.0 and true differ. Size and Dims hold
/// what depends on symbols and nothing else: a reader that knows numbers only does not see one by mistake.
using AttrValue =
    std::variant<std::monostate, bool, int64_t, double, std::complex<double>, std::string, Dtype, Device, Ref,
                 std::vector<Ref>, std::vector<int64_t>, std::vector<double>, std::vector<bool>, Size, Dims>;
struct Attr : AttrValue {
  using AttrValue::AttrValue;
  Attr(Size);  // int64_t where it is a number
  Attr(Dims);  // std::vector<int64_t> where all are
};
/// An integer or a list of integers, symbolic or not; nothing for other kinds.
std::optional<Size> as_size(const Attr&);
std::optional<Dims> as_dims(const Attr&);

struct Arg {
  std::string name;  // the schema's name
  Attr value;
};

/// Names one tensor operand of a node: which argument, and which entry if that argument is a list.
struct Slot {
  int arg = 0, item = 0;
  bool operator==(const Slot&) const = default;
};

/// The op writes this operand. Executing means: clone the operand (same type), let the op write the
/// clone; `value` is the clone afterwards. The operand's own value never changes.
struct Write {
  Slot slot;
  ValueId value = kNoValue;
};

/// Several operands share memory and one of them is written: clone `base` once, make each listed
/// operand a view of the clone, run the op; `value` is the clone afterwards.
struct Shared {
  struct View {
    Slot slot;
    Size offset_bytes = 0;
    Type type;
  };
  ValueId base = kNoValue, value = kNoValue;
  std::vector<View> views;
};

/// One return of the op in schema order: a new tensor value; nothing (undefined, or an alias of a
/// written operand); or a non-tensor that must equal `expect` when run again (a condition).
struct Out {
  ValueId id = kNoValue;
  Attr expect{};          // monostate unless this return is a number, bool or string
  std::vector<Ref> list;  // a Tensor[] return; is_list tells an empty one apart
  bool is_list = false;
};

/// `op` is an ATen name with its overload ("aten::add.Tensor", "aten::mm"), or one of
///   prim::view    (base, offset)              result type = geometry of the window; offset in bytes
///                                             from the first byte of base's value
///   prim::scatter (base, src, offset, sizes, strides)  base with the window overwritten by src
/// Offsets, sizes, strides: window in src's dtype. A prim node never has writes.
struct Node {
  std::string op;
  std::vector<Arg> args;
  std::vector<Out> outs;
  std::vector<Write> writes;
  std::vector<Shared> shared;

  const Attr* find(std::string_view arg_name) const;  // nullptr if absent
};

struct Value {
  Type type;
  std::string name;  // only for people ("fc1.weight"); may be empty
};

struct Graph {
  std::vector<Symbol> symbols;   // that occur in sizes; ids are distinct
  std::vector<Value> values;     // indexed by ValueId
  std::vector<ValueId> inputs;   // distinct
  std::vector<Node> nodes;       // in execution order
  std::vector<ValueId> outputs;  // may repeat, may name an input

  ValueId add_value(Type, std::string name = {});
  const Type& type(ValueId id) const { return values.at(static_cast<size_t>(id)).type; }
};

/// Calls f(Slot, ValueId) for each tensor operand, undefined ones included. On a mutable node f may
/// take a ValueId& and replace the operand.
template <class N, class F>
void for_each_operand(N& n, F&& f) {
  for (int a = 0; a < static_cast<int>(n.args.size()); ++a) {
    auto& v = n.args[static_cast<size_t>(a)].value;
    if (auto* r = std::get_if<Ref>(&v)) f(Slot{a, 0}, r->id);
    if (auto* l = std::get_if<std::vector<Ref>>(&v))
      for (int i = 0; i < static_cast<int>(l->size()); ++i) f(Slot{a, i}, (*l)[static_cast<size_t>(i)].id);
  }
}

/// Calls f(id) for each value that the node reads: tensor operands that are there, then bases of shared clones.
template <class N, class F>
void for_each_read(N& n, F&& f) {
  for_each_operand(n, [&](Slot, auto& v) {
    if (v != kNoValue) f(v);
  });
  for (auto& s : n.shared) f(s.base);
}

/// Calls f(id) for each value the node defines: tensor returns, then writes, then shared clones.
template <class N, class F>
void for_each_definition(N& n, F&& f) {
  for (auto& o : n.outs) {
    if (o.id != kNoValue) f(o.id);
    for (auto& r : o.list)
      if (r.id != kNoValue) f(r.id);
  }
  for (auto& w : n.writes) f(w.value);
  for (auto& s : n.shared) f(s.value);
}
std::vector<ValueId> defined_values(const Node&);

/// By value: whether it is one of these or is computed from one.
std::vector<bool> dependents(const Graph&, const std::vector<ValueId>&);

/// The graph for these values of its symbols, which must be within their bounds. Throws PrecompileError where an
/// expression has no value.
Graph substitute(const Graph&, const std::function<int64_t(const Symbol&)>&);
Type substitute(const Type&, const std::function<int64_t(const Symbol&)>&);

/// Numbers the values in the order of their definition and drops those that nothing defines.
void renumber(Graph&);

}  // namespace precast::ir
