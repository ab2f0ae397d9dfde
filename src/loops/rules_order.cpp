// Sorting, selecting and searching: along the last dim of contiguous tensors (passes/order.cpp sees to that), by
// routines of the preamble.
#include <algorithm>

#include "loops/lowering.h"

namespace precast::loops {

namespace {

using ir::Dtype;

constexpr int64_t kLongest = int64_t{1} << 31;

struct Row {
  const char* op;
  const char* function;
  void (*sizes)(const ir::Node&, Routine&);  // what the function wants to know besides rows and length
  int entries;                               // how often it wants a row's keys
};

void flag_of(const ir::Node& n, Routine& r, const char* arg, const char* name) {
  r.sizes.emplace_back(name, flag(n, arg));
}

const Row kRows[] = {
    {"aten::sort.stable", "sort_rows",
     [](const ir::Node& n, Routine& r) {
       flag_of(n, r, "stable", "stable"), flag_of(n, r, "descending", "descending");
     },
     2},
    {"aten::topk", "top_rows",
     [](const ir::Node& n, Routine& r) {
       r.sizes.emplace_back("k", integer(n, "k"));
       flag_of(n, r, "largest", "largest"), flag_of(n, r, "sorted", "sorted");
     },
     1},
    {"aten::kthvalue", "kth_rows",
     [](const ir::Node& n, Routine& r) { r.sizes.emplace_back("k", integer(n, "k") - 1); }, 1},
    {"aten::median.dim", "median_rows", [](const ir::Node&, Routine& r) { r.sizes.emplace_back("ignores_nan", 0); }, 2},
    {"aten::nanmedian.dim", "median_rows", [](const ir::Node&, Routine& r) { r.sizes.emplace_back("ignores_nan", 1); },
     2},
    {"aten::mode", "mode_rows", [](const ir::Node&, Routine&) {}, 1},
    {"aten::cummax", "cumulative_rows", [](const ir::Node&, Routine& r) { r.sizes.emplace_back("largest", 1); }, 0},
    {"aten::cummin", "cumulative_rows", [](const ir::Node&, Routine& r) { r.sizes.emplace_back("largest", 0); }, 0},
};

/// Rows and their length, of a tensor with dims.
bool add_rows(Lowering& l, Routine& r, ir::ValueId v) {
  const ir::Type& t = l.type(v);
  if (t.dim() == 0 || t.numel() == 0 || t.sizes.back() >= kLongest) return l.refuse("rows of nothing, or too long");
  r.dtype = t.dtype;
  r.sizes = {{"rows", t.numel() / t.sizes.back()}, {"length", t.sizes.back()}};
  return true;
}

bool in_rows(Lowering& l, const ir::Node& n) {
  const Row& row = *std::find_if(std::begin(kRows), std::end(kRows), [&](const Row& r) { return r.op == n.op; });
  const ir::ValueId self = tensor(n, "self");
  Routine r;
  r.function = row.function;
  if (!add_rows(l, r, self)) return false;
  if (n.find("dim") && integer(n, "dim") != l.type(self).dim() - 1) return l.refuse("not the last dim");
  row.sizes(n, r);
  const int64_t rows = r.sizes[0].second, length = r.sizes[1].second;
  const int64_t parts = std::min<int64_t>(rows, 32), room = length * row.entries;
  r.sizes.emplace_back("parts", parts);
  r.sizes.emplace_back("room", room);
  r.workspace_bytes = std::max<int64_t>(parts * room * (ir::itemsize(r.dtype) == 8 ? 16 : 8), 64);
  r.flops = static_cast<double>(rows * length);
  r.reads = {{"x", r.dtype}};
  r.writes = {{"values", r.dtype}, {"indices", Dtype::i64}};
  std::vector<BufferId> results;
  for (const ir::Out& o : n.outs) {
    if (o.id == ir::kNoValue || !l.type(o.id).is_contiguous()) return l.refuse("results in another layout");
    results.push_back(l.make_buffer(o.id));
  }
  const HostOperand x = l.dense(self);
  l.add_routine(n.op.substr(6, n.op.find('.') - 6), std::move(r), {x}, std::move(results));
  return true;
}

bool search(Lowering& l, const ir::Node& n) {
  const ir::ValueId sequence = tensor(n, "sorted_sequence"), self = tensor(n, "self");
  Routine r;
  r.function = "search_rows";
  if (!add_rows(l, r, sequence)) return false;
  const ir::Type& values = l.type(self);
  const bool one = l.type(sequence).dim() == 1;
  if (values.dtype != r.dtype || values.numel() == 0) return l.refuse("nothing to look for, or of another dtype");
  if (!one) r.sizes[0].second = values.numel() / values.sizes.back();
  r.sizes.emplace_back("one", one);
  r.sizes.emplace_back("count", values.numel() / r.sizes[0].second);
  r.sizes.emplace_back("right", flag(n, "right"));
  std::vector<HostOperand> reads = {l.dense(sequence), l.dense(self)};
  r.reads = {{"sequence", r.dtype}, {"values", r.dtype}};
  r.writes = {{"places", l.type(result(n)).dtype}};
  r.flops = static_cast<double>(values.numel());
  const BufferId places = l.make_buffer(result(n));
  l.add_routine("searchsorted", std::move(r), std::move(reads), {places});
  return true;
}

bool logcumsumexp(Lowering& l, const ir::Node& n) {
  const ir::ValueId self = tensor(n, "self");
  Routine r;
  r.function = "logcumsumexp_rows";
  if (!add_rows(l, r, self)) return false;
  if (integer(n, "dim") != l.type(self).dim() - 1 || !l.type(result(n)).is_contiguous())
    return l.refuse("not the last dim");
  r.reads = {{"x", r.dtype}}, r.writes = {{"y", r.dtype}};
  r.flops = 20.0 * static_cast<double>(l.type(self).numel());
  const HostOperand x = l.dense(self);
  const BufferId y = l.make_buffer(result(n));
  l.add_routine("logcumsumexp", std::move(r), {x}, {y});
  return true;
}

}  // namespace

void add_order_rules(Rules& rules) {
  for (const Row& r : kRows) rules[r.op] = in_rows;
  rules["aten::searchsorted.Tensor"] = search;
  rules["aten::logcumsumexp"] = logcumsumexp;
}

}  // namespace precast::loops
