// What leaves the kernels: host ops, graph outputs, and writes that reuse the memory they write.
#include <algorithm>
#include <map>
#include <set>

#include "loops/lowering.h"
#include "util/errors.h"

namespace precast::loops {

Dims without_repeats(const ir::Type& t) {
  Dims sizes = t.sizes;
  for (size_t d = 0; d < sizes.size(); ++d)
    if (t.strides[d] == 0) sizes[d] = ir::min(sizes[d], 1);
  return sizes;
}

// ---- Host ops ----

HostOperand Lowering::operand(ir::ValueId v) {
  const auto view = views_.find(v);
  if (view == views_.end()) return {store(v), 0};
  HostOperand base = operand(view->second.base);
  base.offset_bytes += view->second.offset_bytes;
  return base;
}

/// For people: the name of an input, or what made the value.
std::string Lowering::origin(ir::ValueId v) const {
  for (const ir::Node& n : graph.nodes) {
    bool makes = false;
    ir::for_each_definition(n, [&](ir::ValueId id) { makes |= id == v; });
    if (makes) return "the result of " + n.op;
  }
  return graph.values[static_cast<size_t>(v)].name;
}

void Lowering::host(const ir::Node& n, std::string why) {
  Step step;
  step.kind = Step::Kind::host;
  step.what = n.op;
  step.host_op = static_cast<int>(host_ops.size());
  emit::HostOp host_op{n.op, std::move(why), {}};
  ir::Graph& g = host_op.graph;
  g.symbols = graph.symbols;
  ir::Node copy = n;
  std::map<ir::ValueId, ir::ValueId> inner;
  const auto import = [&](ir::ValueId& v) {
    if (v == ir::kNoValue) return;
    auto [it, fresh] = inner.emplace(v, ir::kNoValue);
    if (fresh) {
      it->second = g.add_value(type(v), origin(v));
      g.inputs.push_back(it->second);
      step.operands.push_back(operand(v));
    }
    v = it->second;
  };
  const auto result = [&](ir::ValueId& v) {
    if (v == ir::kNoValue) return;
    const ir::ValueId outer = v;
    v = g.add_value(type(outer));
    g.outputs.push_back(v);
    const BufferId b = make_buffer(outer);
    Buffer& buffer = program_.buffers[static_cast<size_t>(b)];
    buffer.place = Buffer::Place::host, buffer.slot = host_slots_++;
    step.results.push_back(b);
  };
  for (ir::Arg& a : copy.args) {
    if (auto* r = std::get_if<ir::Ref>(&a.value)) import(r->id);
    if (auto* l = std::get_if<std::vector<ir::Ref>>(&a.value))
      for (ir::Ref& r : *l) import(r.id);
  }
  for (ir::Shared& s : copy.shared) import(s.base);
  for (ir::Out& o : copy.outs) {
    result(o.id);
    for (ir::Ref& r : o.list) result(r.id);
  }
  for (ir::Write& w : copy.writes) result(w.value);
  for (ir::Shared& s : copy.shared) result(s.value);
  g.nodes.push_back(std::move(copy));
  host_ops.push_back(std::move(host_op));
  if (last_host_ >= 0) step.after.push_back(last_host_);  // random numbers come in program order
  last_host_ = static_cast<int>(program_.steps.size());
  program_.steps.push_back(std::move(step));
}

// ---- Outputs ----

namespace {

/// A type with kernels whose copy is the same bytes.
ir::Type as_bits(ir::Type t) {
  using enum ir::Dtype;
  switch (t.dtype) {
    case u16:
    case c32:
      t.dtype = t.dtype == u16 ? i16 : i32;
      break;
    case u32:
      t.dtype = i32;
      break;
    case u64:
    case c64:
      t.dtype = i64;
      break;
    case c128:
      t.dtype = i64;
      for (Size& s : t.strides) s *= 2;
      t.sizes.push_back(2), t.strides.push_back(1);
      break;
    default:
      break;
  }
  return t;
}

}  // namespace

void Lowering::store_outputs() {
  std::set<BufferId> taken;
  for (size_t k = 0; k < graph.outputs.size(); ++k) {
    const ir::ValueId v = graph.outputs[k];
    BufferId b = store(v);
    if (program_.buffers[static_cast<size_t>(b)].place != Buffer::Place::arena || taken.contains(b)) b = copy(v);
    taken.insert(b);
    Buffer& buffer = program_.buffers[static_cast<size_t>(b)];
    buffer.place = Buffer::Place::output, buffer.slot = static_cast<int>(k);
    program_.outputs.push_back(b);
  }
}

/// A copy made to write a window of it need not be made when nobody reads the original any more.
void Lowering::write_in_place() {
  const auto n = static_cast<int>(program_.steps.size());
  std::map<BufferId, std::vector<int>> readers, writers;
  for (int i = 0; i < n; ++i) {
    const Step& s = program_.steps[static_cast<size_t>(i)];
    std::set<BufferId> read;
    for (const ExprId e : loads(s, exprs())) read.insert(exprs()[e].buffer);
    for (const HostOperand& o : s.operands) read.insert(o.buffer);
    for (const BufferId b : read) readers[b].push_back(i);
    if (s.buffer >= 0) writers[s.buffer].push_back(i);
  }
  for (int i = 0; i < n; ++i) {
    Step& s = program_.steps[static_cast<size_t>(i)];
    if (s.kind != Step::Kind::map || writers[s.buffer].size() < 2 || writers[s.buffer].front() != i) continue;
    const Expr e = exprs()[s.body];
    if (e.kind != Expr::Kind::load || e.at != s.at || e.dtype != s.dtype) continue;
    Buffer& from = program_.buffers[static_cast<size_t>(e.buffer)];
    const Buffer& to = program_.buffers[static_cast<size_t>(s.buffer)];
    if (from.place != Buffer::Place::arena || from.type != to.type || readers[e.buffer].back() != i) continue;
    s.kind = Step::Kind::alias;
    s.after.insert(s.after.end(), readers[e.buffer].begin(), readers[e.buffer].end() - 1);
    from.alias_of = s.buffer;
    // What else is written there overwrites what the readers read.
    for (const int w : writers[s.buffer])
      if (w != i) program_.steps[static_cast<size_t>(w)].after.push_back(i);
  }
}

/// What is joined with others is made where it is to stand, if that is one block there.
void Lowering::join_in_place() {
  for (Step& s : program_.steps) {
    if (s.kind != Step::Kind::map || !s.part) continue;
    const Expr& e = exprs()[s.body];
    if (e.kind != Expr::Kind::load || e.dtype != s.dtype || e.at.terms != s.at.terms || e.at.constant != 0) continue;
    Buffer& from = program_.buffers[static_cast<size_t>(e.buffer)];
    const Buffer& to = program_.buffers[static_cast<size_t>(s.buffer)];
    const Size bytes = volume(s.space, exprs()) * ir::itemsize(s.dtype);
    if (from.place != Buffer::Place::arena || from.alias_of >= 0 || from.bytes != bytes || to.alias_of >= 0) continue;
    s.kind = Step::Kind::alias;
    from.alias_of = s.buffer, from.alias_offset = s.at.constant * ir::itemsize(s.dtype), from.is_part = true;
  }
}

BufferId Lowering::copy(ir::ValueId v) {
  const HostOperand source = operand(v);
  const ir::Type bits = as_bits(type(v));
  const Size offset = *ir::divide(source.offset_bytes, ir::itemsize(bits.dtype));
  const BufferId made = new_buffer(type(v));
  map(made, "copy", without_repeats(bits), bits.strides, 0, bits.dtype, [&](const Indices& index) {
    return exprs().load(source.buffer, bits.dtype, linearize(index, bits.strides) + Index(offset));
  });
  return made;
}

}  // namespace precast::loops
