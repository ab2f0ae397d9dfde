// Reductions and scans.
#include <algorithm>

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
std::vector<bool> reduced_dims(const std::vector<int64_t>& dims, int64_t rank) {
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
  std::vector<int64_t> sizes, strides;
  std::vector<bool> reduced;
  bool keepdim;
  BufferId out;
  Dtype dtype;
  std::vector<int64_t> out_strides;
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

/// How many pieces to cut the outermost reduced dim in, so that threads share a long reduction to few results.
int64_t pieces(const Job& job, size_t dim) {
  int64_t results = 1, terms = 1;
  for (size_t d = 0; d < job.sizes.size(); ++d) (job.reduced[d] ? terms : results) *= job.sizes[d];
  if (is_arg(job.kind) || results >= 32 || results * terms < 65536) return 1;
  const int64_t most = std::min({int64_t{256} / results, terms / 2048, job.sizes[dim]});
  for (int64_t p = most; p > 3; --p)
    if (job.sizes[dim] % p == 0) return p;
  return 1;
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

  size_t outermost = job.sizes.size();
  for (size_t d = 0; d < job.sizes.size(); ++d)
    if (job.reduced[d] && job.sizes[d] > 1 &&
        (outermost == job.sizes.size() || job.strides[d] > job.strides[outermost]))
      outermost = d;
  const int64_t parts = outermost < job.sizes.size() ? pieces(job, outermost) : 1;
  if (parts == 1) return add(l, job), true;

  // First each piece, not rounded to f16 or bf16; then the pieces.
  const Dtype wide = type.dtype == Dtype::f16 || type.dtype == Dtype::bf16 ? Dtype::f32 : type.dtype;
  const int64_t length = job.sizes[outermost] / parts;
  Job first = job;
  const auto at = [&](auto& v) { return v.begin() + static_cast<std::ptrdiff_t>(outermost); };
  first.sizes[outermost] = length;
  first.sizes.insert(at(first.sizes), parts);
  first.strides.insert(at(first.strides), job.strides[outermost] * length);
  first.reduced.insert(at(first.reduced), false);
  first.keepdim = true;
  first.dtype = wide;
  Job second = job;
  second.sizes.clear(), second.reduced.clear();
  for (size_t d = 0; d < first.sizes.size(); ++d) {
    if (first.reduced[d]) {
      second.sizes.push_back(1);
    } else {
      second.sizes.push_back(first.sizes[d]);
    }
    second.reduced.push_back(d == outermost || first.reduced[d]);
  }
  const ir::Type partial = ir::contiguous(wide, second.sizes);
  first.out = l.new_buffer(partial), first.out_strides = partial.strides;
  first.body = [&](const Indices& index) {
    Indices whole = index;
    whole[outermost + 1] = index[outermost] * length + index[outermost + 1];
    whole.erase(at(whole));
    return l.exprs().cast(wide, job.body(whole));
  };
  add(l, first);
  // The piece dim is one more than the operand had: it is no part of the result.
  second.strides = partial.strides;
  second.keepdim = false;
  second.out_strides.clear();
  for (size_t d = 0, o = 0; d < job.sizes.size(); ++d) {
    if (!job.reduced[d]) second.out_strides.push_back(job.out_strides[o]);
    if (!job.reduced[d] || job.keepdim) ++o;
  }
  // Rounded once, when the result is stored.
  second.body = [&](const Indices& index) {
    return l.exprs().load(first.out, wide, linearize(index, partial.strides));
  };
  add(l, second);
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
