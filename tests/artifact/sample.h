// A hand-written lowered graph: y = x * weight + 1 (elementwise, f32[n]) in two parts, and scale into a buffer.
#pragma once
#include "artifact/compose.h"

namespace precast::artifact {

struct Sample {
  Signature signature;
  ir::Graph graph;
  emit::Emitted emitted;
};

/// fn(model, x): y = x * weight + 1; model.count = y; returns y. Two kernels in two parts.
inline Sample sample(int64_t n = 8) {
  Sample s;
  const ir::Type type = ir::contiguous(ir::Dtype::f32, {n});
  const auto w = s.graph.add_value(type, "weight"), x = s.graph.add_value(type, "x");
  const auto product = s.graph.add_value(type), y = s.graph.add_value(type);
  s.graph.inputs = {w, x};
  const auto node = [&](const char* op, std::vector<ir::Arg> args, ir::ValueId out) {
    s.graph.nodes.push_back({op, std::move(args), {ir::Out{out, {}, {}, false}}, {}, {}});
  };
  node("aten::mul.Tensor", {{"self", ir::Ref{x}}, {"other", ir::Ref{w}}}, product);
  node("aten::add.Scalar", {{"self", ir::Ref{product}}, {"other", int64_t{1}}, {"alpha", int64_t{1}}}, y);
  s.graph.outputs = {y};

  Signature& sig = s.signature;
  sig.num_positional_args = 2;
  sig.module_positions = {0};
  sig.params = {{"weight", type, true, true}};
  sig.buffers = {{"count", type, false, false}};
  sig.slots = {{"weight", 0, false, 0}, {"tied", 0, false, 0}, {"count", 0, true, 1}};
  sig.in_spec = "(*,)";
  sig.out_spec = "*";
  sig.leaves = {{UserLeaf::Kind::tensor, "argument 1", {"x", type, false, true}, {}}};
  sig.graph_inputs = {{0, 0}, {2, 0}};
  sig.results = {{Result::Kind::output, 0, 0, {}, {}, false}};
  sig.writes = {{1, 0}};
  sig.aliases = {{1, 2, false, 0}};
  sig.torch_version = "2.13.0";

  emit::Emitted& e = s.emitted;
  const std::string size = std::to_string(n);
  e.preamble =
      "typedef float precast_v __attribute__((vector_size(PRECAST_VECTOR_BYTES), aligned(4), may_alias));\n"
      "static inline float precast_mul(float a, float b) { return a * b; }\n";
  e.parts = {
      "void k0_mul(const float* a, const float* b, float* y) {\n"
      "  for (int i = 0; i < " +
          size + "; ++i) y[i] = precast_mul(a[i], b[i]);\n}",
      "void k1_add(const float* a, float* y) {\n  for (int i = 0; i < " + size + "; ++i) y[i] = a[i] + 1;\n}"};
  e.run =
      "void k0_mul(const float*, const float*, float*);\nvoid k1_add(const float*, float*);\n"
      "int precast_run(precast_frame* f) {\n"
      "  float* product = reinterpret_cast<float*>(f->arena);\n"
      "  k0_mul(static_cast<const float*>(f->in[1]), reinterpret_cast<const float*>(f->prepared), product);\n"
      "  k1_add(product, static_cast<float*>(f->out[0]));\n  return PRECAST_OK;\n}\n"
      "int precast_prepare(precast_frame* f) {\n  const float* weight = static_cast<const float*>(f->in[0]);\n"
      "  for (int i = 0; i < " +
      size +
      "; ++i) reinterpret_cast<float*>(f->prepared)[i] = weight[i];\n"
      "  return PRECAST_OK;\n}\n";
  e.arena_bytes = e.prepared_bytes = 4 * n;
  e.kernels = {{"k0_mul", "aten::mul", double(n), 12.0 * double(n)},
               {"k1_add", "aten::add", double(n), 8.0 * double(n)}};
  e.lowered_ops = e.total_ops = 2;
  return s;
}

}  // namespace precast::artifact
