// Attention. f16 and bf16 are computed in f32 and rounded once.
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

void attention(Op& op) {
  check(op);
  Operands o{op.val("query").dtype(), {}};
  for (const char* name : {"query", "key", "value"}) o.add(name, op.val(name));
  add_options(op, o);
  auto results = op.b.emit_all(op.name(), o.args, {as(op.wanted(0), o.computed()), op.wanted(1)});
  op.result(0, cast(results[0], o.dtype));
  op.result(1, results[1]);
}

void attention_backward(Op& op) {
  check(op);
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
