// Matrix products: everything becomes mm or bmm, with scaling and sum as ordinary pointwise nodes.
#include <algorithm>

#include "passes/rules.h"

namespace precast::passes {
namespace {

using ir::Dtype;

Val one_dtype(Val x, Val y) {
  if (x.dtype() != y.dtype() || x.dtype() == Dtype::b8) decline("operands are not of one dtype, or bools");
  return x;
}

// beta * self + alpha * product; half types sum in f32 and round once. beta = 0 does not read self.
Val accumulate(Op& op, Val product) {
  Val self = op.val("self");
  const auto factor = [&](const char* arg) {
    if (!op.given(arg)) return Number(1);
    Number n = op.number(arg);
    return n.is_double() && !ir::is_float(product.dtype()) ? Number(static_cast<int64_t>(n.real())) : n;
  };
  Number alpha = factor("alpha"), beta = factor("beta");
  if (!(alpha == 1.0)) product = product * alpha;
  if (beta == 0.0) return product;
  self = cast(self, product.dtype());
  return product + (beta == 1.0 ? self : self * beta);
}

Val computed(Val v) { return cast(v, compute_dtype(v.dtype())); }

Val product(Val x, Val y) {
  if (!ir::is_float(x.dtype())) return einsum(x.dim() == 3 ? "bmk,bkn->bmn" : "mk,kn->mn", x, y);
  return x.dim() == 3 ? bmm(x, y) : mm(x, y);
}

void mm_rule(Op& op) {
  Val x = one_dtype(op.val("self"), op.val("mat2"));
  op.result(0, product(x, op.val("mat2")));
}
void bmm_rule(Op& op) {
  Val x = one_dtype(op.val("self"), op.val("mat2"));
  op.result(0, product(x, op.val("mat2")));
}
template <Val multiply(Val, Val)>
void add_product(Op& op, const char* left, const char* right) {
  Val x = one_dtype(op.val(left), op.val(right));
  op.result(0, cast(accumulate(op, multiply(computed(x), computed(op.val(right)))), x.dtype()));
}
void addmm(Op& op) { add_product<product>(op, "mat1", "mat2"); }
void baddbmm(Op& op) { add_product<product>(op, "batch1", "batch2"); }

Val matrix_vector(Val m, Val v) { return squeeze(product(m, unsqueeze(v, 1)), 1); }
void mv(Op& op) {
  Val m = one_dtype(op.val("self"), op.val("vec"));
  op.result(0, matrix_vector(m, op.val("vec")));
}
void addmv(Op& op) { add_product<matrix_vector>(op, "mat", "vec"); }
Val outer(Val x, Val y) { return unsqueeze(x, 1) * unsqueeze(y, 0); }
void addr(Op& op) {
  Val x = op.val("vec1"), y = op.val("vec2"), self = op.val("self");
  if (x.dtype() != Dtype::b8) return add_product<outer>(op, "vec1", "vec2");
  const auto counts = [&](const char* arg, Val v) {
    return op.number(arg) == 0.0 ? op.b.full({}, false, Dtype::b8) : v;
  };
  op.result(0, logical_or(counts("beta", self), counts("alpha", outer(x, y))));
}

Val batches_summed(Val x, Val y) { return cast(sum(product(x, y), {0}, false), x.dtype()); }
void addbmm(Op& op) { add_product<batches_summed>(op, "batch1", "batch2"); }

void dot(Op& op, const char* other) {
  Val x = one_dtype(op.val("self"), op.val(other));
  op.result(0, cast(sum(computed(x) * computed(op.val(other)), {0}, false), x.dtype()));
}
void dot_rule(Op& op) { dot(op, "tensor"); }
void vdot(Op& op) { dot(op, "other"); }

void linear(Op& op) {
  Val x = one_dtype(op.val("input"), op.val("weight")), w = op.val("weight"), bias = op.optional("bias");
  if (x.dim() < 1 || w.dim() != 2) decline("not a matrix");
  if (bias) one_dtype(x, bias);
  Dims sizes = x.sizes();
  int64_t k = sizes.back();
  sizes.back() = w.size(0);
  int64_t rows = 1;
  for (size_t i = 0; i + 1 < sizes.size(); ++i) rows *= sizes[i];
  Val y = product(computed(reshape(x, {rows, k})), computed(transpose(w, 0, 1)));
  if (bias) y = y + computed(bias);
  op.result(0, cast(reshape(y, sizes), x.dtype()));
}

void einsum_rule(Op& op) {
  std::vector<Val> operands = op.vals("tensors");
  if (operands.size() != 2 || operands[0].dtype() != operands[1].dtype()) decline("not two operands of one dtype");
  if (operands[0].dtype() == Dtype::b8) decline("operands are bools");
  op.result(0, einsum(op.text("equation"), operands[0], operands[1]));
}

// The sum of a product of three over some dims. Each operand lacks the dims that it is expanded along.
void trilinear(Op& op) {
  Val operands[3] = {op.val("i1"), op.val("i2"), op.val("i3")};
  const Dtype d = operands[0].dtype();
  const Dims summed = op.ints("sumdim");
  std::string letters[3], all;
  const Dims expanded[3] = {op.ints("expand1"), op.ints("expand2"), op.ints("expand3")};
  const auto rank = static_cast<int64_t>(operands[0].sizes().size() + expanded[0].size());
  for (int64_t i = 0; i < rank; ++i) all += static_cast<char>('a' + i);
  const auto has = [](const std::string& s, char c) { return s.find(c) != s.npos; };
  const auto lists = [](const Dims& dims, char c) { return std::ranges::find(dims, Size(c - 'a')) != dims.end(); };
  for (int k = 0; k < 3; ++k) {
    if (operands[k].dtype() != d || !ir::is_float(d) || operands[k].numel() == 0) decline("not floats of one dtype");
    operands[k] = computed(operands[k]);
    for (char c : all)
      if (!lists(expanded[k], c)) letters[k] += c;
    if (letters[k].size() != operands[k].sizes().size()) decline("dims of another number");
  }
  // A dim of one element stretches; one that a single operand has is summed there.
  for (int k = 0; k < 3; ++k)
    for (size_t i = letters[k].size(); i-- > 0;) {
      const char c = letters[k][i];
      const bool alone = !has(letters[(k + 1) % 3], c) && !has(letters[(k + 2) % 3], c);
      if (alone && lists(summed, c)) {
        operands[k] = sum(operands[k], {static_cast<int64_t>(i)}, false);
        letters[k].erase(i, 1);
      }
    }
  std::string result;
  for (char c : all)
    if (!lists(summed, c)) result += c;
  const auto product = [&](Val x, const std::string& left, Val y, const std::string& right, const std::string& to) {
    for (size_t i = 0; i < left.size(); ++i)
      if (const size_t j = right.find(left[i]); j != right.npos && x.sizes()[i] != y.sizes()[j])
        decline("sizes that broadcast");
    return einsum(left + "," + right + "->" + to, x, y);
  };
  std::string between;
  for (char c : all)
    if ((has(letters[0], c) || has(letters[1], c)) && (has(letters[2], c) || has(result, c))) between += c;
  Val half = product(operands[0], letters[0], operands[1], letters[1], between);
  // Half types are rounded after each product, and along the unrolled dim where it is summed.
  if (compute_dtype(d) != d && lists(summed, static_cast<char>('a' + op.integer("unroll_dim"))))
    decline("half types are rounded along a sum");
  half = computed(cast(half, d));
  op.result(0, cast(product(half, between, operands[2], letters[2], result), d));
}

// The outer products of the other two components.
void cross(Op& op) {
  Val x = op.val("self"), y = op.val("other");
  if (x.dtype() != y.dtype() || x.dtype() == Dtype::b8) decline("operands are not of one dtype, or bools");
  const auto sizes = broadcast_sizes({&x.type(), &y.type()});
  if (!sizes) decline("operands do not broadcast");
  x = expand(x, *sizes), y = expand(y, *sizes);
  const int64_t d = wrap_dim(op.integer("dim"), x.dim());
  std::vector<Val> parts;
  for (int64_t i = 0; i < 3; ++i) {
    const auto term = [&](int64_t a, int64_t b) { return select(x, d, (i + a) % 3) * select(y, d, (i + b) % 3); };
    parts.push_back(unsqueeze(term(1, 2) - term(2, 1), d));
  }
  op.result(0, cat(parts, d));
}

// [time, batch, in] with [taps, in, out]: a product a tap.
void conv_tbc(Op& op) {
  Val x = op.val("self"), w = op.val("weight"), bias = op.val("bias");
  const int64_t border = op.integer("pad"), batch = x.size(1), in = x.size(2), out = w.size(2), taps = w.size(0);
  const Dtype d = x.dtype();
  if ((d != Dtype::f32 && d != Dtype::f64) || w.dtype() != d || bias.dtype() != d) decline("not of f32 or f64");
  if (x.numel() == 0 || w.numel() == 0) decline("nothing to sum");
  const int64_t length = x.size(0) + 2 * border - taps + 1;
  Val framed = contiguous(pad(x, 0, border, border, 0)), total = bias;
  for (int64_t t = 0; t < taps; ++t) {
    Val rows = reshape(slice(framed, 0, t, length), {length * batch, in});
    total = total + mm(rows, select(w, 0, t));
  }
  op.result(0, reshape(total, {length, batch, out}));
}

void addmm_activation(Op& op) {
  std::vector<ir::Arg> args;
  for (const ir::Arg& a : op.args())
    if (a.name != "use_gelu") args.push_back(a);
  Val y = op.apply("aten::addmm", std::move(args));
  const bool gelu = op.flag("use_gelu");
  op.result(0, gelu ? op.apply("aten::gelu", {{"self", ir::Ref{y.id}}, {"approximate", std::string("none")}})
                    : unary("relu", y));
}

// Bytes, summed in 32 bits.
void int_mm(Op& op) {
  const auto wide = [&](const char* arg) { return cast(op.val(arg), Dtype::i32); };
  op.result(0, product(wide("self"), wide("mat2")));
}

// Matrices one after the other along a diagonal, with zeros around.
void block_diag(Op& op) {
  Promotion p;
  std::vector<Val> blocks = op.vals("tensors");
  for (Val v : blocks) p.add(v.type());
  int64_t columns = 0, before = 0;
  for (Val& v : blocks) {
    v = cast(v, p.result());
    if (v.dim() > 2) decline("a block of more dims");
    v = reshape(v, {v.dim() == 2 ? v.size(0) : Size(1), v.dim() == 0 ? Size(1) : v.sizes().back()});
    columns += v.size(1);
  }
  for (Val& v : blocks) {
    const int64_t own = v.size(1);
    v = pad(v, 1, before, columns - before - own, 0);
    before += own;
  }
  op.result(0, blocks.size() == 1 ? blocks[0] : cat(blocks, 0));
}

constexpr Row kRows[] = {
    {"aten::_trilinear", trilinear},
    {"aten::linalg_cross", cross},
    {"aten::conv_tbc", conv_tbc},
    {"aten::_addmm_activation", addmm_activation},
    {"aten::_int_mm", int_mm},
    {"aten::block_diag", block_diag},
    {"aten::mm", mm_rule},
    {"aten::bmm", bmm_rule},
    {"aten::addmm", addmm},
    {"aten::baddbmm", baddbmm},
    {"aten::mv", mv},
    {"aten::addmv", addmv},
    {"aten::addr", addr},
    {"aten::addbmm", addbmm},
    {"aten::dot", dot_rule},
    {"aten::vdot", vdot},
    {"aten::linear", linear},
    {"aten::einsum", einsum_rule},
};

}  // namespace

std::span<const Row> matrix_rules() { return kRows; }

}  // namespace precast::passes
