// Reductions and scans.
#include <algorithm>
#include <numeric>

#include "loops/lowering.h"

namespace precast::loops {

namespace {

using ir::Dtype;

struct Row {
  const char* op;
  Reduction reduction;
};
const Row kRows[] = {
    {"aten::sum.dim_IntList", Reduction::sum}, {"aten::prod.dim_int", Reduction::prod},
    {"aten::amax", Reduction::amax},           {"aten::amin", Reduction::amin},
    {"aten::argmax", Reduction::argmax},       {"aten::argmin", Reduction::argmin},
    {"aten::any.dims", Reduction::any},        {"aten::all.dims", Reduction::all},
};

Reduction kind_of(std::string_view op) {
  for (const Row& r : kRows)
    if (r.op == op) return r.reduction;
  return Reduction::none;
}

bool is_arg(Reduction r) { return r == Reduction::argmax || r == Reduction::argmin; }

/// Which dims go: an empty list means all.
std::vector<bool> reduced_dims(const Dims& dims, int64_t rank) {
  std::vector<bool> reduced(static_cast<size_t>(rank), dims.empty());
  for (const int64_t d : dims)
    if (rank > 0) reduced[static_cast<size_t>(d < 0 ? d + rank : d)] = true;
  return reduced;
}

/// A reduction of `sizes` (strides: of the operand, to order the loops) into `out`, whose strides cover the kept dims
/// (and the reduced ones, of size 1, with keepdim).
struct Job {
  std::string what;
  Reduction kind;
  Dims sizes, strides;
  std::vector<bool> reduced;
  bool keepdim;
  BufferId out;
  Dtype dtype;
  Dims out_strides;
  Element body;
};

void add(Lowering& l, const Job& job) {
  Step s;
  s.kind = Step::Kind::reduce;
  s.what = job.what, s.reduction = job.kind, s.buffer = job.out, s.dtype = job.dtype;
  const int i = l.add_step(std::move(s), job.sizes, job.strides, job.reduced, [&](Step& step, const Indices& index) {
    Indices kept;
    Index position;
    for (size_t d = 0; d < index.size(); ++d) {
      if (job.reduced[d]) position = position * job.sizes[d] + index[d];
      if (!job.reduced[d]) kept.push_back(index[d]);
      if (job.reduced[d] && job.keepdim) kept.push_back({});
    }
    step.body = job.body(index);
    if (is_arg(job.kind)) step.position = l.exprs().index(position);
    step.at = linearize(kept, job.out_strides);
  });
  if (i >= 0 && l.step(i).reduced.empty()) {  // of one element each
    Step& step = l.step(i);
    step.kind = Step::Kind::map;
    if (is_arg(job.kind)) step.body = std::exchange(step.position, -1);
    // A sum starts from 0: that of -0 is 0.
    const Dtype t = job.dtype;
    if (job.kind == Reduction::sum && ir::is_float(t))
      step.body = l.exprs().call("add", t, {step.body, l.exprs().constant(t, 0.0)});
  }
}

/// Reduced dims, outermost first.
std::vector<size_t> outermost(const Job& job) {
  std::vector<size_t> dims;
  for (size_t d = 0; d < job.sizes.size(); ++d)
    if (job.reduced[d] && job.sizes[d] != 0 && job.sizes[d] != 1) dims.push_back(d);
  std::stable_sort(dims.begin(), dims.end(),
                   [&](size_t a, size_t b) { return ir::roughly_less(job.strides[b], job.strides[a]); });
  return dims;
}

/// The results lie side by side in the operand: the reduction runs down columns.
bool runs_down(const Job& job) {
  Size kept = 0, reduced = 0;  // nearest neighbours
  for (size_t d = 0; d < job.sizes.size(); ++d) {
    if (job.sizes[d] == 1) continue;
    Size& nearest = job.reduced[d] ? reduced : kept;
    if (nearest == 0 || ir::roughly_less(job.strides[d], nearest)) nearest = job.strides[d];
  }
  return kept != 0 && ir::roughly_less(kept, reduced);
}

/// How many pieces to cut each reduced dim in, so that threads share a long reduction, and each piece of it stays in
/// the cache while all its columns are summed. Only what is known to divide is cut.
Dims pieces(const Job& job) {
  Dims cut(job.sizes.size(), 1);
  const std::vector<size_t> dims = outermost(job);
  int64_t terms = 1;
  for (const size_t d : dims) terms *= job.sizes[d].hint();
  const int64_t all = ir::product(job.sizes).hint(), results = std::max<int64_t>(all / std::max<int64_t>(terms, 1), 1);
  if (is_arg(job.kind) || all < 65536 || dims.empty()) return cut;
  const auto largest = [&](size_t d, int64_t most) -> int64_t {  // divisor
    if (job.sizes[d].is_symbolic()) return 1;
    for (int64_t p = std::min<int64_t>(most, job.sizes[d]); p > 1; --p)
      if (job.sizes[d] % p == 0) return p;
    return 1;
  };
  if (!runs_down(job)) {
    if (results < 32)
      if (const int64_t p = largest(dims[0], std::min(int64_t{256} / results, terms / 2048)); p > 3) cut[dims[0]] = p;
    return cut;
  }
  const int64_t rows = std::max<int64_t>(16384 / std::max<int64_t>(results, 1), 32);  // of a piece
  for (const size_t d : dims) {
    cut[d] = largest(d, terms / rows);
    terms /= int64_t{cut[d]};
    if (cut[d] != job.sizes[d]) break;
  }
  return cut;
}

/// First each piece, not rounded to f16 or bf16; then the pieces.
void add_in_pieces(Lowering& l, const Job& job, const Dims& cut) {
  const Dtype wide = job.dtype == Dtype::f16 || job.dtype == Dtype::bf16 ? Dtype::f32 : job.dtype;
  Job first{job.what, job.kind, {}, {}, {}, false, -1, wide, {}, {}}, second = job;
  second.sizes.clear(), second.strides.clear(), second.reduced.clear(), second.out_strides.clear();
  second.keepdim = false;
  Dims source;  // stride in the operand, of each dim of the partial results
  const auto add_first = [&](const Size& size, const Size& stride, bool reduced) {
    first.sizes.push_back(size), first.strides.push_back(stride), first.reduced.push_back(reduced);
  };
  for (size_t d = 0, out = 0; d < job.sizes.size(); ++d) {
    const Size inside = *ir::divide(job.sizes[d], cut[d]);
    if (!job.reduced[d] || cut[d] > 1) {
      add_first(job.reduced[d] ? cut[d] : job.sizes[d], job.strides[d] * (job.reduced[d] ? inside : Size(1)), false);
      second.sizes.push_back(first.sizes.back());
      second.reduced.push_back(job.reduced[d]);
      source.push_back(first.strides.back());
    }
    if (job.reduced[d]) add_first(inside, job.strides[d], true);
    if (!job.reduced[d]) second.out_strides.push_back(job.out_strides[out]);
    if (!job.reduced[d] || job.keepdim) ++out;
  }
  // Partial results lie in the order of the operand.
  ir::Type partial{.dtype = wide, .sizes = second.sizes, .strides = source};
  std::vector<size_t> order(source.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](size_t a, size_t b) { return ir::roughly_less(source[b], source[a]); });
  for (Size next = 1; !order.empty(); order.pop_back())
    partial.strides[order.back()] = next, next *= partial.sizes[order.back()];
  second.strides = partial.strides;
  first.out = l.new_buffer(partial), first.out_strides = partial.strides;
  first.body = [&](const Indices& index) {
    Indices whole;
    for (size_t d = 0, i = 0; d < job.sizes.size(); ++d) {
      Index at;
      if (!job.reduced[d] || cut[d] > 1) at = index[i++];
      if (job.reduced[d]) at = at * *ir::divide(job.sizes[d], cut[d]) + index[i++];
      whole.push_back(at);
    }
    return l.exprs().cast(wide, job.body(whole));
  };
  add(l, first);
  // Rounded once, when the result is stored.
  second.body = [&](const Indices& index) {
    return l.exprs().load(first.out, wide, linearize(index, partial.strides));
  };
  add(l, second);
}

bool reduce(Lowering& l, const ir::Node& n) {
  const Reduction kind = kind_of(n.op);
  const ir::ValueId self = tensor(n, "self"), out = result(n);
  const ir::Type in = l.type(self), type = l.type(out);
  Job job{n.op.substr(6, n.op.find('.') - 6),
          kind,
          in.sizes,
          in.strides,
          reduced_dims(integers(n, "dim"), in.dim()),
          flag(n, "keepdim"),
          -1,
          type.dtype,
          type.strides,
          {}};
  const bool to_bool = kind == Reduction::any || kind == Reduction::all;
  if (!is_arg(kind) && type.dtype != (to_bool ? Dtype::b8 : in.dtype)) return l.refuse("result of another dtype");
  if (in.dtype == Dtype::b8 && (kind == Reduction::sum || kind == Reduction::prod))
    return l.refuse("arithmetic on bool");
  job.out = l.make_buffer(out);
  if (in.dtype == Dtype::b8 && kind == Reduction::amax) job.kind = Reduction::any;
  if (in.dtype == Dtype::b8 && kind == Reduction::amin) job.kind = Reduction::all;
  job.body = [&](const Indices& index) {
    const ExprId e = l.element(self, index);
    if (to_bool) return l.exprs().cast(Dtype::b8, e);
    // bool orders as 0 < 1; a mask is 0 and -1.
    return is_arg(kind) && in.dtype == Dtype::b8 ? l.exprs().cast(Dtype::i32, e) : e;
  };

  const Dims cut = pieces(job);
  if (ir::product(cut) > 1) {
    add_in_pieces(l, job, cut);
  } else {
    add(l, job);
  }
  return true;
}

bool scan(Lowering& l, const ir::Node& n) {
  const ir::ValueId self = tensor(n, "self"), out = result(n);
  const ir::Type type = l.type(out);
  const int64_t rank = type.dim();
  const int64_t dim = integer(n, "dim");
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
