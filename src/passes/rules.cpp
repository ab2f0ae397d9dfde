#include "passes/rules.h"

#include <algorithm>
#include <numeric>
#include <unordered_map>

#include "util/errors.h"

namespace precast::passes {

using ir::Attr;
using ir::Dtype;
using ir::Ref;

namespace {

constexpr std::span<const Row> (*kTables[])() = {
    pointwise_rules,    special_rules,   ternary_rules,     activation_rules, reduction_rules,   softmax_rules,
    norm_rules,         loss_rules,      weight_norm_rules, matrix_rules,     convolution_rules, pool_rules,
    index_rules,        shape_rules,     padding_rules,     resample_rules,   creation_rules,    optimizer_rules,
    attention_rules,    recurrent_rules, ctc_rules,         scatter_rules,    embedding_rules,   order_rules,
    foreach_rules,      grid_rules,      margin_loss_rules, distance_rules,   rearrange_rules,   antialias_rules,
    pool_indexed_rules,
};

using Table = std::unordered_map<std::string_view, Rule>;

void add(Table& table, std::span<const Row> rows) {
  for (const Row& row : rows)
    PRECAST_CHECK(table.emplace(row.op, row.rule).second, std::string(row.op) + " has two rows");
}
const Table& all_rules() {
  static const auto& rules = *new Table([] {
    Table table;
    for (auto rows : kTables) add(table, rows());
    return table;
  }());
  return rules;
}
Rule find(const Table& table, std::string_view op) {
  auto it = table.find(op);
  return it == table.end() ? nullptr : it->second;
}

}  // namespace

Rule find_rule(std::string_view op) { return find(all_rules(), op); }

bool has_complex(const Builder& b, const ir::Node& n) {
  bool found = false;
  auto look = [&](ir::ValueId id) { found |= id != ir::kNoValue && ir::is_complex(b.type(id).dtype); };
  ir::for_each_operand(n, [&](ir::Slot, ir::ValueId id) { look(id); });
  for (ir::ValueId id : ir::defined_values(n)) look(id);
  return found;
}

std::vector<std::string_view> ops_with_rules() {
  std::vector<std::string_view> ops;
  for (const auto& [op, rule] : all_rules()) ops.push_back(op);
  std::ranges::sort(ops);
  return ops;
}

namespace {

template <class T>
const T* get(const Attr& a) {
  return std::get_if<T>(&a);
}

[[noreturn]] void wrong_kind(const char* arg) { decline(std::string("argument '") + arg + "' is of another kind"); }

std::optional<Number> number_of(const Attr& a) {
  if (auto* v = get<bool>(a)) return Number(*v);
  if (auto* v = get<int64_t>(a)) return Number(*v);
  if (auto* v = get<double>(a)) return Number(*v);
  if (auto* v = get<ir::Size>(a)) return Number(*v);
  return {};
}

bool is_none(const Attr& a) {
  auto* r = get<Ref>(a);
  return std::holds_alternative<std::monostate>(a) || (r && r->id == ir::kNoValue);
}

}  // namespace

const Attr& Op::at(const char* arg) const {
  const Attr* a = node_.find(arg);
  if (!a) decline(std::string("no argument '") + arg + "'");
  return *a;
}

bool Op::given(const char* arg) const {
  const Attr* a = node_.find(arg);
  return a && !is_none(*a);
}

bool Op::is_number(const char* arg) const { return number_of(at(arg)).has_value(); }

Val Op::optional(const char* arg) const {
  const Attr* a = node_.find(arg);
  if (!a || is_none(*a)) return {};
  auto* r = get<Ref>(*a);
  if (!r) wrong_kind(arg);
  return b.value(r->id);
}

Val Op::val(const char* arg) const {
  Val v = optional(arg);
  if (!v) wrong_kind(arg);
  return v;
}

std::vector<Val> Op::vals(const char* arg) const {
  auto* refs = get<std::vector<Ref>>(at(arg));
  if (!refs) wrong_kind(arg);
  std::vector<Val> v;
  for (Ref r : *refs) v.push_back(r.id == ir::kNoValue ? Val{} : b.value(r.id));
  return v;
}

Number Op::number(const char* arg) const {
  auto n = number_of(at(arg));
  if (!n) wrong_kind(arg);
  return *n;
}

std::optional<Number> Op::optional_number(const char* arg) const {
  if (!given(arg)) return {};
  return number(arg);
}

int64_t Op::integer(const char* arg) const { return size(arg); }

Size Op::size(const char* arg) const {
  const auto i = ir::as_size(at(arg));
  if (!i) wrong_kind(arg);
  return *i;
}

bool Op::flag(const char* arg) const {
  auto* f = get<bool>(at(arg));
  if (!f) wrong_kind(arg);
  return *f;
}

Dims Op::ints(const char* arg) const {
  if (const auto i = ir::as_size(at(arg))) return {*i};
  const auto list = ir::as_dims(at(arg));
  if (!list) wrong_kind(arg);
  return *list;
}

std::string Op::text(const char* arg) const {
  auto* s = get<std::string>(at(arg));
  if (!s) wrong_kind(arg);
  return *s;
}

std::optional<Dtype> Op::dtype(const char* arg) const {
  const Attr* a = node_.find(arg);
  if (!a || is_none(*a)) return {};
  if (auto* d = get<Dtype>(*a)) return *d;
  wrong_kind(arg);
}

Dims Op::dims(const char* arg, Val of) const {
  Dims dims = given(arg) ? ints(arg) : Dims{};
  if (dims.empty()) return all_dims(of);
  for (Size& d : dims) d = wrap_dim(d, of.dim());
  std::ranges::sort(dims);
  if (std::ranges::adjacent_find(dims) != dims.end()) decline("a dim is given twice");
  return of.dim() == 0 ? Dims{} : dims;
}

Val Op::as(const char* arg, Dtype d) const { return is_number(arg) ? b.number(number(arg), d) : cast(val(arg), d); }

Dtype Op::common_dtype(std::initializer_list<const char*> args) const {
  Promotion p;
  for (const char* a : args) {
    if (is_number(a))
      p.add(number(a));
    else
      p.add(val(a).type());
  }
  return p.result();
}

std::vector<Val> Op::apply_all(std::string name, std::vector<ir::Arg> args, std::vector<ir::Type> wanted) const {
  ir::Node n{std::move(name), std::move(args), {}, {}, {}};
  Rule rule = has_complex(b, n) ? find_complex_rule(n.op) : find_rule(n.op);
  if (!rule) decline("no lowering rule for " + n.op);
  Op op(b, n);
  op.wanted_ = std::move(wanted);
  rule(op);
  std::vector<Val> results;
  for (size_t i = 0; i < op.outs_.size(); ++i) results.push_back(op.result_at(i));
  return results;
}
Val Op::apply(std::string name, std::vector<ir::Arg> args, std::vector<ir::Type> wanted) const {
  const std::vector<Val> results = apply_all(std::move(name), std::move(args), std::move(wanted));
  if (results.empty() || !results[0]) decline("no result");
  return results[0];
}

std::vector<ir::Arg> Op::args_with(const char* arg, Val v) const {
  std::vector<ir::Arg> args = node_.args;
  for (ir::Arg& a : args)
    if (a.name == arg) a.value = Ref{v.id};
  return args;
}

void Op::result(size_t out, Val v) {
  if (outs_.size() <= out) outs_.resize(out + 1);
  outs_[out] = {v};
}

void Op::results(size_t out, std::vector<Val> list) {
  if (outs_.size() <= out) outs_.resize(out + 1);
  outs_[out] = std::move(list);
}

void Op::append(size_t out, Val v) {
  if (outs_.size() <= out) outs_.resize(out + 1);
  outs_[out].push_back(v);
}

void Op::write(const char* arg, Val v, int item) {
  for (size_t i = 0; i < node_.writes.size(); ++i) {
    ir::Slot s = node_.writes[i].slot;
    if (node_.args[static_cast<size_t>(s.arg)].name == arg && s.item == item) writes_[i] = v;
  }
}

}  // namespace precast::passes
