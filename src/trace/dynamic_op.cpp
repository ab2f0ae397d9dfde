// One op of a call with open sizes: it runs on ordinary tensors, and its results show what size they have in general.
#include <algorithm>

#include "host_torch/tensor_types.h"
#include "precast/error.h"
#include "trace/dynamic.h"
#include "util/errors.h"

namespace precast::trace {

using ir::Size;

/// The tensors of one op with open sizes, and the ordinary ones that its kernel sees in their place.
struct Dynamic::Swapped {
  std::vector<at::Tensor> symbolic, ordinary;  // in step

  at::Tensor ordinary_of(const at::Tensor& t, const SymTensor& sym) {
    for (size_t i = 0; i < symbolic.size(); ++i)
      if (symbolic[i].unsafeGetTensorImpl() == &sym) return ordinary[i];
    symbolic.push_back(t);
    ordinary.push_back(sym.plain());
    return ordinary.back();
  }
  const at::Tensor& symbolic_of(const at::Tensor& t) const {
    for (size_t i = 0; i < ordinary.size(); ++i)
      if (ordinary[i].unsafeGetTensorImpl() == t.unsafeGetTensorImpl()) return symbolic[i];
    return t;
  }
};

/// Puts ordinary tensors and numbers on the stack, and what they stand for into the entry. Whether a size is open.
bool Dynamic::take_arguments(LogEntry& e, torch::jit::Stack* stack, Swapped& swapped) {
  const OpInfo& info = *e.info;
  const size_t n = info.args.size(), first = stack->size() - n;
  bool open = false;
  const auto tensor = [&](const at::Tensor& t, size_t arg, int item) {
    if (!t.defined()) return t;
    e.operands.push_back({arg, item, place_of(t, info.name), info.args[arg].writes || info.args[arg].hidden_write});
    auto* sym = SymTensor::of(t);
    if (!sym || !sym->is_live()) return t;
    open = true;
    return swapped.ordinary_of(t, *sym);
  };
  const auto size = [&](const c10::IValue& v, size_t arg, int item) {
    const Size s = v.isSymInt() ? symbols_->from_sym(v.toSymInt()) : Size(v.toInt());
    e.integers.push_back({arg, item, s});
    expressions_.push_back(s);
    fit_->know(s);
    open = open || s.is_symbolic();
    return symbols_->real(s);
  };
  for (size_t i = 0; i < n; ++i) {
    c10::IValue& v = (*stack)[first + i];
    if (v.isTensor()) {
      v = tensor(v.toTensor(), i, -1);
      e.stack.push_back(v.toTensor().defined() ? c10::IValue() : v);
      continue;
    }
    if (info.args[i].kind == ArgInfo::Kind::tensors && v.isList()) {
      c10::List<at::Tensor> plain;
      c10::List<std::optional<at::Tensor>> optional;
      const auto items = v.toListRef();
      for (int k = 0; k < static_cast<int>(items.size()); ++k) {
        const c10::IValue& item = items[static_cast<size_t>(k)];
        const at::Tensor t = tensor(item.isNone() ? at::Tensor() : item.toTensor(), i, k);
        plain.push_back(t);
        optional.push_back(t.defined() ? std::optional(t) : std::nullopt);
      }
      e.lists.emplace_back(i, items.size());
      v = v.isTensorList() ? c10::IValue(std::move(plain)) : c10::IValue(std::move(optional));
      e.stack.emplace_back();
      continue;
    }
    if (v.isSymInt()) v = size(v, i, -1);
    if (v.isSymFloat()) v = v.toSymFloat().guard_float(__FILE__, __LINE__);
    if (v.isSymBool()) v = v.toSymBool().guard_bool(__FILE__, __LINE__);
    if (v.isList()) {
      const auto items = v.toListRef();
      if (std::any_of(items.begin(), items.end(), [](const c10::IValue& x) { return x.isSymInt(); })) {
        std::vector<int64_t> real;
        for (const c10::IValue& item : items) real.push_back(size(item, i, static_cast<int>(real.size())));
        v = real;
      }
    }
    e.stack.push_back(v);
  }
  return open;
}

void Dynamic::run(const c10::OperatorHandle& op, const OpInfo& info, torch::jit::Stack* stack,
                  const std::function<void()>& call) {
  LogEntry taken(op);
  taken.info = &info;
  Swapped swapped;
  if (take_arguments(taken, stack, swapped) && (info.reshapes || info.resizes))
    symbols_->refuse(Check::dynamic_op, info.name +
                                            " changes the shape of a tensor whose sizes are open (mark_unbacked)" +
                                            calling_place() + "; use the operation that returns a new tensor");
  check_slice(taken);
  check_split(taken);
  call();
  if (info.reshapes || info.metadata_only) return;
  for (size_t r = stack->size() - info.returns; r < stack->size(); ++r)
    for (const at::Tensor& t : tensors_in((*stack)[r]))
      taken.results.push_back(t.defined() && t.has_storage() ? storage_id(t) : -1);
  log_.push_back(std::move(taken));
  Results seen;
  step_all(log_.back(), seen);
  settle(seen);
  std::vector<Place>& places = places_.emplace_back();
  const auto give = [&](at::Tensor t) {
    const LogEntry& e = log_.back();
    const size_t i = places.size();
    if (e.results[i] >= 0) {
      t = swapped.symbolic_of(t);
      if (!SymTensor::of(t)) t = wrap({t, i, seen}, e, e.results[i]);
    }
    places.push_back(place_of(t, info.name));
    return t;
  };
  for (size_t r = stack->size() - info.returns; r < stack->size(); ++r) {
    c10::IValue& v = (*stack)[r];
    if (v.isTensor()) v = give(v.toTensor());
    if (v.isTensorList()) {
      c10::List<at::Tensor> list;
      for (const at::Tensor& t : v.toTensorVector()) list.push_back(give(t));
      v = std::move(list);
    }
  }
  if (log_.size() % 64 == 0) sweep();
}

/// A slice ends at the end of its tensor, whatever it was asked for: which of the two it is must be known.
void Dynamic::check_slice(const LogEntry& e) {
  if (e.info->name != "aten::slice.Tensor" || e.operands.empty()) return;
  const ir::Dims& sizes = e.operands[0].place.type.sizes;
  const int64_t rank = static_cast<int64_t>(sizes.size()), dim = e.stack[1].toInt();
  const Size size = symbols_->canonical(sizes.at(static_cast<size_t>(dim < 0 ? dim + rank : dim)));
  const bool computed = window_geometry(e).has_value();  // then a number is cut off as LibTorch does
  constexpr int64_t kEnd = std::numeric_limits<int64_t>::max() / 2;
  for (size_t a : {2, 3}) {
    const auto open = std::find_if(e.integers.begin(), e.integers.end(), [&](auto& x) { return x.arg == a; });
    if (open == e.integers.end() && !e.stack[a].isInt()) continue;
    Size at = open == e.integers.end() ? Size(e.stack[a].toInt()) : symbols_->canonical(open->value);
    if (!at.is_symbolic() && computed && (a == 2) == (int64_t{at} > 0)) continue;
    if (!at.is_symbolic() && (at == 0 || int64_t{at} >= kEnd || int64_t{at} <= -kEnd)) continue;
    if (!at.is_symbolic() && int64_t{at} < 0) at = -at;
    if (!at.is_symbolic() && !size.is_symbolic()) continue;
    const Truth within{.kind = Truth::Kind::at_most, .a = at, .b = size};
    const auto says = [&](auto&& self, const Truth& t) -> bool {
      if (t.kind == Truth::Kind::both) return self(self, *t.left) || self(self, *t.right);
      return t.kind == Truth::Kind::at_most && symbols_->canonical(t.b - t.a) == symbols_->canonical(size - at);
    };
    const auto& assumed = symbols_->assumed;  // narrow() refuses what a slice would cut off
    if (std::any_of(assumed.begin(), assumed.end(), [&](const TruthPtr& t) { return says(says, *t); }) ||
        symbols_->decide(within).value_or(false))
      continue;
    if (!size.is_symbolic() && at.lower() >= 0 && bound(at, size)) continue;
    if (!at.is_symbolic()) symbols_->refuse_guard("whether " + within.text(), symbols_->origins(size));
  }
}

/// How many pieces of a fixed length there are is the same at all sizes that were tried, and not at larger ones.
void Dynamic::check_split(const LogEntry& e) {
  if (e.info->name != "aten::split.Tensor" && e.info->name != "aten::unsafe_split.Tensor") return;
  if (!e.stack[1].isInt() || std::any_of(e.integers.begin(), e.integers.end(), [](auto& x) { return x.arg == 1; }))
    return;  // a length that follows the size
  const ir::Dims& sizes = e.operands[0].place.type.sizes;
  const int64_t rank = static_cast<int64_t>(sizes.size()), dim = e.stack[2].toInt(), length = e.stack[1].toInt();
  const Size size = symbols_->canonical(sizes.at(static_cast<size_t>(dim < 0 ? dim + rank : dim)));
  if (!size.is_symbolic() || length < 1) return;
  const int64_t pieces = (std::max<int64_t>(symbols_->real(size), 1) + length - 1) / length;
  for (const auto& [least, most] : {std::pair{Size((pieces - 1) * length + 1), size}, {size, Size(pieces * length)}}) {
    if (pieces == 1 && most == size) continue;  // of nothing there is one piece, too
    const Truth within{.kind = Truth::Kind::at_most, .a = least, .b = most};
    if (!symbols_->decide(within).value_or(false))
      symbols_->refuse_guard("whether " + within.text(), symbols_->origins(size));
  }
}

/// Bounds the only symbol of `s` so that it is at most `most`, as it is in the call.
bool Dynamic::bound(const Size& s, int64_t most) {
  int id = -1;
  bool one = true;
  s.for_each_symbol([&](const ir::Symbol& u) { one = one && (id < 0 || id == u.id), id = u.id; });
  if (!one || symbols_->real(s) > most) return false;
  const auto fits = [&](int64_t v) {
    const auto at = s.value([&](const ir::Symbol&) { return v; });
    return at && *at <= most;
  };
  Symbols::One& symbol = symbols_->all[static_cast<size_t>(id)];
  int64_t good = symbol.real, bad = good + 1;
  while (fits(bad) && bad < (int64_t{1} << 40)) good = bad, bad *= 2;
  if (fits(bad)) return true;
  while (bad - good > 1) (fits((good + bad) / 2) ? good : bad) = (good + bad) / 2;
  if (good >= symbol.symbol.max) return true;
  symbol.symbol.max = good;
  ++symbols_->changes;  // the sizes at which ops are tried may be too large now
  return true;
}

std::vector<at::Tensor> Dynamic::Result::seen() const {
  std::vector<at::Tensor> tensors;
  for (const auto& list : all) tensors.push_back(list.at(index));
  return tensors;
}

/// The geometry that LibTorch's formula gives, with the points that tell its sizes apart.
std::optional<Geometry> Dynamic::computed(const LogEntry& e, const Result& result) {
  auto g = result.index == 0 ? window_geometry(e) : std::nullopt;
  if (!g) return {};
  for (Size& s : g->sizes) {
    s = symbols_->canonical(s);
    if (!s.is_symbolic()) continue;
    expressions_.push_back(s), fit_->know(s);
    settle(result.all);
    enlarge(s, result.all);
  }
  if (g->offset) g->offset = symbols_->canonical(*g->offset);
  const std::vector<at::Tensor> seen = result.seen();
  for (size_t p = 0; p < seen.size(); ++p) {
    const auto same = [&](const Size& s, int64_t v) { return symbols_->at(s, fit_->points()[p]) == v; };
    bool holds = static_cast<int64_t>(g->sizes.size()) == seen[p].dim();
    for (size_t d = 0; holds && d < g->sizes.size(); ++d)
      holds = same(g->sizes[d], seen[p].size(static_cast<int64_t>(d)));
    holds = holds && (!g->offset || same(*g->offset, seen[p].storage_offset()));
    PRECAST_CHECK(holds, "a window has another size than its formula gives");
  }
  return g;
}

at::Tensor Dynamic::wrap(const Result& result, const LogEntry& e, int storage) {
  const at::Tensor& real = result.real;
  const auto geometry = computed(e, result);
  const std::vector<at::Tensor> seen = result.seen();
  const auto same = [&](const at::Tensor& t) {
    return t.sizes() == real.sizes() && t.strides() == real.strides() && t.storage_offset() == real.storage_offset();
  };
  const std::string& op = e.info->name;
  for (const at::Tensor& t : seen)
    if (t.dim() != real.dim())
      symbols_->refuse(Check::dynamic_op, op + " makes a tensor of another number of dims at other sizes (" +
                                              c10::str(t.sizes()) + ", " + c10::str(real.sizes()) + ")" +
                                              calling_place() + "; do not mark that dim");
  const bool one_size = std::all_of(seen.begin(), seen.end(), [&](const at::Tensor& t) {
    return t.storage().nbytes() == seen[0].storage().nbytes();
  });
  if (one_size) fixed_ends_.try_emplace(storage, static_cast<int64_t>(seen[0].storage().nbytes()));
  if (std::all_of(seen.begin(), seen.end(), same)) {
    if (!fixed_ends_.contains(storage)) plain_views_.insert(geometry_text(real));
    return real;
  }
  ir::Type type = host_torch::type_of(real);
  const auto dims = static_cast<size_t>(real.dim());
  for (size_t d = 0; d < dims; ++d) {
    const auto at = static_cast<int64_t>(d);
    type.sizes[d] =
        geometry ? geometry->sizes[d] : fitted(result, [&](const at::Tensor& t) { return t.size(at); }, e, "size");
    if (symbols_->real(type.sizes[d]) != real.size(at))
      symbols_->refuse(Check::dynamic_op, op + " makes a size of " + ir::to_string(type.sizes[d]) +
                                              " in general, and one of " + std::to_string(real.size(at)) +
                                              " in this call" + calling_place() +
                                              "; capture with larger sizes, or do not mark that dim");
  }
  if (std::all_of(seen.begin(), seen.end(), [](const at::Tensor& t) { return t.is_contiguous(); }))
    type.strides = ir::contiguous_strides(type.sizes);
  else
    for (size_t d = 0; d < dims; ++d)
      type.strides[d] =
          fitted(result, [&](const at::Tensor& t) { return t.stride(static_cast<int64_t>(d)); }, e, "stride");
  const Size offset = geometry && geometry->offset
                          ? *geometry->offset
                          : fitted(result, [](const at::Tensor& t) { return t.storage_offset(); }, e, "storage offset");
  for (const auto* list : {&type.sizes, &type.strides})
    for (const Size& s : *list) expressions_.push_back(s), fit_->know(s);
  settle(result.all);
  at::Tensor t(c10::make_intrusive<SymTensor>(tensors_, real, std::move(type), offset));
  return t;
}

Size Dynamic::fitted(const Result& result, const std::function<int64_t(const at::Tensor&)>& number, const LogEntry& e,
                     const char* what) {
  ir::Dims from;
  for (const auto& o : e.operands)
    for (const Size& s : o.place.type.sizes) from.push_back(symbols_->canonical(s));
  for (const auto& x : e.integers) from.push_back(x.value);
  std::vector<int64_t> seen;
  while (true) {
    seen.clear();
    for (const at::Tensor& t : result.seen()) seen.push_back(number(t));
    const auto s = (*fit_)(seen, from);
    if (!fit_->needed() && s) return *s;
    if (!fit_->needed()) break;
    settle(result.all);
  }
  std::string numbers;
  for (size_t p = 0; p < seen.size(); ++p) {
    numbers += (p ? ", " : "") + std::to_string(seen[p]) + " at " + symbols_->in_words(fit_->points()[p], " ");
  }
  symbols_->refuse(Check::dynamic_op, e.info->name + " makes a tensor whose " + what +
                                          " is no simple expression of the marked sizes (" + numbers + ")" +
                                          calling_place() + "; do not mark that dim");
  throw RunFailure("the recording cannot go on");
}

}  // namespace precast::trace
