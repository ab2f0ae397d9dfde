// Elements in another order or a larger frame: shuffles, turns, columns of images, diagonals.
#include <algorithm>

#include "passes/rules.h"
#include "passes/windows.h"

namespace precast::passes {
namespace {

using ir::Dtype;

// [..., C * r * r, H, W] -> [..., C, H * r, W * r].
void pixel_shuffle(Op& op) {
  Val x = op.val("self");
  int64_t r = op.integer("upscale_factor"), rank = x.dim();
  if (rank < 3 || x.numel() == 0) decline("not an image");
  int64_t h = x.size(rank - 2), w = x.size(rank - 1), c = x.size(rank - 3) / (r * r),
          n = x.numel() / (c * r * r * h * w);
  Val parts = permute(reshape(x, {n, c, r, r, h, w}), {0, 1, 4, 2, 5, 3});
  Dims sizes(x.sizes().begin(), x.sizes().end() - 3);
  sizes.insert(sizes.end(), {c, h * r, w * r});
  op.result(0, reshape(parts, sizes));
}
void pixel_unshuffle(Op& op) {
  Val x = op.val("self");
  int64_t r = op.integer("downscale_factor"), rank = x.dim();
  if (rank < 3 || x.numel() == 0) decline("not an image");
  int64_t h = x.size(rank - 2) / r, w = x.size(rank - 1) / r, c = x.size(rank - 3), n = x.numel() / (c * r * r * h * w);
  Val parts = permute(reshape(x, {n, c, h, r, w, r}), {0, 1, 3, 5, 2, 4});
  Dims sizes(x.sizes().begin(), x.sizes().end() - 3);
  sizes.insert(sizes.end(), {c * r * r, h, w});
  op.result(0, reshape(parts, sizes));
}

void channel_shuffle(Op& op) {
  Val x = op.val("self");
  int64_t groups = op.integer("groups");
  if (x.dim() < 3 || x.numel() == 0) decline("no channels");
  int64_t n = x.size(0), c = x.size(1), rest = x.numel() / (n * c);
  op.result(0, reshape(transpose(reshape(x, {n, groups, c / groups, rest}), 1, 2), x.sizes()));
}

void rot90(Op& op) {
  Val x = op.val("self");
  Dims dims = op.ints("dims");
  for (Size& d : dims) d = wrap_dim(d, x.dim());
  switch ((op.integer("k") % 4 + 4) % 4) {
    case 1:
      return op.result(0, transpose(flip(x, Dims{dims[1]}), dims[0], dims[1]));
    case 2:
      return op.result(0, flip(x, dims));
    case 3:
      return op.result(0, transpose(flip(x, Dims{dims[0]}), dims[0], dims[1]));
    default:
      return op.result(0, contiguous(x));
  }
}

// ---- columns: what lies under each place of a window

struct Columns {
  Dims size, dilation, padding, stride;
};
Columns columns(Op& op) {
  auto two = [&](const char* arg) { return for_each_dim(op.ints(arg), 2); };
  return {two("kernel_size"), two("dilation"), two("padding"), two("stride")};
}
int64_t places(int64_t n, const Columns& c, size_t d) {
  return (n + 2 * c.padding[d] - c.dilation[d] * (c.size[d] - 1) - 1) / c.stride[d] + 1;
}
// The window [N, C, size, size, places, places] of an image with its border.
Val under(Val bordered, const Columns& c, int64_t h, int64_t w) {
  ir::Type t = bordered.type();
  const Dims& s = t.strides;
  t.sizes = {t.sizes[0], t.sizes[1], c.size[0], c.size[1], h, w};
  t.strides = {s[0], s[1], c.dilation[0] * s[2], c.dilation[1] * s[3], c.stride[0] * s[2], c.stride[1] * s[3]};
  return bordered.b->view(bordered, t);
}
void im2col(Op& op) {
  Val x = op.val("self");
  bool batched = x.dim() == 4;
  if (!batched) x = unsqueeze(x, 0);
  if (x.dim() != 4 || x.numel() == 0) decline("not an image");
  Columns c = columns(op);
  int64_t h = places(x.size(2), c, 0), w = places(x.size(3), c, 1);
  Val framed = in_order(pad(x, {c.padding[1], c.padding[1], c.padding[0], c.padding[0]}, 0));
  Val made = reshape(under(framed, c, h, w), {x.size(0), x.size(1) * c.size[0] * c.size[1], h * w});
  op.result(0, batched ? made : squeeze(made, 0));
}
// Each tap is added where it came from, and half types are rounded after each.
void col2im(Op& op) {
  Val x = op.val("self");
  bool batched = x.dim() == 3;
  if (!batched) x = unsqueeze(x, 0);
  if (x.dim() != 3 || x.numel() == 0) decline("no columns");
  Columns c = columns(op);
  Dims out = op.ints("output_size");
  int64_t n = x.size(0), channels = x.size(1) / (c.size[0] * c.size[1]);
  int64_t h = places(out[0], c, 0), w = places(out[1], c, 1);
  Val parts = reshape(x, {n, channels, c.size[0], c.size[1], h, w});
  Dtype d = x.dtype();
  Val all = op.b.full({n, channels, out[0] + 2 * c.padding[0], out[1] + 2 * c.padding[1]}, 0, d);
  for (int64_t i = 0; i < c.size[0]; ++i)
    for (int64_t j = 0; j < c.size[1]; ++j) {
      Val tap = select(select(parts, 2, i), 2, j);
      Val window = slice(slice(all, 2, i * c.dilation[0], h, c.stride[0]), 3, j * c.dilation[1], w, c.stride[1]);
      int64_t row = all.size(3), offset = i * c.dilation[0] * row + j * c.dilation[1];
      all = scatter_window(all, in_order(window + tap), offset * ir::itemsize(d),
                           {channels * all.size(2) * row, all.size(2) * row, c.stride[0] * row, c.stride[1]});
    }
  Val inside = slice(slice(all, 2, c.padding[0], out[0]), 3, c.padding[1], out[1]);
  op.result(0, batched ? inside : squeeze(inside, 0));
}

// ---- diagonals

Val diagonal_of(Val x) {  // of a matrix
  int64_t n = std::min(x.size(0), x.size(1));
  ir::Type t{.dtype = x.dtype(), .sizes = {n}, .strides = {x.type().strides[0] + x.type().strides[1]}};
  return x.b->view(x, t);
}
void trace(Op& op) {
  Val x = op.val("self");
  if (x.dim() != 2 || x.numel() == 0 || x.dtype() == Dtype::b8) decline("not a matrix of numbers");
  op.result(0, cast(sum(cast(diagonal_of(x), compute_dtype(x.dtype())), {0}, false),
                    ir::is_float(x.dtype()) ? x.dtype() : Dtype::i64));
}
void diag_embed(Op& op) {
  Val x = op.val("self");
  int64_t rank = x.dim() + 1, offset = op.integer("offset"), n = x.sizes().back();
  int64_t d1 = wrap_dim(op.integer("dim1"), rank), d2 = wrap_dim(op.integer("dim2"), rank);
  int64_t side = n + std::abs(offset);
  Val row = reshape(op.b.arange(side), {side, 1}), column = reshape(op.b.arange(side), {1, side});
  Val at = pad(x, x.dim() - 1, std::max<int64_t>(-offset, 0), std::max<int64_t>(offset, 0), 0);  // by row
  Val square = where(binary("eq.Tensor", column - row, op.b.full({}, offset, Dtype::i64)), unsqueeze(at, x.dim()), 0);
  Dims order;  // rows and columns are the last dims of `square`
  for (int64_t d = 0, next = 0; d < rank; ++d) order.push_back(d == d1 ? rank - 2 : d == d2 ? rank - 1 : next++);
  op.result(0, permute(square, order));
}

constexpr Row kRows[] = {
    {"aten::pixel_shuffle", pixel_shuffle},
    {"aten::pixel_unshuffle", pixel_unshuffle},
    {"aten::native_channel_shuffle", channel_shuffle},
    {"aten::channel_shuffle", channel_shuffle},
    {"aten::rot90", rot90},
    {"aten::im2col", im2col},
    {"aten::col2im", col2im},
    {"aten::trace", trace},
    {"aten::diag_embed", diag_embed},
};

}  // namespace

std::span<const Row> rearrange_rules() { return kRows; }

}  // namespace precast::passes
