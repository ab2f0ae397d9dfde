#include "loops/lowering.h"

#include <algorithm>
#include <numeric>
#include <set>

#include "util/errors.h"

namespace precast::loops {

namespace {

const Rules& rules() {
  static const Rules table = [] {
    Rules r;
    add_pointwise_rules(r);
    add_reduction_rules(r);
    add_matrix_rules(r);
    add_index_rules(r);
    add_shape_rules(r);
    return r;
  }();
  return table;
}

bool has_lanes(ir::Dtype t) {
  using enum ir::Dtype;
  switch (t) {
    case u8: case i8: case i16: case i32: case i64: case f16: case f32: case f64: case b8: case bf16: return true;
    default: return false;
  }
}

/// Empty when kernels can hold the tensor.
std::string obstacle(const ir::Type& t) {
  // Complex numbers stay with ATen: products, quotients and functions follow its special cases for infinities.
  if (ir::is_complex(t.dtype)) return "complex numbers have no kernels";
  if (!has_lanes(t.dtype)) return "dtype " + std::string(ir::name(t.dtype)) + " has no kernels";
  if (t.device.type != 0) return "device " + ir::name(t.device);
  if (t.conj || t.neg) return "lazy conjugate or negative bit";
  return {};
}

/// Sizes with one copy of what strides of 0 repeat.
std::vector<int64_t> without_repeats(const ir::Type& t) {
  std::vector<int64_t> sizes = t.sizes;
  for (size_t d = 0; d < sizes.size(); ++d)
    if (t.strides[d] == 0) sizes[d] = std::min<int64_t>(sizes[d], 1);
  return sizes;
}

bool is_random(std::string_view op) {
  for (const char* word : {"rand", "dropout", "bernoulli", "multinomial", "normal_", "uniform", "exponential_",
                           "geometric_", "log_normal", "cauchy", "poisson", "binomial", "aten::normal"})
    if (op.find(word) != std::string_view::npos) return true;
  return false;
}

}  // namespace

Lowering::Lowering(const ir::Graph& g) : graph(g), buffer_of_(g.values.size(), -1) {}

Program Lowering::run() {
  count_uses();
  for (size_t i = 0; i < graph.inputs.size(); ++i) {
    const BufferId b = new_buffer(type(graph.inputs[i]));
    program_.buffers[static_cast<size_t>(b)].place = Buffer::Place::input;
    program_.buffers[static_cast<size_t>(b)].slot = static_cast<int>(i);
    buffer_of_[static_cast<size_t>(graph.inputs[i])] = b;
  }
  for (const ir::Node& n : graph.nodes) lower(n);
  store_outputs();
  write_in_place();
  return std::move(program_);
}

void Lowering::count_uses() {
  uses_.assign(graph.values.size(), 0);
  for (const ir::ValueId v : graph.outputs) ++uses_[static_cast<size_t>(v)];
  for (auto n = graph.nodes.rbegin(); n != graph.nodes.rend(); ++n) {
    const int times = n->op == "prim::view" ? uses_[static_cast<size_t>(n->outs[0].id)] : 1;
    ir::for_each_operand(*n, [&](ir::Slot, ir::ValueId v) {
      if (v != ir::kNoValue) uses_[static_cast<size_t>(v)] += times;
    });
  }
}

void Lowering::lower(const ir::Node& n) {
  if (n.op == "prim::view") {
    views_[n.outs[0].id] = {tensor(n, "base"), integer(n, "offset")};
    ++lowered;
    return;
  }
  std::string why;
  if (!n.writes.empty() || !n.shared.empty()) why = "writes its operand";
  const auto rule = rules().find(n.op);
  if (rule == rules().end()) why = is_random(n.op) ? "random" : why.empty() ? "no lowering rule" : why;
  if (why.empty()) {
    ir::for_each_operand(n, [&](ir::Slot, ir::ValueId v) {
      if (v != ir::kNoValue && why.empty()) why = obstacle(type(v));
    });
    for (const ir::Out& o : n.outs)
      if (o.id != ir::kNoValue && why.empty()) why = obstacle(type(o.id));
  }
  if (why.empty()) {
    if (n.outs.size() == 1 && !used(n.outs[0].id)) {
      ++lowered;
      return;
    }
    if (rule->second(*this, n)) {
      ++lowered;
      return;
    }
    why = refusal;
  }
  host(n, why);
}

// ---- Reading ----

ExprId Lowering::element(ir::ValueId v, const Indices& index) {
  if (const auto view = views_.find(v); view != views_.end()) {
    const ir::Type& t = type(v);
    const int64_t size = ir::itemsize(t.dtype);
    if (view->second.offset_bytes % size == 0)
      return read(view->second.base, linearize(index, t.strides) + Index(view->second.offset_bytes / size), t.dtype);
    PRECAST_CHECK(false, "a view is not aligned to its dtype");
  }
  const auto d = definitions_.find(v);
  if (buffer_of_[static_cast<size_t>(v)] < 0 && d != definitions_.end()) {
    const bool repeated = volume_ >= 4 * std::max<int64_t>(type(v).numel(), 1) && d->second.cost > 12;
    if (!repeated) return d->second.element(index);
  }
  return exprs().load(store(v), type(v).dtype, linearize(index, type(v).strides));
}

ExprId Lowering::broadcast(ir::ValueId v, const Indices& index) {
  const ir::Type& t = type(v);
  Indices own(t.sizes.size());
  const size_t shift = index.size() - own.size();
  for (size_t d = 0; d < own.size(); ++d)
    if (t.sizes[d] != 1) own[d] = index[d + shift];
  return element(v, own);
}

ExprId Lowering::read(ir::ValueId v, Index offset, ir::Dtype dtype) {
  if (const auto view = views_.find(v); view != views_.end()) {
    const int64_t size = ir::itemsize(dtype);
    PRECAST_CHECK(view->second.offset_bytes % size == 0, "a view is not aligned to its dtype");
    return read(view->second.base, offset + Index(view->second.offset_bytes / size), dtype);
  }
  const ir::Type& t = type(v);
  const bool dense = t.span_bytes() == t.numel() * ir::itemsize(t.dtype);
  if (buffer_of_[static_cast<size_t>(v)] < 0 && definitions_.contains(v) && t.dtype == dtype && dense) {
    if (const auto index = delinearize(offset, t.sizes, t.strides, exprs().extent_of())) return element(v, *index);
    for (size_t d = 0; d < t.sizes.size() && !split_; ++d)
      if (t.sizes[d] != 1) ask_split(offset, t.strides[d]);
    if (split_) return exprs().constant(dtype, int64_t{0});
  }
  return exprs().load(store(v), dtype, offset);
}

void Lowering::ask_split(const Index& e, int64_t k) {
  if (k <= 0) return;
  for (const auto& [atom, c] : e.terms) {
    if (atom < 0 || c <= 0 || c % k == 0 || k % c != 0) continue;
    const int64_t inner = k / c, extent = exprs().extent(atom);
    if (extent > inner && extent % inner == 0) {
      split_ = Split{atom, inner};
      return;
    }
  }
}

Index Lowering::modulo(const Index& e, int64_t k) {
  if (auto m = loops::modulo(e, k, exprs().extent_of())) return *m;
  if (!split_) ask_split(e, k);
  PRECAST_CHECK(split_, "a modulo that is not affine");
  return {};
}

// ---- Defining ----

void Lowering::refine(Indices& index, std::vector<Atom>& space, std::vector<Atom>& reduced,
                      const std::function<void()>& build) {
  for (;;) {
    split_.reset();
    build();
    if (!split_) return;
    const Atom high = exprs().variable(exprs().extent(split_->variable) / split_->inner);
    const Atom low = exprs().variable(split_->inner);
    const Index whole = Index::atom(high, split_->inner) + Index::atom(low);
    const Atom old = split_->variable;
    for (Index& i : index)
      i = loops::substitute(i, [&](Atom a) { return a == old ? std::optional(whole) : std::nullopt; });
    for (auto* list : {&space, &reduced}) {
      const auto at = std::find(list->begin(), list->end(), old);
      if (at == list->end()) continue;
      *at = high;
      list->insert(at + 1, low);
    }
  }
}

int Lowering::add_step(Step step, const std::vector<int64_t>& sizes, const std::vector<int64_t>& order_strides,
                       const std::vector<bool>& reduced, const std::function<void(Step&, const Indices&)>& prepare) {
  std::vector<size_t> order(sizes.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) { return order_strides[a] > order_strides[b]; });
  Indices index(sizes.size());
  int64_t volume = 1;
  for (const size_t d : order) {
    volume *= sizes[d];
    if (sizes[d] == 1) continue;
    const Atom v = exprs().variable(sizes[d]);
    index[d] = Index::atom(v);
    (!reduced.empty() && reduced[d] ? step.reduced : step.space).push_back(v);
  }
  if (loops::volume(step.space, exprs()) == 0) return -1;
  const int64_t outer_volume = std::exchange(volume_, volume);
  const auto outer_split = std::exchange(split_, std::nullopt);
  refine(index, step.space, step.reduced, [&] { prepare(step, index); });
  volume_ = outer_volume;
  split_ = outer_split;
  program_.steps.push_back(std::move(step));
  return static_cast<int>(program_.steps.size()) - 1;
}

int Lowering::map(BufferId b, std::string what, const std::vector<int64_t>& sizes, const std::vector<int64_t>& strides,
                  int64_t offset, ir::Dtype dtype, const Element& f) {
  Step s;
  s.what = std::move(what), s.buffer = b, s.dtype = dtype;
  return add_step(std::move(s), sizes, strides, {}, [&](Step& step, const Indices& index) {
    step.body = f(index);
    step.at = linearize(index, strides) + Index(offset);
  });
}

void Lowering::define(ir::ValueId v, std::string what, Element f) {
  const ir::Type& t = type(v);
  // Look at the whole expression once, as it would stand in a kernel.
  Indices index;
  std::vector<Atom> space, none;
  for (const int64_t size : t.sizes) {
    index.push_back(size == 1 ? Index() : Index::atom(exprs().variable(size)));
    if (size != 1) space.push_back(index.back().terms[0].first);
  }
  ExprId body = -1;
  const int64_t outer_volume = std::exchange(volume_, t.numel());
  const auto outer_split = std::exchange(split_, std::nullopt);
  if (t.numel() > 0) refine(index, space, none, [&] { body = f(index); });
  volume_ = outer_volume;
  split_ = outer_split;
  double cost = 0;
  int loads = 0;
  bool from_inputs = true;
  if (body >= 0)
    exprs().visit(body, [&](ExprId e) {
      const Expr& x = exprs()[e];
      cost += operation_cost(x);
      if (x.kind != Expr::Kind::load) return;
      ++loads;
      from_inputs &= program_.buffers[static_cast<size_t>(x.buffer)].place == Buffer::Place::input;
    });
  definitions_[v] = {std::move(what), std::move(f), cost};
  const bool inline_it = uses_[static_cast<size_t>(v)] <= 1 ? cost <= 200 && loads <= 12
                                                            : (loads == 0 && cost <= 12) || (loads == 1 && from_inputs && cost <= 2);
  if (!inline_it) store(v);
}

BufferId Lowering::new_buffer(const ir::Type& t) {
  Buffer b;
  b.type = t;
  b.bytes = t.span_bytes();
  program_.buffers.push_back(std::move(b));
  return static_cast<BufferId>(program_.buffers.size()) - 1;
}

BufferId Lowering::make_buffer(ir::ValueId v) {
  definitions_.erase(v);
  return buffer_of_[static_cast<size_t>(v)] = new_buffer(type(v));
}

BufferId Lowering::store(ir::ValueId v) {
  BufferId& b = buffer_of_[static_cast<size_t>(v)];
  if (b >= 0) return b;
  const ir::Type& t = type(v);
  if (views_.contains(v)) {
    if (!has_lanes(t.dtype)) return b = copy(v);
    const BufferId window = new_buffer(t);
    map(window, "copy", without_repeats(t), t.strides, 0, t.dtype, [&](const Indices& i) { return element(v, i); });
    return buffer_of_[static_cast<size_t>(v)] = window;
  }
  const auto d = definitions_.find(v);
  PRECAST_CHECK(d != definitions_.end(), "%" + std::to_string(v) + " is read before it is computed");
  const Definition definition = d->second;
  const BufferId made = new_buffer(t);
  map(made, definition.what, t.sizes, t.strides, 0, t.dtype, definition.element);
  definitions_.erase(v);
  return buffer_of_[static_cast<size_t>(v)] = made;
}

std::vector<int> Lowering::writers(BufferId b) const {
  std::vector<int> found;
  for (size_t i = 0; i < program_.steps.size(); ++i)
    if (program_.steps[i].buffer == b) found.push_back(static_cast<int>(i));
  return found;
}

// ---- Host ops ----

HostOperand Lowering::operand(ir::ValueId v) {
  const auto view = views_.find(v);
  if (view == views_.end()) return {store(v), 0};
  HostOperand base = operand(view->second.base);
  base.offset_bytes += view->second.offset_bytes;
  return base;
}

void Lowering::host(const ir::Node& n, std::string why) {
  Step step;
  step.kind = Step::Kind::host;
  step.what = n.op;
  step.host_op = static_cast<int>(host_ops.size());
  emit::HostOp host_op{n.op, std::move(why), {}};
  ir::Graph& g = host_op.graph;
  ir::Node copy = n;
  std::map<ir::ValueId, ir::ValueId> inner;
  const auto import = [&](ir::ValueId& v) {
    if (v == ir::kNoValue) return;
    auto [it, fresh] = inner.emplace(v, ir::kNoValue);
    if (fresh) {
      it->second = g.add_value(type(v));
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
    case u16: case c32: t.dtype = t.dtype == u16 ? i16 : i32; break;
    case u32: t.dtype = i32; break;
    case u64: case c64: t.dtype = i64; break;
    case c128:
      t.dtype = i64;
      for (int64_t& s : t.strides) s *= 2;
      t.sizes.push_back(2), t.strides.push_back(1);
      break;
    default: break;
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
  }
}

BufferId Lowering::copy(ir::ValueId v) {
  const HostOperand source = operand(v);
  const ir::Type bits = as_bits(type(v));
  const int64_t offset = source.offset_bytes / ir::itemsize(bits.dtype);
  const BufferId made = new_buffer(type(v));
  map(made, "copy", without_repeats(bits), bits.strides, 0, bits.dtype, [&](const Indices& index) {
    return exprs().load(source.buffer, bits.dtype, linearize(index, bits.strides) + Index(offset));
  });
  return made;
}

// ---- Arguments ----

namespace {

const ir::Attr& argument(const ir::Node& n, std::string_view arg) {
  const ir::Attr* a = n.find(arg);
  PRECAST_CHECK(a, n.op + " has no argument " + std::string(arg));
  return *a;
}

}  // namespace

ir::ValueId tensor(const ir::Node& n, std::string_view arg) {
  const auto* r = std::get_if<ir::Ref>(&argument(n, arg));
  return r ? r->id : ir::kNoValue;
}

int64_t integer(const ir::Node& n, std::string_view arg) {
  const auto* i = std::get_if<int64_t>(&argument(n, arg));
  return i ? *i : static_cast<int64_t>(number(n, arg));
}

double number(const ir::Node& n, std::string_view arg) {
  const ir::Attr& a = argument(n, arg);
  if (auto* b = std::get_if<bool>(&a)) return *b;
  if (auto* d = std::get_if<double>(&a)) return *d;
  PRECAST_CHECK(std::holds_alternative<int64_t>(a), n.op + ": " + std::string(arg) + " is not a number");
  return static_cast<double>(std::get<int64_t>(a));
}

bool flag(const ir::Node& n, std::string_view arg) { return number(n, arg) != 0; }

std::vector<int64_t> integers(const ir::Node& n, std::string_view arg) {
  const ir::Attr& a = argument(n, arg);
  if (auto* one = std::get_if<int64_t>(&a)) return {*one};
  const auto* list = std::get_if<std::vector<int64_t>>(&a);
  return list ? *list : std::vector<int64_t>{};
}

ir::ValueId result(const ir::Node& n) { return n.outs[0].id; }

}  // namespace precast::loops
