// Matrix products with what is fused into them, and the packing of matrices that are constant or read by several.
#include "emit/kernel_writer.h"

#include <algorithm>
#include <cmath>

#include "util/errors.h"

namespace precast::emit {

/// What memory costs when vectors of results run along a variable; -1: one by one.
double KernelWriter::lane_cost(Atom v) {
  double cost = 0;
  const auto add = [&](const Index& at, Dtype t) {
    const int64_t step = v < 0 ? 0 : std::abs(at.coefficient(v).hint());
    cost += step == 0 ? (v < 0 ? 16 : 0.3) : step == 1 ? 1 : step * ir::itemsize(t) < 1024 ? 8 : 24;
  };
  for (const Step& s : kernel_.steps) {
    if (kept_.contains(s.buffer)) add(s.at, s.dtype);
    if (s.kind == Step::Kind::map)
      for (const ExprId e : loops::loads(s, exprs_))
        if (!produced(exprs_[e].buffer)) add(exprs_[e].at, exprs_[e].dtype);
  }
  return cost;
}

KernelText KernelWriter::matmul() {
  std::vector<Step*> steps;
  for (Step& step : kernel_.steps) steps.push_back(&step);
  loops::Product& p = kernel_.steps[0].product;
  loops::collapse(steps, {&p.batch, &p.m, &p.n, &p.k}, exprs_);
  const Step s = kernel_.steps[0];
  // Vectors run along one variable of B and the result; products for each value of the others are apart.
  Atom lane = -1;
  for (const Atom a : p.n)
    if (lane < 0 || std::abs(s.at.coefficient(a).hint()) < std::abs(s.at.coefficient(lane).hint())) lane = a;
  for (const Atom a : p.n)
    if (a != lane) p.batch.push_back(a);
  const Atom column = lane;
  const bool along_m = !p.m.empty() && lane_cost(p.m.back()) < lane_cost(column);
  if (along_m) lane = p.m.back();

  const auto strides = [&](const std::vector<Atom>& variables, const Index& at) {
    ir::Dims found;
    for (const Atom a : variables) found.push_back(at.coefficient(a));
    return found;
  };
  const auto sizes = [&](const std::vector<Atom>& variables) {
    ir::Dims found;
    for (const Atom a : variables) found.push_back(extent(a));
    return found;
  };
  const auto loaded = [&](ExprId e) {
    const Expr& x = exprs_[exprs_[e].kind == Expr::Kind::cast ? exprs_[e].args[0] : e];
    PRECAST_CHECK(x.kind == Expr::Kind::load, "an operand of a matrix product is not in memory");
    return x;
  };
  const auto operand = [&](const Expr& x, const std::vector<Atom>& i) {
    GemmOperand o;
    o.dtype = x.dtype;
    o.batch_strides = strides(p.batch, x.at), o.i_strides = strides(i, x.at), o.k_strides = strides(p.k, x.at);
    return o;
  };
  const auto in_memory = [&](const Expr& x) { return w_.pointer(x.buffer, x.dtype, x.at.constant, false); };
  const Expr a = loaded(s.a), b = loaded(s.b);
  GemmSpec spec;
  spec.name = "KERNEL_product";
  spec.batch = sizes(p.batch), spec.M = sizes(p.m), spec.K = sizes(p.k),
  spec.N = column < 0 ? ir::Size(1) : extent(column), spec.symbols = program_.symbols;
  spec.dtype = s.dtype == Dtype::f64 ? Dtype::f64 : Dtype::f32;
  spec.packing = config_.packing;
  spec.a = operand(a, p.m), spec.b = operand(b, {column});
  spec.a.pointer = in_memory(a);
  if ((constants_.contains(b.buffer) || config_.pack_apart) && gemm_packs_b(spec)) {
    pack(spec, b);
    spec.b.packed = true;
    spec.b.pointer = w_.pointer(out_.packing->packed, spec.dtype, 0, false);
  } else {
    spec.b.pointer = in_memory(b);
  }

  // Names of the variables in the epilogue; where one count stands for several, they are taken from it.
  std::set<Atom> bound;
  std::vector<std::pair<std::string, std::string>> digits;
  const auto bind = [&](const std::string& name, const std::vector<Atom>& variables) {
    for (size_t v = 0; v < variables.size(); ++v) {
      const std::string own = variables.size() == 1 ? name : name + number(static_cast<int64_t>(v));
      if (own != name) digits.emplace_back(own, digit(name, sizes(variables), v));
      w_.name(variables[v], own);
      bound.insert(variables[v]);
    }
  };
  bind("b", p.batch);
  bind("m", p.m);
  if (column >= 0) bind("n", {column});
  w_.lane = lane;
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
  std::string text = w_.take_text() + body;
  for (size_t i = digits.size(); i-- > 0;)
    if (names(text, digits[i].first)) text = "const i64 " + digits[i].first + " = " + digits[i].second + ";\n" + text;
  for (const std::string& guard : w_.guards) text = guard + text;
  const std::string symbols = declare_sizes(text, program_.symbols, "S");
  spec.epilogue = symbols + text;
  spec.along_m = along_m;
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
  out_.sized_product = gemm_is_sized(spec);
  if (!symbols.empty() || out_.sized_product) {
    out_.reads_sizes = true;
    spec.params.push_back({"const i64*", "S"});
    call += ", (const i64*)P[" + number(static_cast<int64_t>(w_.parameters.size()) + (w_.can_fail ? 2 : 1)) + "]";
  }
  out_.workspace_bytes = ir::max(gemm_workspace_bytes(spec), 64);
  out_.text = gemm_kernel(spec) + call + ");\n}\n";
  finish();
  return std::move(out_);
}

void KernelWriter::pack(const GemmSpec& product, const Expr& source) {
  GemmSpec spec = product;
  const std::string type = "const " + type_name(source.dtype) + "*", to = type_name(spec.dtype) + "*";
  spec.M = {};  // of no matter: products of any height share the kernel
  spec.params = {{type, "p0"}};
  spec.a.pointer = spec.b.pointer = "p0";
  spec.a = spec.b;
  Buffer packed;
  packed.bytes = gemm_packed_bytes(spec);
  const bool constant = constants_.contains(source.buffer);
  packed.place = constant ? Buffer::Place::prepared : Buffer::Place::arena;
  program_.buffers.push_back(std::move(packed));
  out_.packing =
      Packing{gemm_pack(spec) + "void KERNEL(const precast_host* host, void* const* P) {\nKERNEL_product_pack(host, (" +
                  to + ")P[0], (" + type + ")P[1]);\n}\n",
              {source.buffer, source.at.constant * ir::itemsize(source.dtype)},
              static_cast<BufferId>(program_.buffers.size()) - 1,
              constant};
}

}  // namespace precast::emit
