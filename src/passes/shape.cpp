// Copies and rearrangements.
#include <algorithm>

#include "passes/rules.h"

namespace precast::passes {
namespace {

using ir::Dtype;
using ir::Ref;

// ---- copies

std::optional<Dims> copy_strides(Op& op, Val x) {
  constexpr int64_t kPreserve = 1;
  return format_strides(x.type(), op.given("memory_format") ? op.integer("memory_format") : kPreserve);
}
void clone(Op& op) {
  Val x = op.val("self");
  auto strides = copy_strides(op, x);
  if (!strides) decline("an unknown memory format");
  op.result(0, copy(x, *strides));
}
void to_copy(Op& op) {
  Val x = op.val("self");
  Dtype d = op.dtype("dtype").value_or(x.dtype());
  auto strides = copy_strides(op, x);
  if (!strides) decline("an unknown memory format");
  if (d == x.dtype()) return op.result(0, copy(x, *strides));
  op.result(0, cast(x, d));
}
// self.copy_(src): src in self's dtype and size.
void copy_rule(Op& op) {
  Val x = op.val("self");
  op.result(0, expand(op.as("src", x.dtype()), x.sizes()));
}
void fill(Op& op) {
  Val x = op.val("self");
  op.result(0, op.is_number("value") ? op.b.full(x.sizes(), op.number("value"), x.dtype())
                                     : expand(cast(op.val("value"), x.dtype()), x.sizes()));
}
void zero(Op& op) { op.result(0, op.b.full(op.val("self").sizes(), 0, op.val("self").dtype())); }

// ---- rearrangements

bool is_legacy_empty(Val x) { return x.dim() == 1 && x.size(0) == 0; }  // cat skips it whatever its rank

void cat_rule(Op& op) {
  std::vector<Val> parts = op.vals("tensors");
  Promotion p;
  for (Val v : parts) p.add(v.type());
  std::erase_if(parts, is_legacy_empty);
  if (parts.empty()) decline("nothing to join");
  for (Val& v : parts) {
    if (v.dim() != parts[0].dim()) decline("parts of different rank");
    v = cast(v, p.result());
  }
  int64_t d = wrap_dim(op.integer("dim"), parts[0].dim());
  op.result(0, parts.size() == 1 ? parts[0] : cat(parts, d));
}
void stack(Op& op) {
  std::vector<Val> parts = op.vals("tensors");
  Promotion p;
  for (Val v : parts) p.add(v.type());
  int64_t d = wrap_dim(op.integer("dim"), parts.at(0).dim() + 1);
  for (Val& v : parts) v = unsqueeze(cast(v, p.result()), d);
  op.result(0, parts.size() == 1 ? parts[0] : cat(parts, d));
}

void constant_pad(Op& op) { op.result(0, pad(op.val("self"), op.ints("pad"), op.number("value"))); }
void flip_rule(Op& op) {
  Val x = op.val("self");
  Dims dims = op.ints("dims");
  for (Size& d : dims) d = wrap_dim(d, x.dim());
  op.result(0, flip(x, dims));
}
void roll(Op& op) {
  Val x = op.val("self");
  Dims shifts = op.ints("shifts"), dims = op.ints("dims");
  if (x.numel() == 0) return op.result(0, x);
  Dims sizes = x.sizes();
  if (dims.empty()) {  // over the elements in their order
    if (shifts.size() != 1) decline("one shift is expected");
    x = reshape(x, {x.numel()});
    dims = {0};
  }
  for (Size& d : dims) d = wrap_dim(d, x.dim());
  Val r = op.b.emit("aten::roll", {{"self", Ref{x.id}}, {"shifts", shifts}, {"dims", dims}},
                    ir::contiguous(x.dtype(), x.sizes()));
  op.result(0, reshape(r, sizes));
}
void repeat(Op& op) {
  Val x = op.val("self");
  Dims repeats = op.ints("repeats"), sizes(repeats);
  for (size_t i = 0; i < x.sizes().size(); ++i) sizes.at(repeats.size() - x.sizes().size() + i) *= x.sizes()[i];
  op.result(0,
            op.b.emit("aten::repeat", {{"self", Ref{x.id}}, {"repeats", repeats}}, ir::contiguous(x.dtype(), sizes)));
}

// The last two dims by column - row against the diagonal.
void triangle(Op& op, std::string_view keep) {
  Val x = op.val("self");
  if (x.dim() < 2) decline("not a matrix");
  Size rows = x.size(x.dim() - 2), columns = x.size(x.dim() - 1);
  Val distance = reshape(op.b.arange(columns), {1, columns}) - reshape(op.b.arange(rows), {rows, 1});
  op.result(0, where(binary_number(keep, distance, op.size("diagonal")), x, 0));
}
void tril(Op& op) { triangle(op, "le.Scalar"); }
void triu(Op& op) { triangle(op, "ge.Scalar"); }

constexpr Row kRows[] = {
    {"aten::clone", clone},      {"aten::_to_copy", to_copy}, {"aten::copy", copy_rule},
    {"aten::fill.Scalar", fill}, {"aten::fill.Tensor", fill}, {"aten::zero", zero},
    {"aten::cat", cat_rule},     {"aten::stack", stack},      {"aten::constant_pad_nd", constant_pad},
    {"aten::flip", flip_rule},   {"aten::roll", roll},        {"aten::repeat", repeat},
    {"aten::tril", tril},        {"aten::triu", triu},
};

}  // namespace

std::span<const Row> shape_rules() { return kRows; }

}  // namespace precast::passes
