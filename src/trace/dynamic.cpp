#include "trace/dynamic.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/index_select.h>
#include <ATen/ops/zeros.h>
#include <c10/core/impl/LocalDispatchKeySet.h>

#include <algorithm>

#include "host_torch/tensor_types.h"
#include "trace/geometry.h"
#include "trace/marks.h"
#include "trace/random_state.h"
#include "trace/torch_internals.h"
#include "util/errors.h"

namespace precast::trace {

using ir::Size;

namespace {

std::string first_line(const std::string& text) { return text.substr(0, text.find('\n')); }

std::string geometry_text(const at::Tensor& t) { return c10::str(t.sizes(), t.strides(), t.storage_offset()); }

/// Strides of the layout that the tensor has; nothing for one that is neither contiguous nor channels last.
std::optional<ir::Dims> strides_like(const at::Tensor& t, const ir::Dims& sizes) {
  if (t.is_contiguous()) return ir::contiguous_strides(sizes);
  const bool last = (t.dim() == 4 && t.is_contiguous(at::MemoryFormat::ChannelsLast)) ||
                    (t.dim() == 5 && t.is_contiguous(at::MemoryFormat::ChannelsLast3d));
  if (!last) return {};
  ir::Dims moved = sizes, strides(sizes.size());
  std::rotate(moved.begin() + 1, moved.begin() + 2, moved.end());
  const ir::Dims dense = ir::contiguous_strides(moved);
  strides[0] = dense[0];
  strides[1] = dense.back();
  for (size_t d = 2; d < sizes.size(); ++d) strides[d] = dense[d - 1];
  return strides;
}

}  // namespace

bool Dynamic::wanted(const Sources& s) {
  return std::any_of(s.user.begin(), s.user.end(), [](const Source& u) { return marks_of(u.tensor).any(); });
}

Dynamic::Dynamic(const Sources& sources)
    : sources_(sources), symbols_(std::make_shared<Symbols>()), tensors_(std::make_shared<SymTensors>()) {
  tensors_->symbols = symbols_;
  for (const Source& p : sources.params)
    had_gradient_.push_back(p.tensor.defined() && p.tensor.is_leaf() && p.tensor.grad().defined());
  read_marks();
}

Dynamic::~Dynamic() { end(nullptr); }

const Source& Dynamic::source(int index) const {
  auto i = static_cast<size_t>(index);
  if (i < sources_.params.size()) return sources_.params[i];
  i -= sources_.params.size();
  if (i < sources_.buffers.size()) return sources_.buffers[i];
  return sources_.user.at(i - sources_.buffers.size());
}

int Dynamic::count_sources() const {
  return static_cast<int>(sources_.params.size() + sources_.buffers.size() + sources_.user.size());
}

void Dynamic::read_marks() {
  std::map<std::string, int> groups;
  std::map<const void*, size_t> seen;
  for (size_t u = 0; u < sources_.user.size(); ++u) {
    const Source& user = sources_.user[u];
    const Marks marks = marks_of(user.tensor);
    if (!marks.any()) continue;
    if (marks.dynamic)
      refuse(Check::dynamic_mark, user.name +
                                      " is marked with mark_dynamic, and a size that is guarded on needs a "
                                      "compiler at every call; use mark_unbacked, or leave the dim as it is");
    if (const auto [at, is_new] = seen.try_emplace(user.tensor.unsafeGetTensorImpl(), marked_.size()); !is_new) {
      marked_[at->second].users.push_back(u);
      continue;
    }
    if (std::string kind = unsupported_kind(user.tensor); !kind.empty())
      refuse(Check::input_kind, user.name + " is " + kind + "; only plain strided CPU tensors can be recorded");
    Marked& m = marked_.emplace_back();
    m.users = {u};
    m.real = user.tensor;
    m.type = host_torch::type_of(user.tensor);
    for (const auto& [dim, mark] : marks.unbacked) {
      const std::string where = user.name + ", dim " + std::to_string(dim);
      if (mark.specialize_on)
        refuse(Check::dynamic_mark, where +
                                        " is marked with specialize_on, and there is one artifact for all sizes; "
                                        "leave specialize_on out");
      if (dim >= user.tensor.dim())
        refuse(Check::dynamic_mark, where + " is marked, and the tensor has only " + std::to_string(user.tensor.dim()) +
                                        " dims now; mark it again");
      const int64_t real = user.tensor.size(dim);
      ir::Symbol symbol;
      symbol.min = mark.min.value_or(0);
      symbol.max = mark.max.value_or(ir::Symbol::kUnbounded);
      symbol.hint = mark.hint_override.value_or(real);
      if (real < symbol.min || real > symbol.max)
        refuse(Check::dynamic_bounds, where + ": the size is " + std::to_string(real) +
                                          ", outside of its own bounds, " + std::to_string(symbol.min) + " to " +
                                          (mark.max ? std::to_string(symbol.max) : "any") +
                                          "; pass an example within them, or change the mark");
      int id = -1;
      if (mark.shape_id) {
        const auto [at, is_new] = groups.try_emplace(*mark.shape_id, -1);
        if (is_new) at->second = symbols_->add(symbol, real, where);
        id = at->second;
        Symbols::One& one = symbols_->all[static_cast<size_t>(id)];
        if (one.real != real)
          refuse(Check::dynamic_group, where + " is " + std::to_string(real) + " and " + one.where + " is " +
                                           std::to_string(one.real) + ", and both are marked as '" + *mark.shape_id +
                                           "', one size; mark them apart, or pass equal sizes");
        one.symbol.min = std::max(one.symbol.min, symbol.min);
        one.symbol.max = std::min(one.symbol.max, symbol.max);
      } else {
        id = symbols_->add(symbol, real, where);
      }
      m.type.sizes[static_cast<size_t>(dim)] = symbols_->size(id);
    }
  }
  for (Marked& m : marked_) {
    for (Size& s : m.type.sizes) s = symbols_->canonical(s);  // with the bounds of the whole group
    const std::string& name = sources_.user[m.users[0]].name;
    const auto strides = strides_like(m.real, m.type.sizes);
    if (!strides || m.type.conj || m.type.neg)
      refuse(Check::dynamic_layout, name +
                                        " has a marked dim, and a layout that is neither contiguous nor channels last; "
                                        "pass it as contiguous(), or do not mark it");
    m.type.strides = *strides;
    for (int i = 0; i < count_sources(); ++i) {
      const at::Tensor& other = source(i).tensor;
      if (other.defined() && other.has_storage() && other.unsafeGetTensorImpl() != m.real.unsafeGetTensorImpl() &&
          m.real.numel() > 0 && other.storage().unsafeGetStorageImpl() == m.real.storage().unsafeGetStorageImpl())
        refuse(Check::dynamic_layout, name + " has a marked dim, and shares its memory with " + source(i).name +
                                          "; pass a copy (.clone()), or do not mark it");
    }
  }
}

// ---- The call

void Dynamic::begin() {
  c10::impl::ExcludeDispatchKeyGuard unrecorded(kRecordingKey);
  at::NoGradGuard no_grad;
  const auto add_base = [&](const at::Tensor& t, int source, int gradient_of) -> Base& {
    const int id = storage_id(t);
    const int64_t end = host_torch::type_of(t).span_bytes() + t.storage_offset() * static_cast<int64_t>(t.itemsize());
    for (Base& b : bases_)
      if (b.storage == id) {
        b.end = std::max(b.end, end);
        return b;
      }
    bases_.push_back({id, source, gradient_of, false, t.storage(), end});
    return bases_.back();
  };
  for (int i = 0; i < count_sources(); ++i) {
    const at::Tensor& t = source(i).tensor;
    if (!t.defined()) continue;
    add_base(t, i, -1);
    if (i < static_cast<int>(sources_.params.size()) && t.is_leaf() && t.grad().defined()) add_base(t.grad(), -1, i);
  }
  for (Marked& m : marked_) {
    m.contents = host_torch::clone_bytes(m.real);
    for (Base& b : bases_)
      if (b.storage == storage_id(m.real)) b.marked = true;
  }
  for (const Base& b : bases_)
    if (!b.marked) fixed_ends_[b.storage] = b.end;
  restart(5);
  for (Marked& m : marked_) {
    m.stand_in = at::Tensor(c10::make_intrusive<SymTensor>(tensors_, m.real, m.type, Size(m.real.storage_offset())));
    if (m.real.requires_grad()) m.stand_in.requires_grad_(true);
    if (m.real.grad().defined()) m.stand_in.mutable_grad() = m.real.grad();
    for (size_t u : m.users) {
      PRECAST_CHECK(sources_.user[u].handle, "a marked argument without a handle");
      *sources_.user[u].handle = m.stand_in;
    }
  }
}

void Dynamic::end(std::vector<Leaf>* results) {
  if (std::exchange(ended_, true)) return;
  c10::impl::ExcludeDispatchKeyGuard unrecorded(kRecordingKey);
  try {
    if (results) {
      for (const Leaf& leaf : *results) {
        leaves_.push_back({{}, leaf.value, leaf.is_tensor});
        results_.push_back(leaf.is_tensor ? leaving(leaf.tensor, "result " + std::to_string(results_.size()))
                                          : Leaving());
      }
      for (size_t i = 0; i < sources_.params.size(); ++i) {
        const at::Tensor& p = sources_.params[i].tensor;
        gradients_.push_back(
            p.defined() && p.is_leaf() ? leaving(p.grad(), "the gradient of " + sources_.params[i].name) : Leaving());
      }
    }
  } catch (...) {
    tensors_->thaw();
    throw;
  }
  tensors_->thaw();
  shadows_.clear();
  for (Marked& m : marked_) {
    if (!m.stand_in.defined()) continue;
    for (size_t u : m.users) {
      at::Tensor& handle = *sources_.user[u].handle;
      if (handle.unsafeGetTensorImpl() == m.stand_in.unsafeGetTensorImpl()) handle = m.real;
    }
    if (results)
      for (Leaf& leaf : *results)
        if (leaf.is_tensor && leaf.tensor.unsafeGetTensorImpl() == m.stand_in.unsafeGetTensorImpl())
          leaf.tensor = m.real;
    if (m.stand_in.grad().unsafeGetTensorImpl() != m.real.grad().unsafeGetTensorImpl())
      m.real.mutable_grad() = m.stand_in.grad();  // refused by who looks at gradients
    m.stand_in = at::Tensor();
  }
}

int Dynamic::storage_id(const at::Tensor& t) {
  auto* impl = t.storage().unsafeGetStorageImpl();
  const auto [at, is_new] = storages_.try_emplace(
      impl, Known{c10::weak_intrusive_ptr<c10::StorageImpl>(t.storage().getWeakStorageImpl()), next_storage_});
  if (is_new) ++next_storage_;
  return at->second.id;
}

/// Forgets storages that are gone.
void Dynamic::sweep() {
  for (auto at = storages_.begin(); at != storages_.end();) {
    const bool base =
        std::any_of(bases_.begin(), bases_.end(), [&](const Base& b) { return b.storage == at->second.id; });
    if (base || !at->second.weak.expired()) {
      ++at;
      continue;
    }
    for (LogRun& s : shadows_) s.forget(at->second.id);
    at = storages_.erase(at);
  }
}

Place Dynamic::place_of(const at::Tensor& t, const std::string& reader) {
  Place p;
  if (!t.defined() || !t.has_storage()) return p;
  if (auto* sym = SymTensor::of(t)) {
    p.storage = storage_id(t);
    p.type = sym->type();
    p.offset = sym->offset();
    return p;
  }
  const auto at = storages_.find(t.storage().unsafeGetStorageImpl());
  if (at == storages_.end() || t.unsafeGetTensorImpl()->is_wrapped_number()) {
    p.number = t;  // the recorder knows whether it may be read
    return p;
  }
  p.storage = at->second.id;
  p.type = host_torch::type_of(t);
  p.offset = t.storage_offset();
  for (const Base& b : bases_)
    if (b.marked && b.storage == p.storage && !plain_views_.contains(geometry_text(t)))
      symbols_->refuse(Check::dynamic_alias, reader + " reads " + source(b.source).name +
                                                 ", which has a marked dim, through another handle than the function's "
                                                 "argument (a captured variable); use the argument");
  return p;
}

Dynamic::Leaving Dynamic::leaving(const at::Tensor& t, const std::string& what) {
  Leaving l;
  if (!t.defined() || !t.has_storage()) return l;
  l.object = t.unsafeGetTensorImpl();
  for (const Marked& m : marked_)
    if (m.stand_in.unsafeGetTensorImpl() == l.object)
      l.source = static_cast<int>(sources_.params.size() + sources_.buffers.size() + m.users[0]);
  for (int i = 0; i < count_sources(); ++i)
    if (l.source < 0 && source(i).tensor.unsafeGetTensorImpl() == l.object) l.source = i;
  if (l.source < 0) l.place = place_of(t, what);
  return l;
}

void Dynamic::run(const c10::OperatorHandle& op, const OpInfo& info, torch::jit::Stack* stack,
                  const std::function<void()>& call) {
  LogEntry e(op);
  e.info = &info;
  const size_t n = info.args.size(), first = stack->size() - n;
  std::vector<at::Tensor> symbolic, ordinary;  // in step
  bool open = false;
  const auto take = [&](const at::Tensor& t, size_t arg, int item) {
    e.operands.push_back({arg, item, place_of(t, info.name), info.args[arg].writes || info.args[arg].hidden_write});
    auto* sym = SymTensor::of(t);
    if (!sym || !sym->is_live()) return t;
    open = true;
    for (size_t i = 0; i < symbolic.size(); ++i)
      if (symbolic[i].unsafeGetTensorImpl() == sym) return ordinary[i];
    symbolic.push_back(t);
    ordinary.push_back(sym->plain());
    return ordinary.back();
  };
  for (size_t i = 0; i < n; ++i) {
    c10::IValue& v = (*stack)[first + i];
    c10::IValue kept = v;
    if (v.isTensor()) {
      if (v.toTensor().defined()) {
        v = take(v.toTensor(), i, -1);
        kept = {};
      }
    } else if (info.args[i].kind == ArgInfo::Kind::tensors && v.isList()) {
      const auto items = v.toListRef();
      e.lists.emplace_back(i, items.size());
      const bool optional = !v.isTensorList();
      c10::List<at::Tensor> plain;
      c10::List<std::optional<at::Tensor>> plain_optional;
      int place = 0;
      for (const c10::IValue& item : items) {
        at::Tensor t = item.isNone() ? at::Tensor() : item.toTensor();
        if (t.defined()) t = take(t, i, place);
        ++place;
        if (optional)
          plain_optional.push_back(t.defined() ? std::optional(t) : std::nullopt);
        else
          plain.push_back(t);
      }
      v = optional ? c10::IValue(std::move(plain_optional)) : c10::IValue(std::move(plain));
      kept = {};
    } else if (v.isSymInt()) {
      e.integers.push_back({i, -1, symbols_->from_sym(v.toSymInt())});
      v = symbols_->real(e.integers.back().value);
      kept = v;
    } else if (v.isSymFloat()) {
      v = kept = v.toSymFloat().guard_float(__FILE__, __LINE__);
    } else if (v.isSymBool()) {
      v = kept = v.toSymBool().guard_bool(__FILE__, __LINE__);
    } else if (v.isList() && v.toListRef().size() > 0 &&
               std::any_of(v.toListRef().begin(), v.toListRef().end(), [](auto& x) { return x.isSymInt(); })) {
      std::vector<int64_t> real;
      for (const c10::IValue& item : v.toListRef()) {
        const Size s = item.isSymInt() ? symbols_->from_sym(item.toSymInt()) : Size(item.toInt());
        e.integers.push_back({i, static_cast<int>(real.size()), s});
        real.push_back(symbols_->real(s));
      }
      v = kept = real;
    }
    e.stack.push_back(std::move(kept));
  }
  for (const auto& x : e.integers) {
    open = open || x.value.is_symbolic();
    expressions_.push_back(x.value);
    fit_->know(x.value);
  }
  if (open && (info.reshapes || info.resizes))
    symbols_->refuse(Check::dynamic_op, info.name +
                                            " changes the shape of a tensor whose sizes are open (mark_unbacked)" +
                                            calling_place() + "; use the operation that returns a new tensor");
  check_slice(e);
  call();
  if (info.reshapes || info.metadata_only) return;
  std::vector<at::Tensor> results;
  for (size_t r = stack->size() - info.returns; r < stack->size(); ++r)
    for (at::Tensor& t : tensors_in((*stack)[r])) results.push_back(std::move(t));
  for (const at::Tensor& t : results) {
    const bool there = t.defined() && t.has_storage();
    e.results.push_back(there ? storage_id(t) : -1);
  }
  log_.push_back(std::move(e));
  std::vector<std::vector<at::Tensor>> seen;
  step_all(log_.back(), seen);
  const LogEntry& entry = log_.back();
  size_t next = 0;
  std::vector<Place> places;
  const auto put = [&](at::Tensor t) {
    const size_t i = next++;
    if (!t.defined() || entry.results[i] < 0) {
      places.emplace_back();
      return t;
    }
    for (size_t k = 0; k < ordinary.size(); ++k)
      if (ordinary[k].unsafeGetTensorImpl() == t.unsafeGetTensorImpl()) t = symbolic[k];
    if (!SymTensor::of(t)) {
      std::vector<at::Tensor> here;
      for (const auto& list : seen) here.push_back(list.at(i));
      t = wrap(t, here, entry, entry.results[i]);
    }
    places.push_back(place_of(t, info.name));
    return t;
  };
  for (size_t r = stack->size() - info.returns; r < stack->size(); ++r) {
    c10::IValue& v = (*stack)[r];
    if (v.isTensor())
      v = put(v.toTensor());
    else if (v.isTensorList()) {
      c10::List<at::Tensor> list;
      for (at::Tensor& t : v.toTensorVector()) list.push_back(put(std::move(t)));
      v = std::move(list);
    }
  }
  places_.push_back(std::move(places));
  if (log_.size() % 64 == 0) sweep();
}

/// A slice ends at the end of its tensor, whatever it was asked for: which of the two it is must be known.
void Dynamic::check_slice(const LogEntry& e) {
  if (e.info->name != "aten::slice.Tensor" || e.operands.empty()) return;
  const ir::Dims& sizes = e.operands[0].place.type.sizes;
  const int64_t rank = static_cast<int64_t>(sizes.size()), dim = e.stack[1].toInt();
  const Size size = symbols_->canonical(sizes.at(static_cast<size_t>(dim < 0 ? dim + rank : dim)));
  constexpr int64_t kEnd = std::numeric_limits<int64_t>::max() / 2;
  for (size_t a : {2, 3}) {
    const auto open = std::find_if(e.integers.begin(), e.integers.end(), [&](auto& x) { return x.arg == a; });
    if (open == e.integers.end() && !e.stack[a].isInt()) continue;
    Size at = open == e.integers.end() ? Size(e.stack[a].toInt()) : symbols_->canonical(open->value);
    if (!at.is_symbolic() && (at == 0 || int64_t{at} >= kEnd || int64_t{at} <= -kEnd)) continue;
    if (!at.is_symbolic() && int64_t{at} < 0) at = -at;
    if (!at.is_symbolic() && !size.is_symbolic()) continue;
    const Truth within{.kind = Truth::Kind::at_most, .a = at, .b = size};
    if (symbols_->decide(within).value_or(false)) continue;
    if (!size.is_symbolic() && at.lower() >= 0 && bound(at, size)) continue;
    if (!at.is_symbolic()) symbols_->refuse_guard("whether " + within.text(), symbols_->origins(size));
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

at::Tensor Dynamic::wrap(const at::Tensor& real, const std::vector<at::Tensor>& seen, const LogEntry& e, int storage) {
  const auto same = [&](const at::Tensor& t) {
    return t.sizes() == real.sizes() && t.strides() == real.strides() && t.storage_offset() == real.storage_offset();
  };
  const std::string& op = e.info->name;
  for (const at::Tensor& t : seen)
    if (t.dim() != real.dim())
      symbols_->refuse(Check::dynamic_op, op + " makes a tensor of another number of dims at other sizes (" +
                                              c10::str(t.sizes()) + ", " + c10::str(real.sizes()) + ")" +
                                              calling_place());
  const bool one_size = std::all_of(seen.begin(), seen.end(), [&](const at::Tensor& t) {
    return t.storage().nbytes() == seen[0].storage().nbytes();
  });
  if (one_size) fixed_ends_.try_emplace(storage, static_cast<int64_t>(seen[0].storage().nbytes()));
  if (std::all_of(seen.begin(), seen.end(), same)) {
    if (!fixed_ends_.contains(storage)) plain_views_.insert(geometry_text(real));
    return real;
  }
  ir::Type type = host_torch::type_of(real);
  const auto column = [&](auto&& number) {
    std::vector<int64_t> v;
    for (const at::Tensor& t : seen) v.push_back(number(t));
    return v;
  };
  const auto dims = static_cast<size_t>(real.dim());
  for (size_t d = 0; d < dims; ++d) {
    const auto at = static_cast<int64_t>(d);
    type.sizes[d] = fitted(column([&](const at::Tensor& t) { return t.size(at); }), e, "size");
    if (symbols_->real(type.sizes[d]) != real.size(at))
      symbols_->refuse(Check::dynamic_op, op + " makes a size of " + ir::to_string(type.sizes[d]) +
                                              " in general, and one of " + std::to_string(real.size(at)) +
                                              " in this call" + calling_place() + "; capture with larger sizes");
  }
  if (std::all_of(seen.begin(), seen.end(), [](const at::Tensor& t) { return t.is_contiguous(); }))
    type.strides = ir::contiguous_strides(type.sizes);
  else
    for (size_t d = 0; d < dims; ++d)
      type.strides[d] =
          fitted(column([&](const at::Tensor& t) { return t.stride(static_cast<int64_t>(d)); }), e, "stride");
  const Size offset = fitted(column([](const at::Tensor& t) { return t.storage_offset(); }), e, "storage offset");
  for (const auto* list : {&type.sizes, &type.strides})
    for (const Size& s : *list) expressions_.push_back(s), fit_->know(s);
  at::Tensor t(c10::make_intrusive<SymTensor>(tensors_, real, std::move(type), offset));
  return t;
}

Size Dynamic::fitted(const std::vector<int64_t>& seen, const LogEntry& e, const char* what) {
  ir::Dims from;
  for (const auto& o : e.operands)
    for (const Size& s : o.place.type.sizes) from.push_back(symbols_->canonical(s));
  for (const auto& x : e.integers) from.push_back(x.value);
  if (auto s = (*fit_)(seen, from)) return *s;
  std::string numbers;
  for (size_t p = 0; p < seen.size(); ++p) {
    numbers += (p ? ", " : "") + std::to_string(seen[p]) + " at ";
    for (size_t i = 0; i < fit_->points()[p].size(); ++i)
      if (symbols_->root(static_cast<int>(i)) == static_cast<int>(i))
        numbers += "u" + std::to_string(i) + "=" + std::to_string(fit_->points()[p][i]) + " ";
    numbers.pop_back();
  }
  symbols_->refuse(Check::dynamic_op, e.info->name + " makes a tensor whose " + what +
                                          " is no simple expression of the marked sizes (" + numbers + ")" +
                                          calling_place() + "; do not mark that dim");
  throw PrecompileError("unreachable");
}

// ---- The other sizes

at::Tensor Dynamic::contents_at(const Marked& m, const Point& p) const {
  std::vector<int64_t> sizes;
  for (const Size& s : m.type.sizes) sizes.push_back(symbols_->at(s, p).value());
  at::Tensor t = m.contents;
  for (size_t d = 0; d < sizes.size(); ++d) {
    const auto dim = static_cast<int64_t>(d);
    if (t.size(dim) == sizes[d]) continue;
    if (t.size(dim) == 0) {
      std::vector<int64_t> now = t.sizes().vec();
      now[d] = sizes[d];
      t = at::zeros(now, t.options());
    } else {
      t = t.index_select(dim, at::arange(sizes[d]).remainder(t.size(dim)));
    }
  }
  return t;
}

void Dynamic::start(LogRun& run) const {
  for (const Base& b : bases_)
    if (!b.marked) run.set(b.storage, b.real, /*shared=*/true);
  for (const Marked& m : marked_) {
    const int id = storages_.at(m.real.storage().unsafeGetStorageImpl()).id;
    // Laid out as the mark says, after as many elements as in the call.
    const at::Tensor contents = contents_at(m, run.point());
    ir::Type type = m.type;
    for (Size& s : type.sizes) s = symbols_->at(s, run.point()).value();
    for (Size& s : type.strides) s = symbols_->at(s, run.point()).value();
    const int64_t offset = m.real.storage_offset() * ir::itemsize(type.dtype);
    const at::Tensor memory = at::zeros({offset + std::max<int64_t>(type.span_bytes(), 0)}, at::kByte);
    run.set(id, memory.storage(), false);
    host_torch::copy_window(tensor_at(memory.storage(), {type, offset}), contents);
  }
}

void Dynamic::restart(int64_t least) {
  c10::impl::ExcludeDispatchKeyGuard unrecorded(kRecordingKey);
  least_ = least;
  std::vector<Point> points = general_points(*symbols_, least);
  if (points.empty())
    refuse(Check::dynamic_bounds,
           "the bounds of a marked dim leave fewer than three sizes; do not mark it, or capture "
           "once for each size");
  fit_ = std::make_unique<Fit>(symbols_, points);
  for (const Size& s : expressions_) fit_->know(s);
  tensors_->general = points[0];
  shadows_.clear();
  for (Point& p : points) {
    LogRun& run = shadows_.emplace_back(*symbols_, std::move(p));
    start(run);
  }
  changes_ = symbols_->changes;
}

/// Runs the newest entry at all points.
void Dynamic::step_all(const LogEntry& e, std::vector<std::vector<at::Tensor>>& results) {
  const KeepRandomState keep(e.info->random);
  results.clear();
  std::string failure;
  if (changes_ != symbols_->changes) {
    failure = "sizes turned out to be one";
  } else {
    try {
      for (LogRun& s : shadows_) results.push_back(s.step(e));
      return;
    } catch (const std::exception& x) {
      failure = first_line(x.what());
    }
  }
  recover(e.info->name, failure, results);
}

/// An op that works in the call does not at other sizes: some of them have to be equal, or larger.
void Dynamic::recover(const std::string& op, const std::string& failure,
                      std::vector<std::vector<at::Tensor>>& results) {
  const KeepRandomState keep(true);
  const auto works = [&](int64_t least) {
    try {
      restart(least);
      for (const LogEntry& e : log_) {
        results.clear();
        for (LogRun& s : shadows_) results.push_back(s.step(e));
      }
      return true;
    } catch (const PrecompileError&) {
      if (least == least_ && shadows_.empty()) throw;
      return false;
    } catch (const std::exception&) {
      return false;
    }
  };
  if (changes_ != symbols_->changes && works(least_)) return;
  std::vector<std::pair<int, int>> pairs;
  const int n = static_cast<int>(symbols_->all.size());
  for (int i = 0; i < n; ++i)
    for (int j = i + 1; j < n; ++j)
      if (symbols_->root(i) == i && symbols_->root(j) == j &&
          symbols_->all[static_cast<size_t>(i)].real == symbols_->all[static_cast<size_t>(j)].real)
        pairs.emplace_back(i, j);
  const std::vector<Symbols::One> before = symbols_->all;
  const auto with = [&](std::initializer_list<size_t> chosen) {
    symbols_->all = before;
    for (size_t c : chosen) symbols_->join(pairs[c].first, pairs[c].second);
    return works(least_);
  };
  for (size_t a = 0; a < pairs.size(); ++a)
    if (with({a})) return;
  for (size_t a = 0; a < pairs.size(); ++a)
    for (size_t b = 0; b < a; ++b)
      if (with({a, b})) return;
  symbols_->all = before;
  int64_t largest = 0;
  for (const Symbols::One& one : symbols_->all) largest = std::max(largest, one.real);
  for (const int64_t least : {int64_t{17}, int64_t{65}, int64_t{257}, (largest / 12 + 1) * 12 + 5})
    if (least > least_ && least <= std::max<int64_t>(largest * 2, 65) && works(least)) return;
  symbols_->refuse(Check::dynamic_op, op + " works at the sizes of this call and not at others of the marked dims" +
                                          calling_place() + ": " + failure +
                                          ". Do not mark that dim, or give it bounds");
}

}  // namespace precast::trace
