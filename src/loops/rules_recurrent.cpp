// LSTM layers: the products of the input for all steps are one matrix product, the steps one routine. What the backward
// needs is kept in buffers of our own, in place of the opaque workspace that eager's kernels hand from one to the
// other.
#include <algorithm>

#include "loops/lowering.h"

namespace precast::loops {

namespace {

using ir::Dtype;

/// A matrix in memory.
struct Matrix {
  HostOperand at;
  int64_t rows = 0, columns = 0, row_stride = 0, column_stride = 1;
  Matrix transposed() const { return {at, columns, rows, column_stride, row_stride}; }
};

void product(Lowering& l, Dtype dtype, const Matrix& a, const Matrix& b, BufferId c) {
  Step s;
  s.kind = Step::Kind::matmul;
  s.what = "mm";
  s.buffer = c, s.dtype = dtype;
  l.add_step(std::move(s), {a.rows, b.columns, a.columns}, {3, 2, 1}, {false, false, true},
             [&](Step& step, const Indices& i) {
               const auto element = [&](const Matrix& m, const Index& row, const Index& column) {
                 return l.exprs().load(
                     m.at.buffer, dtype,
                     row * m.row_stride + column * m.column_stride + Index(m.at.offset_bytes / ir::itemsize(dtype)));
               };
               const auto variable = [](const Index& e) {
                 return e.is_constant() ? std::vector<Atom>{} : std::vector<Atom>{e.terms[0].first};
               };
               step.product = {{}, variable(i[0]), variable(i[1]), variable(i[2])};
               step.a = element(a, i[0], i[2]);
               step.b = element(b, i[2], i[1]);
               step.at = i[0] * b.columns + i[1];
             });
}

/// All dims but the last as rows, copied where they are not evenly spaced.
Matrix rows_of(Lowering& l, ir::ValueId v) {
  const ir::Type t = l.type(v);
  Dims strides;
  Matrix m{{}, 1, t.sizes.back()};
  bool even = true;
  for (size_t d = 0; d + 1 < t.sizes.size(); ++d) m.rows *= t.sizes[d];
  for (size_t d = 0; d + 2 < t.sizes.size(); ++d)
    even &= t.sizes[d] == 1 || t.strides[d] == t.strides[d + 1] * t.sizes[d + 1];
  if (even) {
    m.at = l.rows(v, strides);
  } else {
    strides = ir::contiguous_strides(t.sizes);
    m.at = l.dense(v);
  }
  m.row_stride = t.sizes.size() > 1 ? strides[strides.size() - 2] : Size(m.columns);
  return m;
}

bool given(const ir::Node& n, const char* arg) {
  const ir::Attr* a = n.find(arg);
  return a && std::holds_alternative<ir::Ref>(*a) && std::get<ir::Ref>(*a).id != ir::kNoValue;
}

/// Why a layer, forward or backward, is none of ours; empty if it is.
std::string obstacle(Lowering& l, const ir::Node& n) {
  if (integer(n, "mode") != 2) return "a recurrent layer of another kind than LSTM";
  if (!integers(n, "batch_sizes").empty()) return "a packed sequence";
  if (!n.writes.empty() || !n.shared.empty()) return "writes its operand";
  std::string why;
  const auto check = [&](ir::ValueId v) {
    const ir::Type& t = l.type(v);
    if (t.dtype != Dtype::f32 && t.dtype != Dtype::u8) why = "an LSTM of another dtype than f32";
    if (t.numel() == 0 && t.dtype == Dtype::f32) why = "an LSTM of nothing";
  };
  ir::for_each_operand(n, [&](ir::Slot, ir::ValueId v) {
    if (v != ir::kNoValue) check(v);
  });
  for (const ir::Out& o : n.outs) {
    if (o.id == ir::kNoValue) continue;
    check(o.id);
    if (l.type(o.id).dtype == Dtype::f32 && !l.type(o.id).is_contiguous()) why = "an LSTM into another layout";
  }
  if (l.type(tensor(n, "input")).dim() != 3) why = "an LSTM of another rank";
  return why;
}

int readers(Lowering& l, ir::ValueId v) {
  int count = 0;
  for (const ir::Node& n : l.graph.nodes)
    ir::for_each_operand(n, [&](ir::Slot, ir::ValueId operand) { count += operand == v; });
  return count;
}

/// Whether nobody but our own backward reads eager's workspace.
bool workspace_is_ours(Lowering& l, ir::ValueId workspace) {
  for (const ir::ValueId v : l.graph.outputs)
    if (v == workspace) return false;
  for (const ir::Node& n : l.graph.nodes) {
    bool reads = false;
    ir::for_each_operand(n, [&](ir::Slot, ir::ValueId v) { reads |= v == workspace; });
    if (reads && (n.op != "aten::mkldnn_rnn_layer_backward" || !obstacle(l, n).empty())) return false;
  }
  return true;
}

void add_sizes(Routine& r, Lowering& l, const ir::Node& n) {
  const ir::Type& x = l.type(tensor(n, "input"));
  r.sizes = {{"steps", x.sizes[0]},
             {"batch", x.sizes[1]},
             {"units", integer(n, "hidden_size")},
             {"reverse", flag(n, "reverse")}};
}

bool forward(Lowering& l, const ir::Node& n) {
  if (const std::string why = obstacle(l, n); !why.empty()) return l.refuse(why);
  const ir::ValueId workspace = n.outs[3].id;
  const bool keeps = l.used(workspace);
  if (keeps && !workspace_is_ours(l, workspace)) return l.refuse("its workspace is read by others");
  for (const ir::Out& o : n.outs)
    if (o.id == ir::kNoValue) return l.refuse("an LSTM without one of its results");

  Routine r;
  r.function = "lstm";
  add_sizes(r, l, n);
  const int64_t steps = r.sizes[0].second, batch = r.sizes[1].second, h = r.sizes[2].second;
  const BufferId gates = l.new_buffer(ir::contiguous(Dtype::f32, {steps * batch, 4 * h}));
  const Matrix x = rows_of(l, tensor(n, "input"));
  product(l, Dtype::f32, x, rows_of(l, tensor(n, "weight0")).transposed(), gates);

  std::vector<HostOperand> reads;
  const auto read = [&](const char* name, ir::ValueId v) {
    const Matrix m = rows_of(l, v);
    reads.push_back(m.at);
    r.reads.push_back({name, Dtype::f32});
    r.sizes.emplace_back(name + std::string("_row"), m.row_stride);
  };
  read("w", tensor(n, "weight1"));
  const bool biased = flag(n, "has_biases");
  r.sizes.emplace_back("biased", biased);
  if (biased) read("b1", tensor(n, "weight2")), read("b2", tensor(n, "weight3"));
  read("h0", tensor(n, "hx_")), read("c0", tensor(n, "cx_"));
  std::vector<BufferId> writes = {gates, l.make_buffer(n.outs[0].id), l.make_buffer(n.outs[1].id),
                                  l.make_buffer(n.outs[2].id)};
  r.writes = {{"x", Dtype::f32}, {"o", Dtype::f32}, {"h", Dtype::f32}, {"c", Dtype::f32}};
  reads.push_back({gates, 0});  // so that it waits for the product
  r.reads.push_back({"products", Dtype::f32});
  r.sizes.emplace_back("keeps", keeps);
  if (keeps) {
    writes.push_back(l.new_buffer(ir::contiguous(Dtype::f32, {steps, batch, h})));
    r.writes.push_back({"cells", Dtype::f32});
    l.kept_of[workspace] = {gates, writes.back()};
  }
  r.workspace_bytes = 4 * ((h + 15) * 4 * h + 2 * (2 * batch + 16) * (h + 16));
  r.flops = 8.0 * static_cast<double>(steps * batch) * static_cast<double>(h * h);
  l.add_routine("lstm", std::move(r), std::move(reads), std::move(writes));
  return true;
}

bool backward(Lowering& l, const ir::Node& n) {
  if (const std::string why = obstacle(l, n); !why.empty()) return l.refuse(why);
  const auto kept = l.kept_of.find(tensor(n, "workspace"));
  if (kept == l.kept_of.end()) return l.refuse("its forward is not in the graph, or is left to the host");
  const BufferId gates = kept->second[0], cells = kept->second[1];
  Routine r;
  r.function = "lstm_backward";
  add_sizes(r, l, n);
  const int64_t steps = r.sizes[0].second, batch = r.sizes[1].second, h = r.sizes[2].second;

  std::vector<HostOperand> reads;
  const auto read = [&](const char* name, ir::ValueId v) {
    const Matrix m = rows_of(l, v);
    reads.push_back(m.at);
    r.reads.push_back({name, Dtype::f32});
    r.sizes.emplace_back(name + std::string("_row"), m.row_stride);
  };
  read("w", tensor(n, "weight2")), read("c0", tensor(n, "cx_tmp"));
  const auto gradient = [&](const char* arg, const char* name) {
    r.sizes.emplace_back(std::string("has_") + name, given(n, arg));
    if (given(n, arg)) return read(name, tensor(n, arg));
    r.sizes.emplace_back(name + std::string("_row"), 0);
  };
  gradient("grad_output", "g"), gradient("grad_hy", "gh"), gradient("grad_cy", "gc");
  // The gates become their gradients, unless there is another backward.
  BufferId d = gates;
  if (readers(l, tensor(n, "workspace")) > 1) {
    const ir::Type type = ir::contiguous(Dtype::f32, {steps * batch, 4 * h});
    d = l.new_buffer(type);
    l.map(d, "copy", type.sizes, type.strides, 0, Dtype::f32,
          [&](const Indices& i) { return l.exprs().load(gates, Dtype::f32, linearize(i, type.strides)); });
  }
  const auto result = [&](size_t i) {
    const ir::ValueId v = n.outs[i].id;
    return v == ir::kNoValue ? l.new_buffer(ir::contiguous(Dtype::f32, {batch, 4 * h})) : l.make_buffer(v);
  };
  reads.push_back({cells, 0}), reads.push_back({d, 0});
  r.reads.push_back({"cells", Dtype::f32}), r.reads.push_back({"gates", Dtype::f32});
  const BufferId bias = result(3);
  r.writes = {{"x", Dtype::f32}, {"dh", Dtype::f32}, {"dc", Dtype::f32}, {"db", Dtype::f32}};
  r.workspace_bytes = 4 * ((h + 31) * 4 * h + 2 * (2 * batch + 16) * (4 * h + 16) + (batch + 2) * 4 * h);
  r.flops = 8.0 * static_cast<double>(steps * batch) * static_cast<double>(h * h);
  l.add_routine("lstm_backward", std::move(r), std::move(reads), {d, result(5), result(6), bias});
  if (l.used(n.outs[4].id)) {
    const BufferId second = l.make_buffer(n.outs[4].id);
    l.map(second, "copy", {4 * h}, {1}, 0, Dtype::f32,
          [&](const Indices& i) { return l.exprs().load(bias, Dtype::f32, i[0]); });
  }

  const Matrix dg{{d, 0}, steps * batch, 4 * h, 4 * h};
  if (l.used(n.outs[0].id)) product(l, Dtype::f32, dg, rows_of(l, tensor(n, "weight1")), l.make_buffer(n.outs[0].id));
  if (l.used(n.outs[1].id))
    product(l, Dtype::f32, dg.transposed(), rows_of(l, tensor(n, "input")), l.make_buffer(n.outs[1].id));
  if (l.used(n.outs[2].id)) {
    // The hidden states that each step started from.
    const bool reverse = flag(n, "reverse");
    const ir::Type states = ir::contiguous(Dtype::f32, {steps, batch, h});
    const BufferId before = l.new_buffer(states);
    const ir::ValueId hx = tensor(n, "hx_"), output = tensor(n, "output");
    const bool deep = l.type(hx).dim() == 3;
    l.map(before, "copy", {batch, h}, {h, 1}, reverse ? (steps - 1) * batch * h : 0, Dtype::f32,
          [&](const Indices& i) { return l.element(hx, deep ? Indices{{}, i[0], i[1]} : i); });
    if (steps > 1)
      l.map(before, "copy", {steps - 1, batch, h}, states.strides, reverse ? 0 : batch * h, Dtype::f32,
            [&](const Indices& i) { return l.element(output, {i[0] + Index(reverse ? 1 : 0), i[1], i[2]}); });
    product(l, Dtype::f32, dg.transposed(), Matrix{{before, 0}, steps * batch, h, h}, l.make_buffer(n.outs[2].id));
  }
  return true;
}

}  // namespace

void add_recurrent_rules(Rules& rules) {
  rules["aten::mkldnn_rnn_layer"] = forward;
  rules["aten::mkldnn_rnn_layer_backward"] = backward;
}

}  // namespace precast::loops
