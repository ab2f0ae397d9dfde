#include "artifact/tables.h"

#include <algorithm>

#include "util/errors.h"

namespace precast::artifact {
namespace {

template <class T>
const T* data_or_null(const std::vector<T>& v) {
  return v.empty() ? nullptr : v.data();
}

void require(bool ok, const std::string& what) {
  if (!ok) throw PrecompileError("the artifact's metadata contradicts itself: " + what);
}

}  // namespace

precast_tensor_spec Tables::tensor(const std::string& name, const ir::Type& type, bool read) {
  require(type.sizes.size() == type.strides.size() && type.sizes.size() <= 64, "sizes and strides of '" + name + "'");
  const auto coded = [&](const ir::Dims& dims) -> std::vector<precast_i64>& {
    std::vector<precast_i64>& list = dims_.emplace_back();
    for (const ir::Size& s : dims) {
      require(s.is_symbolic() || int64_t{s} >= 0, "sizes and strides of '" + name + "'");
      list.push_back(s.is_symbolic() ? -1 - number(s) : int64_t{s});
    }
    return list;
  };
  auto &sizes = coded(type.sizes), &strides = coded(type.strides);
  const auto flags = static_cast<unsigned>(type.conj * PRECAST_CONJ | type.neg * PRECAST_NEG);
  return {name.c_str(),
          data_or_null(sizes),
          data_or_null(strides),
          static_cast<int>(sizes.size()),
          static_cast<int>(type.dtype),
          type.device.type,
          type.device.index,
          read,
          flags};
}

void Tables::add_symbols(const Metadata& metadata) {
  const auto& leaves = metadata.signature.leaves;
  for (const ir::Symbol& s : metadata.symbols) {
    precast_symbol_spec row{texts_.emplace_back(ir::name(s)).c_str(), s.min, s.max, -1, 0};
    for (size_t i = 0; i < leaves.size() && row.leaf < 0; ++i) {
      if (leaves[i].kind != UserLeaf::Kind::tensor) continue;
      const ir::Dims& sizes = leaves[i].tensor.type.sizes;
      const auto whole = std::ranges::find(sizes, ir::Size::symbol(s));
      if (whole != sizes.end()) row.leaf = static_cast<int>(i), row.dim = static_cast<int>(whole - sizes.begin());
    }
    require(row.leaf >= 0, "no argument has the size " + ir::name(s));
    symbol_of_[s.id] = static_cast<int>(symbols_.size());
    symbols_.push_back(row);
  }
}

int Tables::number(precast_number_spec n) {
  const auto same = std::ranges::find_if(
      numbers_, [&](const precast_number_spec& m) { return m.op == n.op && m.a == n.a && m.b == n.b; });
  const auto index = static_cast<size_t>(same - numbers_.begin());
  if (same == numbers_.end()) numbers_.push_back(n);
  return static_cast<int>(symbols_.size() + index);
}

int Tables::number(const ir::Size& size) {
  using Kind = ir::Size::Factor::Kind;
  const auto op = [&](int code, int a, int b) { return number(precast_number_spec{nullptr, a, b, code, 0}); };
  const auto factor = [&](const ir::Size::Factor& f) {
    if (f.kind == Kind::symbol) {
      require(symbol_of_.contains(f.symbol.id), "the symbol " + ir::name(f.symbol) + " is not declared");
      return symbol_of_.at(f.symbol.id);
    }
    static const auto& kOps = *new std::map<Kind, int>{{Kind::floor_div, PRECAST_FLOOR_DIV},
                                                       {Kind::mod, PRECAST_MOD},
                                                       {Kind::max, PRECAST_MAX},
                                                       {Kind::min, PRECAST_MIN}};
    const int a = number(f.a), b = number(f.b);
    return op(kOps.at(f.kind), a, b);
  };
  const auto constant = [&](int64_t v) { return number(precast_number_spec{nullptr, v, 0, PRECAST_CONSTANT, 0}); };
  int sum = -1;
  for (const ir::Size::Term& t : size.terms()) {
    int product = t.coefficient == 1 && !t.factors.empty() ? -1 : constant(t.coefficient);
    for (const ir::Size::Factor* f : t.factors) {
      const int next = factor(*f);
      product = product < 0 ? next : op(PRECAST_MULTIPLY, product, next);
    }
    sum = sum < 0 ? product : op(PRECAST_ADD, sum, product);
  }
  if (sum < 0) sum = constant(0);
  const auto behind = sum - static_cast<int>(symbols_.size());
  if (behind >= 0 && !numbers_[static_cast<size_t>(behind)].text)
    numbers_[static_cast<size_t>(behind)].text = texts_.emplace_back(ir::to_string(size)).c_str();
  return sum;
}

Tables::Tables(const Metadata& metadata) {
  const Signature& s = metadata.signature;
  static const std::string unnamed;
  add_symbols(metadata);
  for (const TensorMeta& t : s.params) tensors_.push_back(tensor(t.name, t.type, t.read));
  for (const TensorMeta& t : s.buffers) tensors_.push_back(tensor(t.name, t.type, t.read));
  for (const ir::Type& t : metadata.outputs) outputs_.push_back(tensor(unnamed, t, true));
  for (const ModuleSlot& slot : s.slots)
    slots_.push_back({slot.name.c_str(), slot.module, slot.is_buffer, slot.tensor, 0});
  for (const UserLeaf& leaf : s.leaves) {
    precast_leaf_spec& row = leaves_.emplace_back();
    row.kind = static_cast<int>(leaf.kind);
    row.t = leaf.kind == UserLeaf::Kind::tensor ? tensor(leaf.where, leaf.tensor.type, leaf.tensor.read)
                                                : precast_tensor_spec{};
    row.t.name = leaf.where.c_str();
    if (auto* b = std::get_if<bool>(&leaf.value)) row.i = *b;
    if (auto* i = std::get_if<int64_t>(&leaf.value)) row.i = *i;
    if (auto* d = std::get_if<double>(&leaf.value)) row.d = *d;
    if (auto* text = std::get_if<std::string>(&leaf.value))
      row.s = text->c_str(), row.length = static_cast<int>(text->size());
  }
  for (const GraphInput& input : s.graph_inputs) inputs_.push_back({input.source, 0, input.offset_bytes});
  for (const Alias& a : s.aliases) aliases_.push_back({a.a, a.b, a.shared, 0, a.delta_bytes});
  for (const WriteBack& w : s.writes) writes_.push_back({w.source, w.output});
  for (const ir::Size& c : metadata.constraints) constraints_.push_back(number(c));
  for (const ir::Size& bytes : metadata.arena_slots) slots_of_arena_.push_back(number(bytes));
  check(metadata);

  // A part of an input, or inputs that share memory and are read one through another: their layout counts for every
  // backend.
  std::vector<precast_tensor_spec*> sources;
  for (auto& t : tensors_) sources.push_back(&t);
  for (auto& leaf : leaves_)
    if (leaf.kind == PRECAST_TENSOR) sources.push_back(&leaf.t);
  const auto fix_layout = [&](int source) { sources[static_cast<size_t>(source)]->flags |= PRECAST_LAYOUT; };
  for (const Alias& a : s.aliases)
    if (a.shared) fix_layout(a.a), fix_layout(a.b);
  for (const GraphInput& input : s.graph_inputs)
    if (input.offset_bytes != 0) fix_layout(input.source);
  for (const int source : s.fixed_layouts) fix_layout(source);

  const auto count = [](const auto& v) { return static_cast<int>(v.size()); };
  spec_.struct_size = sizeof(precast_spec);
  spec_.layout_strict = s.backend == "inductor";
  spec_.n_positional = s.num_positional_args;
  spec_.n_modules = count(s.module_positions), spec_.module_positions = data_or_null(s.module_positions);
  spec_.n_params = count(s.params), spec_.n_buffers = count(s.buffers), spec_.tensors = data_or_null(tensors_);
  spec_.n_slots = count(slots_), spec_.slots = data_or_null(slots_);
  spec_.n_leaves = count(leaves_), spec_.leaves = data_or_null(leaves_);
  spec_.in_spec = s.in_spec ? s.in_spec->c_str() : nullptr;
  spec_.n_inputs = count(inputs_), spec_.inputs = data_or_null(inputs_);
  spec_.n_aliases = count(aliases_), spec_.aliases = data_or_null(aliases_);
  spec_.n_outputs = count(outputs_), spec_.outputs = data_or_null(outputs_);
  spec_.n_writes = count(writes_), spec_.writes = data_or_null(writes_);
  spec_.n_symbols = count(symbols_), spec_.symbols = data_or_null(symbols_);
  spec_.n_numbers = count(symbols_) + count(numbers_), spec_.numbers = data_or_null(numbers_);
  spec_.n_constraints = count(constraints_), spec_.constraints = data_or_null(constraints_);
  spec_.n_slots_of_arena = count(slots_of_arena_), spec_.slots_of_arena = data_or_null(slots_of_arena_);
  spec_.n_call_numbers = spec_.n_numbers;
  for (const precast_tensor_spec& t : outputs_) spec_.n_call_numbers += 2 * t.ndim;
  if (symbols_.empty()) spec_.n_call_numbers = 0;
}

// The driver trusts every index in its tables.
void Tables::check(const Metadata& metadata) const {
  const Signature& s = metadata.signature;
  const size_t n_tensors = tensors_.size();
  const std::vector<const ir::Type*> sources = source_types(s);
  const auto in_range = [](int index, size_t n) { return index >= 0 && static_cast<size_t>(index) < n; };

  for (size_t t = 0; t < n_tensors; ++t)
    require(!sources[t]->is_symbolic(), std::string("the sizes of '") + tensors_[t].name + "' depend on arguments");
  std::vector<bool> used(n_tensors);
  require(s.num_positional_args >= 0, "a negative number of arguments");
  for (const ModuleSlot& slot : s.slots) {
    require(
        in_range(slot.tensor, slot.is_buffer ? n_tensors : s.params.size()) &&  // a buffer may be tied to a parameter
            in_range(slot.module, s.module_positions.size()),
        "module entry '" + slot.name + "'");
    used[static_cast<size_t>(slot.tensor)] = true;
  }
  for (size_t t = 0; t < n_tensors; ++t) require(used[t], "no module entry names tensor " + std::to_string(t));
  for (size_t i = 1; i < s.slots.size(); ++i)
    require(s.slots[i - 1].is_buffer <= s.slots[i].is_buffer, "a buffer stands before a parameter");
  for (const int position : s.module_positions)
    require(in_range(position, static_cast<size_t>(s.num_positional_args)),
            "module position " + std::to_string(position));
  for (const GraphInput& input : s.graph_inputs)
    require(in_range(input.source, sources.size()), "source of a graph input");
  for (const Alias& a : s.aliases)
    require(in_range(a.a, sources.size()) && in_range(a.b, sources.size()), "sources of an alias");
  for (const WriteBack& w : s.writes) {
    require(in_range(w.source, sources.size()) && in_range(w.output, metadata.outputs.size()),
            "indices of a write-back");
    const ir::Type &to = *sources[static_cast<size_t>(w.source)],
                   &from = metadata.outputs[static_cast<size_t>(w.output)];
    require(to.dtype == from.dtype && to.sizes == from.sizes && to.conj == from.conj && to.neg == from.neg,
            "a write-back of " + ir::to_string(from) + " to " + ir::to_string(to));
  }
  for (const int source : s.fixed_layouts) require(in_range(source, sources.size()), "a fixed layout");
  for (const Gradient& g : s.grads)
    require(in_range(g.source, sources.size()) && in_range(g.output, metadata.outputs.size()), "indices of a gradient");
  for (const int source : s.cleared_grads) require(in_range(source, sources.size()), "a cleared gradient");
  for (const int source : s.zeroed_grads) require(in_range(source, sources.size()), "a zeroed gradient");
  for (const ModuleAttribute& a : s.attributes)
    require(in_range(a.module, s.module_positions.size()), "module of the attribute '" + a.name + "'");
  for (size_t i = 0; i < s.results.size(); ++i) {
    const Result& r = s.results[i];
    require(r.same_as < static_cast<int>(i), "a result that is the same as a later one");
    const bool of_output = r.kind == Result::Kind::output || r.kind == Result::Kind::output_view;
    const bool of_source = r.kind == Result::Kind::source || r.kind == Result::Kind::source_view;
    require(!of_output || in_range(r.index, metadata.outputs.size()), "output of a result");
    require(!of_source || in_range(r.index, sources.size()), "source of a result");
  }
}

}  // namespace precast::artifact
