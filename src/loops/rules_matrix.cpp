// Matrix products.
#include "loops/lowering.h"

namespace precast::loops {

namespace {

using ir::Dtype;

bool matmul(Lowering& l, const ir::Node& n) {
  const ir::ValueId a = tensor(n, "self"), b = tensor(n, "mat2"), out = result(n);
  const ir::Type type = l.type(out), left = l.type(a);
  if (!ir::is_float(type.dtype)) return l.refuse("integer matrix product");
  if (left.dtype != type.dtype || l.type(b).dtype != type.dtype) return l.refuse("operands of different dtypes");
  const bool batched = type.dim() == 3;
  const int64_t depth = left.sizes.back();
  const BufferId c = l.make_buffer(out);
  Step s;
  s.kind = Step::Kind::matmul;
  s.what = batched ? "bmm" : "mm";
  s.buffer = c, s.dtype = type.dtype;
  std::vector<int64_t> sizes = type.sizes, order;
  sizes.push_back(depth);
  for (size_t d = 0; d < sizes.size(); ++d) order.push_back(static_cast<int64_t>(sizes.size() - d));
  std::vector<bool> reduced(sizes.size());
  reduced.back() = true;
  // Operands are read many times: they are stored first.
  const auto stored = [&](ir::ValueId v, const Indices& index) {
    const HostOperand at = l.operand(v);
    const ir::Type& t = l.type(v);
    return l.exprs().load(at.buffer, t.dtype,
                          linearize(index, t.strides) + Index(at.offset_bytes / ir::itemsize(t.dtype)));
  };
  l.add_step(std::move(s), sizes, order, reduced, [&](Step& step, const Indices& i) {
    const Index& m = i[i.size() - 3];
    const Index& column = i[i.size() - 2];
    const Index& k = i.back();
    const auto axis = [](const Index& e) { return e.is_constant() ? Atom{-1} : e.terms[0].first; };
    step.axes = {batched ? axis(i[0]) : Atom{-1}, axis(m), axis(column), axis(k)};
    step.a = stored(a, batched ? Indices{i[0], m, k} : Indices{m, k});
    step.b = stored(b, batched ? Indices{i[0], k, column} : Indices{k, column});
    step.at = linearize(batched ? Indices{i[0], m, column} : Indices{m, column}, type.strides);
  });
  return true;
}

}  // namespace

void add_matrix_rules(Rules& rules) {
  rules["aten::mm"] = matmul;
  rules["aten::bmm"] = matmul;
}

}  // namespace precast::loops
