// Reads and writes through index tensors. Where ATen wraps negative indices we wrap, where it raises we report.
#include "loops/lowering.h"

namespace precast::loops {

namespace {

using ir::Dtype;

std::string short_name(const ir::Node& n) { return n.op.substr(6, n.op.find('.') - 6); }

int64_t dim_of(const ir::Node& n, int64_t rank) {
  const int64_t d = integer(n, "dim");
  return d < 0 ? d + rank : d;
}

bool is_index(const Lowering& l, ir::ValueId v) {
  const Dtype t = l.type(v).dtype;
  return t == Dtype::i64 || t == Dtype::i32;
}

/// An index tensor's element, checked against `extent`.
Index checked(Lowering& l, const ir::Node& n, ExprId e, int64_t dim, const Size& extent, bool wrap) {
  Exprs& ex = l.exprs();
  return ex.as_index(ex.checked(n.op, static_cast<int>(dim), extent, wrap, ex.cast(Dtype::i64, e)));
}

bool gather(Lowering& l, const ir::Node& n) {
  const ir::ValueId self = tensor(n, "self"), index = tensor(n, "index"), out = result(n);
  const ir::Type from = l.type(self);
  if (!is_index(l, index)) return l.refuse("index dtype");
  if (from.dim() == 0 || l.type(index).dim() == 0) return l.refuse("0-dim index");
  const int64_t dim = dim_of(n, from.dim());
  const Size extent = from.sizes[static_cast<size_t>(dim)];
  if (extent == 0) return l.refuse("index into an empty dimension");
  l.define(out, short_name(n), [&l, &n, self, index, dim, extent](const Indices& at) {
    Indices source = at;
    source[static_cast<size_t>(dim)] = checked(l, n, l.element(index, at), dim, extent, false);
    return l.element(self, source);
  });
  return true;
}

bool index_select(Lowering& l, const ir::Node& n) {
  const ir::ValueId self = tensor(n, "self"), index = tensor(n, "index"), out = result(n);
  const ir::Type from = l.type(self);
  if (!is_index(l, index)) return l.refuse("index dtype");
  if (from.dim() == 0) return l.refuse("0-dim operand");
  const auto dim = static_cast<size_t>(dim_of(n, from.dim()));
  if (from.sizes[dim] == 0) return l.refuse("index into an empty dimension");
  const bool scalar = l.type(index).dim() == 0;
  l.define(out, short_name(n), [&l, &n, self, index, dim, extent = from.sizes[dim], scalar](const Indices& at) {
    Indices source = at;
    const ExprId e = l.element(index, scalar ? Indices{} : Indices{at[dim]});
    source[dim] = checked(l, n, e, static_cast<int64_t>(dim), extent, false);
    return l.element(self, source);
  });
  return true;
}

bool embedding(Lowering& l, const ir::Node& n) {
  const ir::ValueId weight = tensor(n, "weight"), index = tensor(n, "indices"), out = result(n);
  if (!is_index(l, index)) return l.refuse("index dtype");
  const Size rows = l.type(weight).sizes[0];
  if (rows == 0) return l.refuse("index into an empty dimension");
  l.define(out, "embedding", [&l, &n, weight, index, rows](const Indices& at) {
    const Index row = checked(l, n, l.element(index, Indices(at.begin(), at.end() - 1)), 0, rows, false);
    return l.element(weight, {row, at.back()});
  });
  return true;
}

/// self[indices]: which dims are indexed, the shape the index tensors broadcast to, and where it stands in the result.
struct AdvancedIndex {
  std::vector<ir::ValueId> indices;  // one per dim of self; kNoValue: the whole dim
  Dims shape;                        // of the index part
  size_t first = 0;                  // its first dim in the result
  Dims result_sizes;
};

std::optional<AdvancedIndex> advanced(Lowering& l, const ir::Node& n, const ir::Type& self) {
  const auto* list = std::get_if<std::vector<ir::Ref>>(n.find("indices"));
  if (!list) return l.refuse("no index list"), std::nullopt;
  AdvancedIndex a;
  a.indices.assign(self.sizes.size(), ir::kNoValue);
  std::vector<size_t> indexed;
  for (size_t d = 0; d < list->size(); ++d) {
    const ir::ValueId v = (*list)[d].id;
    if (v == ir::kNoValue) continue;
    if (!is_index(l, v)) return l.refuse("a mask: the result's size depends on data"), std::nullopt;
    if (self.sizes[d] == 0) return l.refuse("index into an empty dimension"), std::nullopt;
    a.indices[d] = v;
    indexed.push_back(d);
    const Dims& sizes = l.type(v).sizes;
    if (sizes.size() > a.shape.size()) a.shape.insert(a.shape.begin(), sizes.size() - a.shape.size(), 1);
    for (size_t i = 0; i < sizes.size(); ++i) {
      Size& s = a.shape[a.shape.size() - sizes.size() + i];
      if (s == 1) s = sizes[i];
    }
  }
  if (indexed.empty()) return l.refuse("no index"), std::nullopt;
  const bool adjacent = indexed.back() - indexed.front() + 1 == indexed.size();
  a.first = adjacent ? indexed.front() : 0;
  for (size_t d = 0; d < self.sizes.size(); ++d)
    if (a.indices[d] == ir::kNoValue) a.result_sizes.push_back(self.sizes[d]);
  a.result_sizes.insert(a.result_sizes.begin() + static_cast<std::ptrdiff_t>(a.first), a.shape.begin(), a.shape.end());
  return a;
}

/// Where in self the element at `at` of self[indices] stands.
Indices resolve(Lowering& l, const ir::Node& n, const AdvancedIndex& a, const ir::Type& self, const Indices& at) {
  const auto part = at.begin() + static_cast<std::ptrdiff_t>(a.first);
  const Indices inside(part, part + static_cast<std::ptrdiff_t>(a.shape.size()));
  Indices rest(at.begin(), part);
  rest.insert(rest.end(), part + static_cast<std::ptrdiff_t>(a.shape.size()), at.end());
  Indices source(self.sizes.size());
  size_t next = 0;
  for (size_t d = 0; d < source.size(); ++d)
    source[d] = a.indices[d] == ir::kNoValue
                    ? rest[next++]
                    : checked(l, n, l.broadcast(a.indices[d], inside), static_cast<int64_t>(d), self.sizes[d], true);
  return source;
}

bool index_tensor(Lowering& l, const ir::Node& n) {
  const ir::ValueId self = tensor(n, "self"), out = result(n);
  const ir::Type from = l.type(self);
  const auto a = advanced(l, n, from);
  if (!a) return false;
  if (a->result_sizes != l.type(out).sizes) return l.refuse("shape of the result");
  l.define(out, "index",
           [&l, &n, self, from, a = *a](const Indices& at) { return l.element(self, resolve(l, n, a, from, at)); });
  return true;
}

/// The result starts as a copy of `self`; then `sizes` elements are written in order.
using WriteAt = std::function<void(Step&, const Indices&)>;
void write(Lowering& l, const ir::Node& n, ir::ValueId self, Reduction how, const Dims& sizes, const WriteAt& prepare) {
  const ir::ValueId out = result(n);
  const ir::Type type = l.type(out);
  const BufferId b = l.make_buffer(out);
  const int copied = l.map(b, "copy", type.sizes, type.strides, 0, type.dtype, [&](const Indices& at) {
    return self == ir::kNoValue ? l.exprs().constant(type.dtype, int64_t{0}) : l.element(self, at);
  });
  Step s;
  s.kind = Step::Kind::write;
  s.what = short_name(n);
  s.reduction = how, s.buffer = b, s.dtype = type.dtype;
  if (copied >= 0) s.after.push_back(copied);
  l.add_step(std::move(s), sizes, ir::contiguous_strides(sizes), {},
             [&](Step& step, const Indices& at) { prepare(step, at); });
}

bool index_put(Lowering& l, const ir::Node& n) {
  const ir::ValueId self = tensor(n, "self"), values = tensor(n, "values"), out = result(n);
  const ir::Type type = l.type(out);
  const auto a = advanced(l, n, type);
  if (!a) return false;
  if (l.type(values).dtype != type.dtype) return l.refuse("values of another dtype");
  const bool accumulate = flag(n, "accumulate");
  if (accumulate && type.dtype == Dtype::b8) return l.refuse("arithmetic on bool");
  write(l, n, self, accumulate ? Reduction::sum : Reduction::none, a->result_sizes, [&](Step& s, const Indices& at) {
    s.body = l.broadcast(values, at);
    s.at = linearize(resolve(l, n, *a, type, at), type.strides);
  });
  return true;
}

struct ScatterRow {
  const char* op;
  Reduction how;
};
const ScatterRow kScatters[] = {
    {"aten::scatter.src", Reduction::none},
    {"aten::scatter.value", Reduction::none},
    {"aten::scatter_add", Reduction::sum},
    {"aten::scatter_reduce.two", Reduction::none},
};

bool scatter(Lowering& l, const ir::Node& n) {
  const ir::ValueId self = tensor(n, "self"), index = tensor(n, "index"), out = result(n);
  const ir::Type type = l.type(out);
  if (!is_index(l, index)) return l.refuse("index dtype");
  if (type.dim() == 0 || l.type(index).dim() == 0) return l.refuse("0-dim index");
  const auto dim = static_cast<size_t>(dim_of(n, type.dim()));
  if (type.sizes[dim] == 0) return l.refuse("index into an empty dimension");
  Reduction how = Reduction::none;
  for (const ScatterRow& r : kScatters)
    if (r.op == n.op) how = r.how;
  if (n.op == "aten::scatter_reduce.two") {
    const std::string& reduce = std::get<std::string>(*n.find("reduce"));
    static const auto& kinds = *new std::map<std::string, Reduction>{
        {"sum", Reduction::sum}, {"prod", Reduction::prod}, {"amax", Reduction::amax}, {"amin", Reduction::amin}};
    if (!kinds.contains(reduce)) return l.refuse("reduction " + reduce);
    if (!flag(n, "include_self")) return l.refuse("include_self=False");
    how = kinds.at(reduce);
  }
  if (how != Reduction::none && type.dtype == Dtype::b8) return l.refuse("arithmetic on bool");
  const ir::ValueId src = n.op == "aten::scatter.value" ? ir::kNoValue : tensor(n, "src");
  if (src != ir::kNoValue && l.type(src).dtype != type.dtype) return l.refuse("values of another dtype");
  write(l, n, self, how, l.type(index).sizes, [&](Step& s, const Indices& at) {
    Indices target = at;
    target[dim] = checked(l, n, l.element(index, at), static_cast<int64_t>(dim), type.sizes[dim], false);
    s.at = linearize(target, type.strides);
    s.body = src != ir::kNoValue        ? l.element(src, at)
             : ir::is_float(type.dtype) ? l.exprs().constant(type.dtype, number(n, "value"))
                                        : l.exprs().constant(type.dtype, integer(n, "value"));
  });
  return true;
}

bool index_add(Lowering& l, const ir::Node& n) {
  const ir::ValueId self = tensor(n, "self"), index = tensor(n, "index"), source = tensor(n, "source"), out = result(n);
  const ir::Type type = l.type(out);
  if (number(n, "alpha") != 1) return l.refuse("alpha is not 1");
  if (!is_index(l, index)) return l.refuse("index dtype");
  if (type.dim() == 0 || l.type(index).dim() != 1) return l.refuse("0-dim operand");
  if (type.dtype == Dtype::b8) return l.refuse("arithmetic on bool");
  const auto dim = static_cast<size_t>(dim_of(n, type.dim()));
  if (type.sizes[dim] == 0) return l.refuse("index into an empty dimension");
  write(l, n, self, Reduction::sum, l.type(source).sizes, [&](Step& s, const Indices& at) {
    Indices target = at;
    target[dim] = checked(l, n, l.element(index, {at[dim]}), static_cast<int64_t>(dim), type.sizes[dim], false);
    s.at = linearize(target, type.strides);
    s.body = l.element(source, at);
  });
  return true;
}

bool embedding_backward(Lowering& l, const ir::Node& n) {
  const ir::ValueId grad = tensor(n, "grad_output"), index = tensor(n, "indices"), out = result(n);
  const ir::Type type = l.type(out);
  if (flag(n, "scale_grad_by_freq")) return l.refuse("scale_grad_by_freq");
  if (!is_index(l, index)) return l.refuse("index dtype");
  if (type.sizes[0] == 0) return l.refuse("index into an empty dimension");
  const int64_t padding = integer(n, "padding_idx");
  write(l, n, ir::kNoValue, Reduction::sum, l.type(grad).sizes, [&](Step& s, const Indices& at) {
    Exprs& ex = l.exprs();
    const ExprId i = l.element(index, Indices(at.begin(), at.end() - 1));
    s.body = l.element(grad, at);
    if (padding >= 0) {  // rows of the padding index get nothing
      const Dtype t = ex[i].dtype;
      s.body = ex.select(ex.call("eq", Dtype::b8, {i, ex.constant(t, padding)}), ex.constant(type.dtype, int64_t{0}),
                         s.body);
    }
    s.at = linearize({checked(l, n, i, 0, type.sizes[0], false), at.back()}, type.strides);
  });
  return true;
}

/// dep_token, once the condition holds: a failure is reported as that of an index, but for the text.
bool assertion(Lowering& l, const ir::Node& n) {
  constexpr int kNoDim = -2;
  const ir::ValueId condition = tensor(n, "self"), passed = tensor(n, "dep_token"), out = result(n);
  const Dtype dtype = l.type(out).dtype;
  if (l.type(condition).dtype != Dtype::b8 || l.type(condition).dim() != 0)
    return l.refuse("the condition is not a bool");
  l.define(out, "assert", [&l, &n, condition, passed, dtype](const Indices& at) {
    Exprs& ex = l.exprs();
    const ExprId fails = ex.cast(Dtype::i64, ex.call("bitwise_not", Dtype::b8, {l.element(condition, {})}));
    const ExprId zero = ex.constant(Dtype::i64, int64_t{0});
    const ExprId fine = ex.checked(std::get<std::string>(*n.find("assert_msg")), kNoDim, 1, false, fails);
    return ex.select(ex.call("eq", Dtype::b8, {fine, zero}), l.element(passed, at), ex.constant(dtype, int64_t{0}));
  });
  return true;
}

}  // namespace

void add_index_rules(Rules& rules) {
  rules["aten::gather"] = gather;
  rules["aten::index_select"] = index_select;
  rules["aten::embedding"] = embedding;
  rules["aten::index.Tensor"] = index_tensor;
  rules["aten::index_put"] = index_put;
  for (const ScatterRow& r : kScatters) rules[r.op] = scatter;
  rules["aten::index_add"] = index_add;
  rules["aten::embedding_dense_backward"] = embedding_backward;
  rules["aten::_functional_assert_async.msg"] = assertion;
}

}  // namespace precast::loops
