// Sorting, selecting, searching, and scans that compare: the dim moves to the end, and rows lie in order.
#include <cmath>

#include "passes/rules.h"

namespace precast::passes {
namespace {

using ir::Arg;
using ir::Dtype;
using ir::Ref;

struct Rows {
  Val x;           // the dim is the last one
  int64_t d, end;  // where it was, where it is
  bool number;     // a 0-dim operand
};
Rows rows_of(Op& op) {
  Val x = op.val("self");
  if (x.numel() == 0) decline("rows of nothing");
  bool number = x.dim() == 0;
  int64_t d = wrap_dim(op.integer("dim"), x.dim());
  if (number) x = reshape(x, {1});
  return {in_order(transpose(x, d, x.dim() - 1)), d, x.dim() - 1, number};
}
// A result whose last dim belongs at d.
Val back(const Rows& r, Val v) { return r.number ? reshape(v, {}) : transpose(v, r.d, r.end); }

// Values and indices, each with its rows back at d.
void give(Op& op, const Rows& r, const std::vector<Val>& v) {
  for (size_t i = 0; i < v.size(); ++i) op.result(i, back(r, v[i]));
}

// Values and indices of `length` along the dim.
std::vector<Val> ordered(Op& op, std::string name, const Rows& r, std::vector<Arg> args, Dims sizes) {
  args.insert(args.begin(), {"self", Ref{r.x.id}});
  return op.b.emit_all(std::move(name), std::move(args),
                       {ir::contiguous(r.x.dtype(), sizes), ir::contiguous(Dtype::i64, sizes)});
}

void sort(Op& op) {
  Rows r = rows_of(op);
  bool stable = op.given("stable") && op.flag("stable");
  auto v = ordered(op, "aten::sort.stable", r,
                   {{"stable", stable}, {"dim", r.end}, {"descending", op.flag("descending")}}, r.x.sizes());
  give(op, r, v);
}

void topk(Op& op) {
  Rows r = rows_of(op);
  int64_t k = op.integer("k");
  if (k <= 0 || k > r.x.size(r.end)) decline("as many as none or more than all");
  Dims sizes = r.x.sizes();
  sizes.back() = k;
  auto v = ordered(op, "aten::topk", r,
                   {{"k", k}, {"dim", r.end}, {"largest", op.flag("largest")}, {"sorted", op.flag("sorted")}}, sizes);
  give(op, r, v);
}

// One element of each row.
void choose(Op& op, std::string name, std::vector<Arg> args) {
  Rows r = rows_of(op);
  bool keep = op.flag("keepdim") && !r.number;
  // The dim that is reduced goes, or stays last with one element.
  Dims sizes = r.x.sizes();
  sizes.back() = 1;
  args.push_back({"dim", r.end});
  args.push_back({"keepdim", true});
  auto v = ordered(op, std::move(name), r, std::move(args), sizes);
  for (size_t i = 0; i < 2; ++i) {
    Val at_d = back(r, v[i]);
    op.result(i, keep || r.number ? at_d : squeeze(at_d, r.d));
  }
}
void kthvalue(Op& op) { choose(op, "aten::kthvalue", {{"k", op.integer("k")}}); }
void median_dim(Op& op) { choose(op, "aten::median.dim", {}); }
void nanmedian_dim(Op& op) { choose(op, "aten::nanmedian.dim", {}); }
void mode(Op& op) { choose(op, "aten::mode", {}); }
// Of all elements.
void of_all(Op& op, std::string name) {
  Val x = op.val("self");
  // Of nothing it is NaN, which a row of an open size may turn out to be.
  if (x.numel().lower() < 1 || x.dtype() == Dtype::b8) decline("a median of nothing or of bools");
  Rows r{in_order(reshape(x, {x.numel()})), 0, 0, false};
  op.result(0, ordered(op, std::move(name), r, {{"dim", int64_t{0}}, {"keepdim", false}}, {})[0]);
}
void median(Op& op) { of_all(op, "aten::median.dim"); }
void nanmedian(Op& op) { of_all(op, "aten::nanmedian.dim"); }

void cumulative(Op& op, std::string name) {
  Rows r = rows_of(op);
  auto v = ordered(op, std::move(name), r, {{"dim", r.end}}, r.x.sizes());
  give(op, r, v);
}
void cummax(Op& op) { cumulative(op, "aten::cummax"); }
void cummin(Op& op) { cumulative(op, "aten::cummin"); }

void logcumsumexp(Op& op) {
  Rows r = rows_of(op);
  if (!ir::is_float(r.x.dtype())) decline("not defined for integers");
  op.result(0, back(r, op.b.emit("aten::logcumsumexp", {{"self", Ref{r.x.id}}, {"dim", r.end}},
                                 ir::contiguous(r.x.dtype(), r.x.sizes()))));
}

// ---- search

// Both in order, and of one dtype.
Val searched(Op& op, Val sequence, Val values, bool right, bool small) {
  return op.b.emit("aten::searchsorted.Tensor",
                   {{"sorted_sequence", Ref{sequence.id}},
                    {"self", Ref{values.id}},
                    {"out_int32", small},
                    {"right", right},
                    {"side", {}},
                    {"sorter", {}}},
                   ir::contiguous(small ? Dtype::i32 : Dtype::i64, values.sizes()));
}
Val ordered_keys(Op& op, Val x) {
  return ordered(op, "aten::sort.stable", {x, 0, 0, false},
                 {{"stable", false}, {"dim", int64_t{0}}, {"descending", false}}, x.sizes())[0];
}
void search(Op& op, const char* sequence_arg, const char* values_arg) {
  Promotion p;
  p.add(op.val(sequence_arg).type());
  if (op.is_number(values_arg))
    p.add(op.number(values_arg));
  else
    p.add(op.val(values_arg).type());
  Val sequence = in_order(cast(op.val(sequence_arg), p.result())), values = in_order(op.as(values_arg, p.result()));
  if (sequence.dim() == 0 || sequence.numel() == 0 || values.numel() == 0 || sequence.dtype() == Dtype::b8)
    decline("a search in nothing, for nothing or among bools");
  if (Val sorter = op.optional("sorter")) sequence = gather(sequence, sequence.dim() - 1, sorter);
  bool right = op.flag("right") || (op.given("side") && op.text("side") == "right");
  op.result(0, searched(op, sequence, values, right, op.flag("out_int32")));
}
void searchsorted(Op& op) { search(op, "sorted_sequence", "self"); }
void bucketize(Op& op) { search(op, "boundaries", "self"); }

// Whether an element is among others; NaN is among none.
void isin(Op& op) {
  const char *of = op.find("elements") ? "elements" : "element",
             *in = op.find("test_elements") ? "test_elements" : "test_element";
  Dtype d = op.common_dtype({of, in});
  Val x = op.as(of, d), y = op.as(in, d);
  if (y.numel() == 0 || x.numel() == 0) decline("among nothing");
  if (d == Dtype::b8) x = cast(x, Dtype::u8), y = cast(y, Dtype::u8);
  constexpr int64_t kFew = 32;
  Val found;
  y = reshape(y, {y.numel()});
  if (y.numel() <= kFew) {
    found = reduce("any.dims", binary("eq.Tensor", unsqueeze(x, x.dim()), y), {x.dim()}, false, Dtype::b8);
  } else {
    Val sorted = ordered_keys(op, in_order(y)), flat = in_order(reshape(x, {x.numel()}));
    Val place = at_most(searched(op, sorted, flat, false, false), y.numel() - 1);
    found = reshape(binary("eq.Tensor", index_select(sorted, 0, place), flat), x.sizes());
  }
  op.result(0, op.flag("invert") ? logical_not(found) : found);
}

// How many elements lie in each of equal parts of a range; the last one has its end. Without a range, from the least to
// the largest.
void histc(Op& op) {
  Val x = op.val("self");
  const Dtype d = x.dtype();
  if ((d != Dtype::f32 && d != Dtype::f64) || x.numel() == 0) decline("not of f32 or f64, or of nothing");
  const int64_t bins = op.integer("bins");
  x = reshape(x, {x.numel()});
  Val low = op.b.number(op.number("min"), d), high = op.b.number(op.number("max"), d);
  if (op.real("min") == op.real("max")) {
    low = reduce("amin", x, {0}, false, d), high = reduce("amax", x, {0}, false, d);
    Val finite = logical_and(lt(abs(low), HUGE_VAL), lt(abs(high), HUGE_VAL));
    low = require(finite, "histc: the range is not finite", low);
    Val none = binary("eq.Tensor", low, high);
    low = where(none, low - 1.0, low), high = where(none, high + 1.0, high);
  }
  Val inside = logical_and(binary("ge.Tensor", x, low), binary("le.Tensor", x, high));
  Val place = at_most(cast(where(inside, x - low, 0.0) * double(bins) / (high - low), Dtype::i64), bins - 1);
  Val counts = scatter_add(op.b.full({bins}, 0, Dtype::i64), 0, place, cast(inside, Dtype::i64));
  op.result(0, cast(counts, d));
}

constexpr Row kRows[] = {
    {"aten::isin.Tensor_Tensor", isin},
    {"aten::isin.Tensor_Scalar", isin},
    {"aten::isin.Scalar_Tensor", isin},
    {"aten::histc", histc},
    {"aten::sort", sort},
    {"aten::sort.stable", sort},
    {"aten::topk", topk},
    {"aten::kthvalue", kthvalue},
    {"aten::median", median},
    {"aten::median.dim", median_dim},
    {"aten::nanmedian", nanmedian},
    {"aten::nanmedian.dim", nanmedian_dim},
    {"aten::mode", mode},
    {"aten::cummax", cummax},
    {"aten::cummin", cummin},
    {"aten::logcumsumexp", logcumsumexp},
    {"aten::_logcumsumexp", logcumsumexp},
    {"aten::searchsorted.Tensor", searchsorted},
    {"aten::searchsorted.Scalar", searchsorted},
    {"aten::bucketize.Tensor", bucketize},
    {"aten::bucketize.Scalar", bucketize},
};

}  // namespace

std::span<const Row> order_rules() { return kRows; }

}  // namespace precast::passes
