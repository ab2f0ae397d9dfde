// Attention. f16 and bf16 are computed in f32 and rounded once. With sizes that only a call knows it is its formula.
#include <cmath>
#include <limits>

#include "passes/rules.h"

namespace precast::passes {
namespace {

using ir::Arg;
using ir::Attr;
using ir::Dtype;
using ir::Ref;
using ir::Type;

struct Operands {
  Dtype dtype;  // of the results
  std::vector<Arg> args;
  Dtype computed() const { return compute_dtype(dtype); }
  void add(const char* name, Val v) { args.push_back({name, Ref{cast(v, computed()).id}}); }
};

void check(const Op& op) {
  Val q = op.val("query"), k = op.val("key"), v = op.val("value");
  if (!ir::is_float(q.dtype()) || q.dim() != 4 || k.dim() != 4 || v.dim() != 4)
    decline("attention of something else than [batch, heads, length, depth]");
  if (op.real("dropout_p") != 0) decline("attention with dropout");
}

void add_options(const Op& op, Operands& o) {
  o.args.push_back({"dropout_p", 0.0});
  o.args.push_back({"is_causal", op.flag("is_causal")});
  Val mask = op.optional("attn_mask");
  if (mask) o.add("attn_mask", mask);
  if (op.given("scale")) o.args.push_back({"scale", op.real("scale")});
}

Type as(Type t, Dtype d) {
  t.dtype = d;
  return t;
}

// ---- The formula

bool is_sized(const Op& op) {
  bool sized = false;
  for (const char* name : {"query", "key", "value"}) sized |= op.val(name).type().is_symbolic();
  return sized;
}

/// What softmax is taken of: a row of keys for each query.
Val scores(const Op& op, Val q, Val k) {
  const double scale = op.given("scale") ? op.real("scale") : 1 / std::sqrt(static_cast<double>(q.size(3)));
  Val s = einsum("bhqd,bhkd->bhqk", q, k) * scale;
  if (Val mask = op.optional("attn_mask")) s = s + cast(mask, s.dtype());
  if (!op.flag("is_causal")) return s;
  Val row = unsqueeze(op.b.arange(q.size(2)), 1), column = op.b.arange(k.size(2));
  return where(binary("ge.Tensor", row, column), s, -std::numeric_limits<double>::infinity());
}

void attention_formula(Op& op) {
  const Dtype d = op.val("query").dtype(), c = compute_dtype(d);
  const auto operand = [&](const char* name) { return cast(op.val(name), c); };
  Val s = scores(op, operand("query"), operand("key")), most = reduce("amax", s, {3}, true, c);
  Val shift = where(eq(most, -std::numeric_limits<double>::infinity()), 0.0, most);  // a row that sees nothing gives 0
  Val e = exp(s - shift), sums = sum(e, {3}, true), total = where(eq(sums, 0.0), 1.0, sums);
  op.result(0, cast(einsum("bhqk,bhkd->bhqd", e / total, operand("value")), d));
  if (op.wants(1)) op.result(1, cast(squeeze(log(total) + shift, 3), op.wanted(1).dtype));
}

void attention_backward_formula(Op& op) {
  const Dtype d = op.val("query").dtype(), c = compute_dtype(d);
  const auto operand = [&](const char* name) { return cast(op.val(name), c); };
  Val g = operand("grad_out"), q = operand("query"), k = operand("key"), v = operand("value");
  Val p = exp(scores(op, q, k) - unsqueeze(operand("logsumexp"), 3));
  Val along = einsum("bhqd,bhkd->bhqk", g, v) - sum(g * operand("out"), {3}, true);
  const double scale = op.given("scale") ? op.real("scale") : 1 / std::sqrt(static_cast<double>(q.size(3)));
  Val ds = p * along * scale;
  op.result(0, cast(einsum("bhqk,bhkd->bhqd", ds, k), d));
  op.result(1, cast(einsum("bhqk,bhqd->bhkd", ds, q), d));
  op.result(2, cast(einsum("bhqk,bhqd->bhkd", p, g), d));
}

// ---- The routine

void attention(Op& op) {
  check(op);
  if (is_sized(op)) return attention_formula(op);
  Operands o{op.val("query").dtype(), {}};
  for (const char* name : {"query", "key", "value"}) o.add(name, op.val(name));
  add_options(op, o);
  auto results = op.b.emit_all(op.name(), o.args, {as(op.wanted(0), o.computed()), op.wanted(1)});
  op.result(0, cast(results[0], o.dtype));
  op.result(1, results[1]);
}

void attention_backward(Op& op) {
  check(op);
  if (is_sized(op)) return attention_backward_formula(op);
  Operands o{op.val("query").dtype(), {}};
  for (const char* name : {"grad_out", "query", "key", "value", "out", "logsumexp"}) o.add(name, op.val(name));
  add_options(op, o);
  std::vector<Type> types;
  for (size_t i = 0; i < 3; ++i) types.push_back(as(op.wanted(i), o.computed()));
  auto results = op.b.emit_all(op.name(), o.args, types);
  for (size_t i = 0; i < 3; ++i) op.result(i, cast(results[i], o.dtype));
}

constexpr Row kRows[] = {
    {"aten::_scaled_dot_product_flash_attention_for_cpu", attention},
    {"aten::_scaled_dot_product_flash_attention_for_cpu_backward", attention_backward},
};

}  // namespace

std::span<const Row> attention_rules() { return kRows; }

}  // namespace precast::passes
