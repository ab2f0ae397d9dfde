// Reductions and scans.
#include "loops/lowering.h"

namespace precast::loops {

namespace {

using ir::Dtype;

struct Row {
  const char* op;
  Reduction reduction;
};
const Row kRows[] = {
    {"aten::sum.dim_IntList", Reduction::sum}, {"aten::prod.dim_int", Reduction::prod}, {"aten::amax", Reduction::amax},
    {"aten::amin", Reduction::amin},           {"aten::argmax", Reduction::argmax},     {"aten::argmin", Reduction::argmin},
    {"aten::any.dims", Reduction::any},        {"aten::all.dims", Reduction::all},
};

Reduction kind_of(std::string_view op) {
  for (const Row& r : kRows)
    if (r.op == op) return r.reduction;
  return Reduction::none;
}

bool is_arg(Reduction r) { return r == Reduction::argmax || r == Reduction::argmin; }

/// Which dims go: an empty list means all.
std::vector<bool> reduced_dims(const std::vector<int64_t>& dims, int64_t rank) {
  std::vector<bool> reduced(static_cast<size_t>(rank), dims.empty());
  for (const int64_t d : dims)
    if (rank > 0) reduced[static_cast<size_t>(d < 0 ? d + rank : d)] = true;
  return reduced;
}

bool reduce(Lowering& l, const ir::Node& n) {
  const Reduction kind = kind_of(n.op);
  const ir::ValueId self = tensor(n, "self"), out = result(n);
  const ir::Type in = l.type(self), type = l.type(out);
  const std::vector<bool> reduced = reduced_dims(integers(n, "dim"), in.dim());
  const bool to_bool = kind == Reduction::any || kind == Reduction::all;
  if (!is_arg(kind) && type.dtype != (to_bool ? Dtype::b8 : in.dtype)) return l.refuse("result of another dtype");
  if (in.dtype == Dtype::b8 && (kind == Reduction::sum || kind == Reduction::prod))
    return l.refuse("arithmetic on bool");
  const bool keepdim = flag(n, "keepdim");
  const BufferId b = l.make_buffer(out);
  Step s;
  s.kind = Step::Kind::reduce;
  s.what = n.op.substr(6, n.op.find('.') - 6);
  s.reduction = kind, s.buffer = b, s.dtype = type.dtype;
  if (in.dtype == Dtype::b8 && kind == Reduction::amax) s.reduction = Reduction::any;
  if (in.dtype == Dtype::b8 && kind == Reduction::amin) s.reduction = Reduction::all;
  const int i = l.add_step(std::move(s), in.sizes, in.strides, reduced, [&](Step& step, const Indices& index) {
    Indices kept;
    Index position;
    for (size_t d = 0; d < index.size(); ++d) {
      if (reduced[d]) position = position * in.sizes[d] + index[d];
      if (!reduced[d]) kept.push_back(index[d]);
      if (reduced[d] && keepdim) kept.push_back({});
    }
    step.body = l.element(self, index);
    if (to_bool) step.body = l.exprs().cast(Dtype::b8, step.body);
    // bool orders as 0 < 1; a mask is 0 and -1.
    if (is_arg(kind) && in.dtype == Dtype::b8) step.body = l.exprs().cast(Dtype::i32, step.body);
    if (is_arg(kind)) step.position = l.exprs().index(position);
    step.at = linearize(kept, type.strides);
  });
  if (i >= 0 && l.step(i).reduced.empty()) {  // of one element each
    Step& step = l.step(i);
    step.kind = Step::Kind::map;
    if (is_arg(kind)) step.body = std::exchange(step.position, -1);
  }
  return true;
}

bool scan(Lowering& l, const ir::Node& n) {
  const ir::ValueId self = tensor(n, "self"), out = result(n);
  const ir::Type type = l.type(out);
  const int64_t rank = type.dim();
  int64_t dim = integer(n, "dim");
  if (type.dtype == Dtype::b8) return l.refuse("arithmetic on bool");
  const BufferId b = l.make_buffer(out);
  Step s;
  s.kind = rank == 0 ? Step::Kind::map : Step::Kind::scan;
  s.what = n.op.substr(6);
  s.reduction = n.op == "aten::cumsum" ? Reduction::sum : Reduction::prod;
  s.buffer = b, s.dtype = type.dtype;
  std::vector<bool> scanned(static_cast<size_t>(rank));
  if (rank > 0) scanned[static_cast<size_t>(dim < 0 ? dim + rank : dim)] = true;
  if (rank > 0 && type.sizes[static_cast<size_t>(dim < 0 ? dim + rank : dim)] == 1) s.kind = Step::Kind::map;
  l.add_step(std::move(s), type.sizes, type.strides, scanned, [&](Step& step, const Indices& index) {
    step.body = l.exprs().cast(type.dtype, l.element(self, index));
    step.at = linearize(index, type.strides);
  });
  return true;
}

}  // namespace

void add_reduction_rules(Rules& rules) {
  for (const Row& r : kRows) rules[r.op] = reduce;
  rules["aten::cumsum"] = scan;
  rules["aten::cumprod"] = scan;
}

}  // namespace precast::loops
