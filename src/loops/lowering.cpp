#include "loops/lowering.h"

#include <algorithm>
#include <numeric>
#include <set>

#include "passes/passes.h"
#include "util/errors.h"

namespace precast::loops {

namespace {

const Rules& rules() {
  static const auto& table = *new Rules([] {
    Rules r;
    add_pointwise_rules(r);
    add_reduction_rules(r);
    add_matrix_rules(r);
    add_attention_rules(r);
    add_recurrent_rules(r);
    add_order_rules(r);
    add_ctc_rules(r);
    add_index_rules(r);
    add_shape_rules(r);
    return r;
  }());
  return table;
}

bool has_lanes(ir::Dtype t) {
  using enum ir::Dtype;
  switch (t) {
    case u8:
    case i8:
    case i16:
    case i32:
    case i64:
    case f16:
    case f32:
    case f64:
    case b8:
    case bf16:
      return true;
    default:
      return false;
  }
}

/// Empty when kernels can hold the tensor.
std::string obstacle(const ir::Type& t) {
  if (ir::is_complex(t.dtype)) return "complex numbers have no kernels";
  if (!has_lanes(t.dtype)) return "dtype " + std::string(ir::name(t.dtype)) + " has no kernels";
  if (t.device.type != 0) return "device " + ir::name(t.device);
  if (t.conj || t.neg) return "lazy conjugate or negative bit";
  return {};
}

bool is_random(std::string_view op) {
  for (const char* word : {"rand", "dropout", "bernoulli", "multinomial", "normal_", "uniform", "exponential_",
                           "geometric_", "log_normal", "cauchy", "poisson", "binomial", "aten::normal"})
    if (op.find(word) != std::string_view::npos) return true;
  return false;
}

constexpr const char* kSolver = "a matrix factorization or solver";
constexpr const char* kDataSize = "data-dependent size";
/// What is left to the host for good: parts of names, and why.
constexpr std::pair<std::string_view, const char*> kLeftToHost[] = {
    {"fft", "FFT"},
    {"svd", kSolver},
    {"_qr", kSolver},
    {"geqrf", kSolver},
    {"linalg_lu", kSolver},
    {"cholesky", kSolver},
    {"_eig", kSolver},
    {"lstsq", kSolver},
    {"solve", kSolver},
    {"linalg_inv", kSolver},
    {"linalg_det", kSolver},
    {"linalg_matrix_exp", kSolver},
    {"quantize", "quantized"},
    {"nonzero", kDataSize},
    {"unique", kDataSize},
    {"masked_select", kDataSize},
    {"bincount", kDataSize},
    {"repeat_interleave", kDataSize},
};

}  // namespace

Lowering::Lowering(const ir::Graph& g) : graph(g), buffer_of_(g.values.size(), -1) {}

Program Lowering::run() {
  program_.symbols = graph.symbols;
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
  join_in_place();
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
    for (const ir::Shared& s : n->shared) ++uses_[static_cast<size_t>(s.base)];
  }
}

std::string Lowering::reason(const ir::Node& n) const {
  if (is_random(n.op)) return "random";
  for (const auto& [part, why] : kLeftToHost)
    if (n.op.find(part) != n.op.npos && !passes::core_family(n.op)) return why;
  const std::string why = passes::why_kept(graph, n);
  return why.empty() ? "no lowering rule" : why;
}

void Lowering::lower(const ir::Node& n) {
  if (n.op == "prim::view") {
    views_[n.outs[0].id] = {tensor(n, "base"), integer(n, "offset")};
    ++lowered;
    return;
  }
  std::string why;
  const auto rule = rules().find(n.op);
  if (rule == rules().end() || !n.writes.empty() || !n.shared.empty()) why = reason(n);
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
    if (apply(rule->second, n)) {
      ++lowered;
      return;
    }
    why = passes::why_kept(graph, n);
    if (why.empty()) why = refusal;
  }
  host(n, why);
}

bool Lowering::apply(Rule rule, const ir::Node& n) {
  const auto made = static_cast<std::ptrdiff_t>(program_.steps.size());
  try {
    return rule(*this, n);
  } catch (const ir::Undecided& u) {
    refusal = "dynamic size: " + u.expression;
  }
  volume_ = 0, packs_ = false, split_.reset();
  for (const ir::Out& o : n.outs) {
    if (o.id == ir::kNoValue) continue;
    definitions_.erase(o.id), kept_of.erase(o.id);
    buffer_of_[static_cast<size_t>(o.id)] = -1;
  }
  // Operands that were stored on the way stay.
  std::set<BufferId> stored(buffer_of_.begin(), buffer_of_.end());
  const auto begin = program_.steps.begin() + made;
  program_.steps.erase(
      std::remove_if(begin, program_.steps.end(), [&](const Step& s) { return !stored.contains(s.buffer); }),
      program_.steps.end());
  return false;
}

// ---- Reading ----

ExprId Lowering::element(ir::ValueId v, const Indices& index) {
  if (const auto view = views_.find(v); view != views_.end()) {
    const ir::Type& t = type(v);
    if (const auto offset = ir::divide(view->second.offset_bytes, ir::itemsize(t.dtype)))
      return read(view->second.base, linearize(index, t.strides) + Index(*offset), t.dtype);
    PRECAST_CHECK(false, "a view is not aligned to its dtype");
  }
  const auto d = definitions_.find(v);
  if (buffer_of_[static_cast<size_t>(v)] < 0 && d != definitions_.end()) {
    const bool dear = d->second.cost > 12 || (d->second.turns && !packs_);
    const bool repeated = dear && volume_.hint() >= 4 * std::max<int64_t>(type(v).numel().hint(), 1);
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
    const auto start = ir::divide(view->second.offset_bytes, ir::itemsize(dtype));
    PRECAST_CHECK(start, "a view is not aligned to its dtype");
    return read(view->second.base, offset + Index(*start), dtype);
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

void Lowering::ask_split(const Index& e, const Size& k) {
  if (k == 0 || k.lower() < 0) return;
  for (const auto& [atom, c] : e.terms) {
    if (atom < 0 || c.lower() < 0 || ir::divide(c, k)) continue;
    const auto inner = ir::divide(k, c);
    if (!inner) continue;
    const Size extent = exprs().extent(atom);
    if (extent != 0 && extent != *inner && ir::divide(extent, *inner)) {
      split_ = Split{atom, *inner};
      return;
    }
  }
}

Index Lowering::modulo(const Index& e, const Size& k) {
  if (auto m = loops::modulo(e, k, exprs().extent_of())) return *m;
  if (!split_) ask_split(e, k);
  if (!split_ && (k.is_symbolic() || range(e, exprs().extent_of()).high.is_symbolic()))
    throw ir::Undecided{"a modulo by " + ir::to_string(k)};
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
    const Atom high = exprs().variable(*ir::divide(exprs().extent(split_->variable), split_->inner));
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

int Lowering::add_step(Step step, const Dims& sizes, const Dims& order_strides, const std::vector<bool>& reduced,
                       const std::function<void(Step&, const Indices&)>& prepare) {
  std::vector<size_t> order(sizes.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](size_t a, size_t b) { return ir::roughly_less(order_strides[b], order_strides[a]); });
  Indices index(sizes.size());
  Size volume = 1;
  for (const size_t d : order) {
    volume *= sizes[d];
    if (sizes[d] == 1) continue;
    const Atom v = exprs().variable(sizes[d]);
    index[d] = Index::atom(v);
    (!reduced.empty() && reduced[d] ? step.reduced : step.space).push_back(v);
  }
  if (loops::volume(step.space, exprs()) == 0) return -1;
  const Size outer_volume = std::exchange(volume_, volume);
  const bool outer_packs = std::exchange(packs_, step.kind == Step::Kind::matmul);
  const auto outer_split = std::exchange(split_, std::nullopt);
  refine(index, step.space, step.reduced, [&] { prepare(step, index); });
  volume_ = outer_volume;
  packs_ = outer_packs;
  split_ = outer_split;
  program_.steps.push_back(std::move(step));
  return static_cast<int>(program_.steps.size()) - 1;
}

int Lowering::map(BufferId b, std::string what, const Dims& sizes, const Dims& strides, Size offset, ir::Dtype dtype,
                  const Element& f) {
  Step s;
  s.what = std::move(what), s.buffer = b, s.dtype = dtype;
  return add_step(std::move(s), sizes, strides, {}, [&](Step& step, const Indices& index) {
    step.body = f(index);
    step.at = linearize(index, strides) + Index(offset);
  });
}

/// A cast of something in memory that takes more memory than that.
bool Lowering::widens(ExprId e) const {
  if (e < 0 || program_.exprs[e].kind != Expr::Kind::cast) return false;
  const Expr& from = program_.exprs[program_.exprs[e].args[0]];
  return from.kind == Expr::Kind::load && ir::itemsize(from.dtype) < ir::itemsize(program_.exprs[e].dtype);
}

namespace {

/// The variable that walks from an element of t to the next one in memory; -1 if there is none.
Atom fastest(const Indices& index, const ir::Type& t) {
  for (size_t d = 0; d < t.sizes.size(); ++d)
    if (t.sizes[d] != 1 && t.strides[d] == 1)
      for (const auto& [atom, coefficient] : index[d].terms)
        if (atom >= 0 && coefficient == 1) return atom;
  return -1;
}

}  // namespace

void Lowering::define(ir::ValueId v, std::string what, Element f) {
  const ir::Type& t = type(v);
  // Look at the whole expression once, as it would stand in a kernel.
  Indices index;
  std::vector<Atom> space, none;
  for (const Size& size : t.sizes) {
    index.push_back(size == 1 ? Index() : Index::atom(exprs().variable(size)));
    if (size != 1) space.push_back(index.back().terms[0].first);
  }
  ExprId body = -1;
  const Size outer_volume = std::exchange(volume_, t.numel());
  const auto outer_split = std::exchange(split_, std::nullopt);
  if (t.numel() != 0) refine(index, space, none, [&] { body = f(index); });
  volume_ = outer_volume;
  split_ = outer_split;
  double cost = 0;
  int loads = 0;
  bool from_inputs = true, turns = false;
  const Atom fast = fastest(index, t);
  if (body >= 0)
    exprs().visit(body, [&](ExprId e) {
      const Expr& x = exprs()[e];
      cost += operation_cost(x);
      if (x.kind != Expr::Kind::load) return;
      ++loads;
      turns |= fast >= 0 && x.at.coefficient(fast).hint() > 1;
      from_inputs &= program_.buffers[static_cast<size_t>(x.buffer)].place == Buffer::Place::input;
    });
  definitions_[v] = {std::move(what), std::move(f), cost, turns};
  const bool inline_it = uses_[static_cast<size_t>(v)] <= 1
                             ? cost <= 200 && loads <= 12
                             : (loads == 0 && cost <= 12) || (loads == 1 && from_inputs && cost <= 2) || widens(body);
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

void Lowering::add_routine(std::string what, Routine r, std::vector<HostOperand> reads, std::vector<BufferId> writes) {
  Step s;
  s.kind = Step::Kind::routine;
  s.what = std::move(what);
  s.dtype = r.dtype;
  s.routine = std::make_shared<const Routine>(std::move(r));
  s.operands = std::move(reads);
  s.results = std::move(writes);
  program_.steps.push_back(std::move(s));
}

HostOperand Lowering::rows(ir::ValueId v, Dims& strides) {
  const ir::Type t = type(v);
  strides = t.strides;
  if (t.strides.back() == 1 || t.sizes.back().upper() <= 1) return operand(v);
  strides = ir::contiguous_strides(t.sizes);
  return dense(v);
}

HostOperand Lowering::dense(ir::ValueId v) {
  const ir::Type t = type(v);
  if (t.is_contiguous()) return operand(v);
  const ir::Type whole = ir::contiguous(t.dtype, t.sizes);
  const BufferId copy = new_buffer(whole);
  map(copy, "copy", whole.sizes, whole.strides, 0, t.dtype, [&](const Indices& i) { return element(v, i); });
  return {copy, 0};
}

std::vector<int> Lowering::writers(BufferId b) const {
  std::vector<int> found;
  for (size_t i = 0; i < program_.steps.size(); ++i)
    if (program_.steps[i].buffer == b) found.push_back(static_cast<int>(i));
  return found;
}

}  // namespace precast::loops
