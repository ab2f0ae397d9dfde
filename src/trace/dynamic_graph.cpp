// The end of a recording with open sizes: its ops are recorded at several sizes, and at small ones they are tried.
#include <algorithm>

#include "host_torch/empty_ops.h"
#include "host_torch/tensor_types.h"
#include "trace/dynamic.h"
#include "trace/geometry.h"
#include "trace/random_state.h"
#include "trace/torch_internals.h"
#include "util/errors.h"

namespace precast::trace {

using ir::Size;

namespace {

/// After which entry nobody needs a storage any more.
std::vector<std::vector<int>> last_uses(const OpLog& log, const std::vector<int>& kept) {
  std::unordered_map<int, size_t> last;
  for (size_t i = 0; i < log.size(); ++i) {
    for (const auto& o : log[i].operands) last[o.place.storage] = i;
    for (int r : log[i].results) last[r] = i;
  }
  for (int k : kept) last.erase(k);
  std::vector<std::vector<int>> dead(log.size());
  for (const auto& [storage, i] : last) dead[i].push_back(storage);
  return dead;
}

}  // namespace

/// The recorded ops at other sizes, recorded as if they were the function.
Recording Dynamic::record_at(const Point& point) {
  LogRun run(*symbols_, point);
  run.recorded = true;
  start(run);
  std::vector<int> kept;
  for (const Base& b : bases_) {
    kept.push_back(b.storage);
    if (b.marked || b.gradient_of >= 0) continue;
    const int64_t size = static_cast<int64_t>(b.real.nbytes());
    at::Tensor all = tensor_at(b.real, {ir::contiguous(ir::Dtype::u8, {size}), 0});
    run.set(b.storage, host_torch::clone_bytes(all).storage(), false);
  }
  Sources sources;
  std::map<const void*, at::Tensor> objects;
  std::vector<at::Tensor> tensors;
  for (int i = 0; i < count_sources(); ++i) {
    const Source& real = source(i);
    at::Tensor& t = tensors.emplace_back();
    if (real.tensor.defined()) {
      at::Tensor& object = objects[real.tensor.unsafeGetTensorImpl()];
      if (!object.defined()) {
        Place p{storages_.at(real.tensor.storage().unsafeGetStorageImpl()).id,
                host_torch::type_of(real.tensor),
                real.tensor.storage_offset(),
                {}};
        for (const Marked& m : marked_)
          if (m.real.unsafeGetTensorImpl() == real.tensor.unsafeGetTensorImpl()) p.type = m.type;
        object =
            at::Tensor(run.tensor(p).unsafeGetTensorImpl()->shallow_copy_and_detach(c10::VariableVersion(0), true));
        object.unsafeGetTensorImpl()->set_autograd_meta(nullptr);
        if (real.tensor.requires_grad()) object.requires_grad_(true);
        if (i < static_cast<int>(had_gradient_.size()) && had_gradient_[static_cast<size_t>(i)])
          object.mutable_grad() = host_torch::clone_bytes(object.detach());
      }
      t = object;
    }
    auto& list = i < static_cast<int>(sources_.params.size())                             ? sources.params
                 : i < static_cast<int>(sources_.params.size() + sources_.buffers.size()) ? sources.buffers
                                                                                          : sources.user;
    list.push_back({t, real.name});
  }
  for (const auto* list : {&results_, &gradients_})
    for (const Leaving& l : *list) kept.push_back(l.place.storage);
  const auto dead = last_uses(log_, kept);
  const auto fn = [&] {
    for (const Base& b : bases_)
      if (b.gradient_of >= 0) {
        const at::Tensor& grad = tensors[static_cast<size_t>(b.gradient_of)].grad();
        PRECAST_CHECK(grad.defined(), "a parameter has a gradient in the call and none at other sizes");
        run.set(b.storage, grad.storage(), false);
      }
    for (size_t i = 0; i < log_.size(); ++i) {
      run.step(log_[i]);
      for (int d : dead[i]) run.forget(d);
    }
    std::map<const void*, at::Tensor> leaving;
    const auto tensor = [&](const Leaving& l) -> at::Tensor {
      if (!l.object) return {};
      if (l.source >= 0) return tensors[static_cast<size_t>(l.source)];
      at::Tensor& t = leaving[l.object];
      if (!t.defined()) t = run.tensor(l.place);
      return t;
    };
    std::vector<Leaf> leaves = leaves_;
    for (size_t i = 0; i < leaves.size(); ++i) leaves[i].tensor = tensor(results_[i]);
    for (size_t i = 0; i < gradients_.size(); ++i) {
      const at::Tensor& parameter = tensors[i];
      const Leaving& l = gradients_[i];
      if (!parameter.defined()) continue;
      const bool in_place = std::any_of(bases_.begin(), bases_.end(), [&](const Base& b) {
        return b.gradient_of == static_cast<int>(i) && b.storage == l.place.storage && l.object;
      });
      if (!in_place && (l.object || parameter.grad().defined())) parameter.mutable_grad() = tensor(l);
    }
    run.clear();
    return leaves;
  };
  Options options;
  options.verify = false;
  options.keep_gradients = true;
  return record(sources, fn, options);
}

std::optional<Dynamic::Trouble> Dynamic::run_at(const Point& point, bool harmless) {
  LogRun run(*symbols_, point);
  run.trial = true;
  start(run, harmless);
  for (const TruthPtr& t : symbols_->assumed)
    if (!t->at([&](const Size& s) { return symbols_->at(s, point).value_or(-1); })) return Trouble{t->text(), false};
  const auto dead = last_uses(log_, {});
  for (size_t i = 0; i < log_.size(); ++i) {
    std::vector<at::Tensor> results;
    try {
      const auto& operands = log_[i].operands;
      const bool nothing =
          !operands.empty() && host_torch::has_nothing_to_do(log_[i].info->name, run.tensor(operands[0].place));
      results = nothing ? run.assume(log_[i], places_[i]) : run.step(log_[i]);
    } catch (const std::exception& e) {
      return Trouble{log_[i].info->name + ": " + e.what(), false};
    }
    if (std::string wrong = differs(i, results, point); !wrong.empty()) return Trouble{std::move(wrong), true};
    for (int d : dead[i]) run.forget(d);
  }
  return {};
}

/// What holds in general must hold for sizes of 0, 1, 2 and 3, too. What eager refuses there the symbol excludes.
void Dynamic::check_small() {
  for (const TruthPtr& t : symbols_->assumed)
    for (const Point& p : fit_->points())
      if (!t->at([&](const Size& s) { return symbols_->at(s, p).value_or(-1); }))
        refuse(Check::dynamic_guard, "the function needs " + t->text() +
                                         ", which LibTorch checks, and which the bounds of "
                                         "the marked dims do not say; give them bounds");
  const auto try_at = [&](const Point& p, const std::string& where) {
    auto trouble = run_at(p);
    // Indices of the call may be too large for fewer rows, which says nothing about the size.
    if (trouble && !trouble->differs) trouble = run_at(p, /*harmless=*/true);
    if (trouble && trouble->differs)
      refuse(Check::dynamic_op, "the function does something else where " + where + ": " + trouble->what +
                                    ". Give the mark bounds without that size, or do not mark the dim");
    return !trouble;
  };
  const Point general = fit_->points()[0];
  Point all = general;
  for (size_t i = 0; i < symbols_->all.size(); ++i) {
    if (symbols_->root(static_cast<int>(i)) != static_cast<int>(i)) continue;
    ir::Symbol& symbol = symbols_->all[i].symbol;
    int64_t last_bad = -1;
    for (int64_t v = symbol.min; v < general[i] && (v <= 3 || last_bad == v - 1) && v <= symbol.max; ++v) {
      Point p = general;
      p[i] = v;
      if (!try_at(p, "u" + std::to_string(i) + " is " + std::to_string(v))) last_bad = v;
    }
    if (last_bad >= symbols_->all[i].real)
      refuse(Check::dynamic_op, "the function works at a size of " + std::to_string(symbols_->all[i].real) + " for " +
                                    symbols_->all[i].where + ", and its operations do not when they run again");
    symbol.min = std::max(symbol.min, last_bad + 1);
  }
  for (int64_t v : {0, 1, 2}) {
    for (size_t i = 0; i < all.size(); ++i) {
      const ir::Symbol& s = symbols_->all[static_cast<size_t>(symbols_->root(static_cast<int>(i)))].symbol;
      all[i] = std::clamp(v, s.min, s.max);
    }
    try_at(all, "all marked sizes are " + std::to_string(v) + " or their least");
  }
}

/// A window on memory of a known size bounds the sizes that it is made of.
void Dynamic::bound_windows() {
  for (const LogEntry& e : log_)
    for (const auto& o : e.operands) {
      const auto fixed = fixed_ends_.find(o.place.storage);
      if (fixed == fixed_ends_.end() || (!o.place.type.is_symbolic() && !o.place.offset.is_symbolic())) continue;
      const Size end =
          symbols_->canonical((o.place.offset * ir::itemsize(o.place.type.dtype)) + o.place.type.span_bytes());
      std::vector<int> inside;
      end.for_each_symbol([&](const ir::Symbol& s) {
        if (std::find(inside.begin(), inside.end(), s.id) == inside.end()) inside.push_back(s.id);
      });
      if (inside.size() == 1) bound(end, fixed->second);  // several: the driver sees
    }
}

namespace {

template <class F>
void for_each_size(ir::Type& t, F&& f) {
  for (Size& s : t.sizes) f(s);
  for (Size& s : t.strides) f(s);
}
template <class F>
void for_each_size(ir::Graph& g, F&& f) {
  const auto in = [&](ir::Attr& a) {
    if (auto s = ir::as_size(a))
      f(*s), a = ir::Attr(*s);
    else if (auto l = ir::as_dims(a)) {
      for (Size& s : *l) f(s);
      a = ir::Attr(*l);
    }
  };
  for (ir::Value& v : g.values) for_each_size(v.type, f);
  for (ir::Node& n : g.nodes) {
    for (ir::Arg& a : n.args) in(a.value);
    for (ir::Shared& s : n.shared)
      for (ir::Shared::View& v : s.views) f(v.offset_bytes), for_each_size(v.type, f);
  }
}

}  // namespace

void Dynamic::generalize(ir::Graph& graph, artifact::Signature& signature) {
  const KeepRandomState keep(true);
  check_small();
  bound_windows();
  for (const auto& places : places_)
    for (const Place& p : places)
      for (const Size& s : {p.offset * ir::itemsize(p.type.dtype), p.type.numel(), p.type.span_bytes()}) fit_->know(s);
  std::vector<ir::Graph> graphs;
  std::vector<artifact::Signature> signatures;
  for (const Point& p : fit_->points()) {
    Recording r = record_at(p);
    graphs.push_back(std::move(r.graph));
    signatures.push_back(std::move(r.signature));
  }
  ir::Graph general = unify(graphs, *fit_);
  take_conditions(graph, general);
  unify(signatures, *fit_, signature);
  const auto canonical = [&](Size& s) { s = symbols_->canonical(s); };
  for_each_size(general, canonical);
  for (const Marked& m : marked_)
    for (size_t u : m.users) signature.leaves.at(u).tensor.type = m.type;
  for (artifact::UserLeaf& leaf : signature.leaves) for_each_size(leaf.tensor.type, canonical);
  for (artifact::Result& r : signature.results) for_each_size(r.type, canonical), canonical(r.offset_bytes);
  for (artifact::Gradient& g : signature.grads)
    if (g.part) for_each_size(g.part->type, canonical), canonical(g.part->offset_bytes);
  for (size_t i = 0; i < symbols_->all.size(); ++i)
    if (symbols_->root(static_cast<int>(i)) == static_cast<int>(i)) general.symbols.push_back(symbols_->all[i].symbol);
  graph = std::move(general);
}

}  // namespace precast::trace
