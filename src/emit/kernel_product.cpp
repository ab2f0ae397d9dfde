// Matrix products with what is fused into them, and the packing of constant matrices.
#include "emit/kernel_writer.h"

#include <algorithm>

#include "util/errors.h"

namespace precast::emit {

KernelText KernelWriter::matmul() {
  const Step s = kernel_.steps[0];
  const auto size = [&](int i) {
    return s.axes[static_cast<size_t>(i)] < 0 ? 1 : extent(s.axes[static_cast<size_t>(i)]);
  };
  const auto operand = [&](ExprId e, Atom i) {
    const Expr& x = exprs_[e];
    PRECAST_CHECK(x.kind == Expr::Kind::load, "an operand of a matrix product is not in memory");
    GemmOperand o;
    o.dtype = x.dtype;
    const auto stride = [&](Atom a) { return a < 0 ? 0 : x.at.coefficient(a); };
    o.batch_stride = stride(s.axes[0]), o.i_stride = stride(i), o.k_stride = stride(s.axes[3]);
    return o;
  };
  GemmSpec spec;
  spec.name = "KERNEL_product";
  spec.batch = size(0), spec.M = size(1), spec.N = size(2), spec.K = size(3);
  spec.dtype = s.dtype == Dtype::f64 ? Dtype::f64 : Dtype::f32;
  spec.a = operand(s.a, s.axes[1]), spec.b = operand(s.b, s.axes[2]);
  const auto in_memory = [&](ExprId e) {
    return w_.pointer(exprs_[e].buffer, exprs_[e].dtype, exprs_[e].at.constant, false);
  };
  spec.a.pointer = in_memory(s.a);
  if (constants_.contains(exprs_[s.b].buffer) && gemm_workspace_bytes(spec) > 0) {
    pack(spec, exprs_[s.b]);
    spec.b.packed = true;
    spec.b.pointer = w_.pointer(out_.packing->packed, spec.dtype, 0, false);
  } else {
    spec.b.pointer = in_memory(s.b);
  }

  const char* names[] = {"b", "m", "n"};
  std::set<Atom> bound;
  for (int i = 0; i < 3; ++i)
    if (s.axes[static_cast<size_t>(i)] >= 0) {
      w_.name(s.axes[static_cast<size_t>(i)], names[i]);
      bound.insert(s.axes[static_cast<size_t>(i)]);
    }
  w_.lane = s.axes[2];
  w_.tail = true;
  w_.open(bound);
  const ExprId product = exprs_.load(s.buffer, s.dtype, s.at);
  if (s.dtype == Dtype::f16 || s.dtype == Dtype::bf16) {
    w_.line("const auto rounded = round_to<" + type_name(s.dtype) + ">(acc);");
    w_.bind(product, "rounded");
  } else {
    w_.bind(product, "acc");
  }
  if (kept_.contains(s.buffer)) w_.store(s.buffer, s.dtype, s.at, w_.value(product));
  for (size_t i = 1; i < kernel_.steps.size(); ++i) map(kernel_.steps[i]);
  const std::string body = w_.close();
  spec.epilogue = w_.take_text() + body;
  for (const Step& step : kernel_.steps)
    if (!kept_.contains(step.buffer)) program_.buffers[static_cast<size_t>(step.buffer)].place = Buffer::Place::local;

  std::string call = "void KERNEL(const precast_host* host, void* const* P) {\nKERNEL_product(host, (char*)P[" +
                     number(static_cast<int64_t>(w_.parameters.size())) + "]";
  for (size_t i = 0; i < w_.parameters.size(); ++i) {
    const std::string type = (w_.parameters[i].written ? "" : "const ") + type_name(w_.parameters[i].dtype) + "*";
    spec.params.push_back({type, "p" + number(static_cast<int64_t>(i))});
    call += ", (" + type + ")P[" + number(static_cast<int64_t>(i)) + "]";
  }
  if (w_.can_fail) {
    spec.params.push_back({"precast_fault*", "fault"});
    call += ", (precast_fault*)P[" + number(static_cast<int64_t>(w_.parameters.size()) + 1) + "]";
  }
  out_.workspace_bytes = std::max<int64_t>(gemm_workspace_bytes(spec), 64);
  out_.text = gemm_kernel(spec) + call + ");\n}\n";
  finish();
  return std::move(out_);
}

void KernelWriter::pack(const GemmSpec& product, const Expr& source) {
  GemmSpec spec = product;
  const std::string type = "const " + type_name(source.dtype) + "*", to = type_name(spec.dtype) + "*";
  spec.M = 1;  // of no matter: products of any height share the kernel
  spec.params = {{type, "p0"}};
  spec.a.pointer = spec.b.pointer = "p0";
  spec.a = spec.b;
  Buffer packed;
  packed.bytes = gemm_packed_bytes(spec);
  packed.place = Buffer::Place::prepared;
  program_.buffers.push_back(std::move(packed));
  out_.packing =
      Packing{gemm_pack(spec) + "void KERNEL(const precast_host* host, void* const* P) {\nKERNEL_product_pack(host, (" +
                  to + ")P[0], (" + type + ")P[1]);\n}\n",
              {source.buffer, source.at.constant * ir::itemsize(source.dtype)},
              static_cast<BufferId>(program_.buffers.size()) - 1};
}

}  // namespace precast::emit
