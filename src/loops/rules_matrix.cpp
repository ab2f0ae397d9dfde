// Matrix products: mm, bmm, and einsum of two operands. Convolutions arrive as einsum over windows.
#include <algorithm>
#include <map>

#include "loops/lowering.h"

namespace precast::loops {

namespace {

using ir::Dtype;

/// Each letter is a dim: in both operands and the result (batch), in one operand and the result (rows, columns), or in
/// both operands only (summed).
struct Contraction {
  ir::ValueId left, right;
  std::string left_dims, right_dims, dims;
};

bool has(const std::string& dims, char c) { return dims.find(c) != std::string::npos; }

bool contract(Lowering& l, const ir::Node& n, Contraction c) {
  const ir::ValueId out = result(n);
  const ir::Type type = l.type(out);
  if (!ir::is_float(type.dtype)) return l.refuse("integer matrix product");
  std::map<char, Size> sizes;
  const auto read = [&](ir::ValueId v, const std::string& dims) {
    const ir::Type& t = l.type(v);
    if (t.dtype != type.dtype) return l.refuse("operands of different dtypes");
    if (dims.size() != t.sizes.size()) return l.refuse("a dim without a letter");
    for (size_t d = 0; d < dims.size(); ++d) {
      if (dims.find(dims[d], d + 1) != std::string::npos) return l.refuse("a diagonal");
      if (sizes.emplace(dims[d], t.sizes[d]).first->second != t.sizes[d]) return l.refuse("operands that broadcast");
    }
    return true;
  };
  if (!read(c.left, c.left_dims) || !read(c.right, c.right_dims)) return false;
  for (const char d : c.left_dims + c.right_dims)
    if (!has(c.dims, d) && !(has(c.left_dims, d) && has(c.right_dims, d))) return l.refuse("a sum over one operand");

  // Columns are what lies side by side in the result.
  const auto stride = [&](char d) { return type.strides[c.dims.find(d)]; };
  char nearest = 0;
  for (const char d : c.dims)
    if (sizes[d].hint() > 1 && (!nearest || ir::roughly_less(stride(d), stride(nearest)))) nearest = d;
  if (nearest && !has(c.right_dims, nearest)) std::swap(c.left, c.right), std::swap(c.left_dims, c.right_dims);

  std::string letters = c.dims;
  for (const char d : c.left_dims)
    if (!has(c.dims, d)) letters += d;
  Dims extents, order;
  std::vector<bool> reduced;
  for (const char d : letters) {
    extents.push_back(sizes[d]);
    reduced.push_back(!has(c.dims, d));
    order.push_back(reduced.back() ? l.type(c.left).strides[c.left_dims.find(d)] : stride(d));
  }
  Step s;
  s.kind = Step::Kind::matmul;
  s.what = n.op.substr(6);
  s.buffer = l.make_buffer(out), s.dtype = type.dtype;
  const auto at = [&](const std::string& dims, const Indices& i) {
    Indices own;
    for (const char d : dims) own.push_back(i[letters.find(d)]);
    return own;
  };
  const auto stored = [&](ir::ValueId v, const Indices& index) {
    const HostOperand where = l.operand(v);
    const ir::Type& t = l.type(v);
    return l.exprs().load(where.buffer, t.dtype,
                          linearize(index, t.strides) + Index(where.offset_bytes / ir::itemsize(t.dtype)));
  };
  // The right operand is packed: any strides and a cast are as good as a copy in memory.
  const auto packed = [&](ir::ValueId v, const Indices& index) {
    const ExprId e = l.element(v, index);
    const auto is_load = [&](ExprId x) { return l.exprs()[x].kind == Expr::Kind::load; };
    const bool widened = l.exprs()[e].kind == Expr::Kind::cast && is_load(l.exprs()[e].args[0]) &&
                         ir::is_float(l.exprs()[l.exprs()[e].args[0]].dtype);
    return is_load(e) || widened ? e : stored(v, index);
  };
  l.add_step(std::move(s), extents, order, reduced, [&](Step& step, const Indices& i) {
    step.a = stored(c.left, at(c.left_dims, i));
    step.b = packed(c.right, at(c.right_dims, i));
    step.at = linearize(at(c.dims, i), type.strides);
    step.product = {};
    step.product.k = step.reduced;
    for (const Atom v : step.space) {
      const auto letter = std::find_if(letters.begin(), letters.end(), [&](const char& d) {
        return i[static_cast<size_t>(&d - letters.data())].coefficient(v) != 0;
      });
      const bool in_left = has(c.left_dims, *letter), in_right = has(c.right_dims, *letter);
      (in_left && in_right ? step.product.batch : in_left ? step.product.m : step.product.n).push_back(v);
    }
  });
  return true;
}

bool mm(Lowering& l, const ir::Node& n) {
  return contract(l, n, {tensor(n, "self"), tensor(n, "mat2"), "mk", "kn", "mn"});
}
bool bmm(Lowering& l, const ir::Node& n) {
  return contract(l, n, {tensor(n, "self"), tensor(n, "mat2"), "bmk", "bkn", "bmn"});
}

bool einsum(Lowering& l, const ir::Node& n) {
  const auto& operands = std::get<std::vector<ir::Ref>>(*n.find("tensors"));
  const auto& equation = std::get<std::string>(*n.find("equation"));
  const size_t comma = equation.find(','), arrow = equation.find("->");
  if (operands.size() != 2 || comma == std::string::npos || arrow == std::string::npos || has(equation, '.'))
    return l.refuse("not an equation of two operands and their result");
  return contract(l, n,
                  {operands[0].id, operands[1].id, equation.substr(0, comma),
                   equation.substr(comma + 1, arrow - comma - 1), equation.substr(arrow + 2)});
}

}  // namespace

void add_matrix_rules(Rules& rules) {
  rules["aten::mm"] = mm;
  rules["aten::bmm"] = bmm;
  rules["aten::einsum"] = einsum;
}

}  // namespace precast::loops
