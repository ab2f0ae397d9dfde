#include "jit/compiled_function.h"

#include <ATen/ATen.h>
#include <sys/resource.h>

#include <algorithm>

#include "api/call_arguments.h"
#include "host_torch/error_text.h"
#include "host_torch/module_state.h"
#include "ir/print.h"
#include "jit/compare.h"
#include "jit/log.h"
#include "trace/dispatch.h"
#include "trace/random_state.h"
#include "trace/recorder.h"
#include "util/errors.h"
#include "util/warn.h"

namespace precast::detail {

using jit::count;
using jit::Program;
using jit::ProgramPtr;
using jit::StanceKind;

namespace {

constexpr const char* kNoGraph = " cannot be compiled as one graph: ";

/// For the rest of this thread's life, and of the processes that it starts: whoever else wants the processor gets it.
void step_back() { ::setpriority(PRIO_PROCESS, 0, 19); }  // 0: on Linux, the thread that calls

ProgramPtr lower(jit::Recorded recorded, const jit::Settings& settings) {
  const bool draw = settings.flag("trace.graph_diagram"), ours = settings.backend == "inductor" && !settings.function;
  std::optional<jit::TraceFolder> trace;
  if (draw || settings.flag("trace.enabled")) trace.emplace();
  jit::Lowering lowering{ours ? "inductor" : "eager", settings.function, trace ? &*trace : nullptr, draw,
                         settings.flag("reuse_outputs")};
  lowering.choices.epilogues = settings.flag("epilogue_fusion");
  lowering.choices.padded_rows = settings.flag("shape_padding");
  lowering.autotune = settings.flag("max_autotune");
  auto p = std::make_shared<const Program>(std::move(recorded), lowering);
  for (const std::string& k : p->account().kernel_names) jit::log("fusion", k);
  for (const std::string& h : p->account().host_reasons) jit::log("perf_hints", "runs in LibTorch: " + h);
  if (trace) trace->write("account.txt", jit::in_words(*p));
  return p;
}

}  // namespace

CompiledFunction::CompiledFunction(std::string name, jit::Settings settings)
    : name_(std::move(name)), settings_(std::move(settings)) {}

/// What the call brings, and the variant that serves it, or null.
CompiledFunction::VariantPtr CompiledFunction::look(Seen& s) {
  std::shared_lock lock(mutex_);
  if (!s.arguments.modules.empty() && !(s.model = models_.find(s.arguments, s.tensors))) {
    lock.unlock();
    const auto model = std::make_shared<const jit::Model>(s.arguments);
    model->is(jit::refs(s.arguments), s.tensors);
    s.model = model;
    {
      const std::unique_lock alone(mutex_);
      models_.add(model);
    }
    lock.lock();
  }
  s.bound = s.tensors.size();
  for (const Leaf& leaf : s.arguments.leaves)
    if (leaf.kind == Kind::tensor) s.tensors.push_back(leaf.tensor);
  return search(s, {});
}

CompiledFunction::VariantPtr CompiledFunction::find(const Seen& s, std::span<const VariantPtr> refused) const {
  const std::shared_lock lock(mutex_);
  return search(s, refused);
}

CompiledFunction::VariantPtr CompiledFunction::search(const Seen& s, std::span<const VariantPtr> refused) const {
  const auto serves = [&](const VariantPtr& v) {
    return v->holds(s) && std::ranges::find(refused, v) == refused.end();
  };
  if (const size_t likely = likely_; likely < variants_.size() && serves(variants_[likely])) return variants_[likely];
  const auto at = std::ranges::find_if(variants_, serves);
  return at == variants_.end() ? nullptr : *at;
}

void CompiledFunction::note_likely(const VariantPtr& v) {
  const std::shared_lock lock(mutex_);
  likely_ = static_cast<size_t>(std::ranges::find(variants_, v) - variants_.begin());
}

/// While fn runs: what it writes to members of modules itself is no change to any variant.
class CompiledFunction::OwnChanges {
 public:
  OwnChanges(CompiledFunction& f, const Seen& s) : f_(f), seen_(s) {
    if (s.model) before_.emplace(jit::refs(s.arguments), s.model->objects());
  }
  ~OwnChanges() {
    if (!before_ || before_->hold()) return;
    const std::unique_lock lock(f_.mutex_);
    for (const VariantPtr& v : f_.variants_)
      if (v->members && v->model->objects() == seen_.model->objects()) v->members->follow(*before_);
  }
  OwnChanges(const OwnChanges&) = delete;
  OwnChanges& operator=(const OwnChanges&) = delete;

 private:
  CompiledFunction& f_;
  const Seen& seen_;
  std::optional<jit::MemberBytes> before_;
};

void CompiledFunction::run_eagerly(const EagerCall& eager) {
  ++eager_calls_;
  eager.run(eager.self, nullptr);
}

void CompiledFunction::run_eagerly(const Seen& s, const EagerCall& eager) {
  const OwnChanges changes(*this, s);
  run_eagerly(eager);
}

bool CompiledFunction::call(const Arguments& a, std::span<const std::byte> closure, const EagerCall& eager,
                            CompiledResult& out) {
  if (settings_.disable || jit::stance() == StanceKind::force_eager || trace::is_recording())
    return run_eagerly(eager), false;
  Seen seen{a, closure, jit::Ambient::now(), {}, 0, nullptr};
  VariantPtr v = look(seen);
  std::vector<VariantPtr> refused;
  std::string refusal;
  while (true) {
    for (; v; v = find(seen, refused)) {
      if (v->runs_eagerly) return run_eagerly(seen, eager), false;
      if (settings_.async && !v->is_ready()) return run_eagerly(seen, eager), false;
      if (run(v, seen, eager, out, refusal)) {
        if (!refused.empty()) note_likely(v);
        return out.keeps != nullptr;
      }
      if (v->runs_eagerly) continue;
      refused.push_back(v);
    }
    std::unique_lock lock(recording_, std::try_to_lock);
    if (!lock.owns_lock()) {  // another thread records: it may be this very kind of call
      if (settings_.async) return run_eagerly(seen, eager), false;
      lock.lock();
    }
    if ((v = find(seen, refused))) continue;
    record(seen, eager, refusal);
    return false;
  }
}

/// Calls run eagerly: one warning, or CompileError under fullgraph.
void CompiledFunction::tell_eager(const std::string& why, const std::string& between) {
  if (settings_.fullgraph) throw CompileError(name_ + between + why);
  if (!warned_.exchange(true)) warn("compile: " + name_ + " runs eagerly: " + why);
}

void CompiledFunction::call_unseen(const EagerCall& eager, const std::string& why) {
  if (!settings_.disable) tell_eager(why, kNoGraph);
  run_eagerly(eager);
}

/// Whether the call has been made; the result is in `out`, or the eager call has it. Else says why the variant does not
/// serve it; nothing has changed then.
bool CompiledFunction::run(const VariantPtr& variant, const Seen& s, const EagerCall& eager, CompiledResult& out,
                           std::string& refusal) {
  jit::Variant& v = *variant;
  ProgramPtr p;
  try {
    p = v.program.get();
  } catch (const std::exception& e) {
    const std::string why = "lowering failed: " + host_torch::error_text(e);
    if (v.open.empty()) tell_eager(why);
    const std::unique_lock lock(mutex_);
    if (!v.open.empty()) {  // with sizes as they are it may go
      specialized_ = why;
      std::erase_if(variants_, [&](const VariantPtr& other) { return other.get() == &v; });
    } else if (!v.runs_eagerly) {
      v.give_up(why);
    }
    return false;
  }
  if (*v.unchecked) {
    const std::unique_lock lock(v.checking, std::try_to_lock);
    if (!lock.owns_lock()) return run_eagerly(s, eager), true;
    if (verify(v, s, eager, *p)) {
      *v.unchecked = false;
      return true;
    }
  } else if (settings_.verify_every && (v.hits + 1) % settings_.verify_every == 0 && verify(v, s, eager, *p)) {
    return true;
  }
  out.leaves.resize(p->result_leaves());
  try {
    v.check_model(*p, s);
    p->call(s.arguments, {s.tensors.data(), s.tensors.size()},
            p->differentiable() ? again(variant, s, eager) : jit::Again(), {out.leaves.data(), out.leaves.size()});
  } catch (const BackendError& e) {
    const std::string why = std::string("the backend failed: ") + e.what();
    tell_eager(why);
    const std::unique_lock lock(mutex_);
    if (!v.runs_eagerly) v.give_up(why);
    return false;
  } catch (const PrecompileError& e) {
    refusal = e.what();
    return false;
  }
  ++v.hits;
  out.structure = p->result_structure();
  out.keeps = std::move(p);
  return true;
}

/// The call once more, for gradients of gradients: in the modes that it was made in, or not at all.
jit::Again CompiledFunction::again(const VariantPtr& v, const Seen& s, const EagerCall& eager) {
  auto call = eager.keep(eager.self);
  if (!call) return {};
  return [call = std::move(call), v, ambient = s.ambient,
          modules = std::vector(s.arguments.modules.begin(), s.arguments.modules.end())](const ResultSink& sink) {
    const auto refuse = [](const std::string& what) {
      throw PrecompileError(
          "gradients of gradients (create_graph) through a compiled function: it would be run again, but " + what +
          " since the call; run this step eagerly");
    };
    if (v->model && host_torch::module_modes(modules) != v->model->modes())
      refuse("a module has been put into another mode (train, eval)");
    if (v->members && !v->members->hold()) refuse(v->members->first_change());
    const jit::Ambient now = jit::Ambient::now();
    if (now.deterministic != ambient.deterministic || now.default_dtype != ambient.default_dtype ||
        now.inference != ambient.inference)
      refuse("a mode of the process (deterministic algorithms, default dtype, inference) has changed");
    const jit::AutocastMode as_called(ambient);
    call(sink);
  };
}

/// Runs the compiled call, puts back what it wrote, runs eagerly, and compares. Eager's call is the one that counts.
bool CompiledFunction::verify(jit::Variant& v, const Seen& s, const EagerCall& eager, const Program& p) {
  const artifact::Signature& signature = p.recorded().signature;
  if (!jit::can_be_compared(signature)) return false;
  const jit::Recorded& recorded = p.recorded();
  const at::NoGradGuard no_grad;
  std::vector<std::pair<at::Tensor, at::Tensor>> before;  // what it writes, and its value
  for (const artifact::WriteBack& w : signature.writes) {
    const at::Tensor& t = *s.tensors[static_cast<size_t>(w.source)];
    before.emplace_back(t, t.clone());
  }
  std::optional<trace::KeepRandomState> numbers(std::in_place, recorded.random);
  std::vector<ResultLeaf> leaves(p.result_leaves());
  std::vector<at::Tensor> found, expected;
  try {
    v.check_model(p, s);
    p.call(s.arguments, {s.tensors.data(), s.tensors.size()}, {}, leaves);
    for (const ResultLeaf& leaf : leaves) found.push_back(leaf.tensor);
    const auto gradients = jit::gradients_of(found, recorded, s);
    for (at::Tensor& t : found) t = t.defined() ? t.clone() : t;  // it may be what is put back now
    found.insert(found.end(), gradients.begin(), gradients.end());
  } catch (const PrecompileError&) {
    return false;
  }
  for (auto& [tensor, value] : before) {
    found.push_back(tensor.clone());
    tensor.copy_(value);
  }
  numbers.reset();
  {
    const at::AutoGradMode as_called(s.ambient.grad);
    const OwnChanges changes(*this, s);
    eager.run(eager.self, nullptr);
  }
  ++v.hits;
  eager.look(eager.self, [&](const Leaves& result, const std::string&) {
    for (const Leaf& leaf : result) expected.push_back(leaf.kind == Kind::tensor ? *leaf.tensor : at::Tensor());
  });
  const auto gradients = jit::gradients_of(expected, recorded, s);
  expected.insert(expected.end(), gradients.begin(), gradients.end());
  for (auto& [tensor, value] : before) expected.push_back(tensor);
  bool equal = found.size() == expected.size();
  for (size_t i = 0; equal && i < found.size(); ++i) equal = jit::close(found[i], expected[i]);
  if (equal) return true;
  warn("compile: " + name_ + ": " + (settings_.verify_every ? "verify_every" : "the first compiled call") +
       " found a difference from eager; calls of this kind run eagerly from now on. Does the function depend on what "
       "is no argument (a captured reference, a global)?");
  const std::unique_lock lock(mutex_);
  if (!v.runs_eagerly) v.give_up("a compiled call differed from eager");
  return true;
}

/// The first call of its kind, and it has been noted. Few are kept: sizes that never come back must not pile up.
bool CompiledFunction::is_new(const Seen& s) {
  constexpr size_t kKept = 16;
  const std::unique_lock lock(mutex_);
  for (const jit::Guards& g : met_)
    if (g.hold(s.arguments, s.closure, s.ambient)) return false;
  if (met_.size() == kKept) met_.erase(met_.begin());
  met_.emplace_back(s.arguments, s.closure, s.ambient);
  return true;
}

void CompiledFunction::record(const Seen& s, const EagerCall& eager, const std::string& refusal) {
  size_t made = 0, alike = 0;  // alike: variants for such calls that read real numbers
  std::string why = refusal;
  {
    const std::unique_lock lock(mutex_);
    std::erase_if(variants_, [](const VariantPtr& v) { return v->model && !v->model->objects().live(); });
    made = variants_.size();
    size_t most = 0;
    for (const VariantPtr& v : variants_) {  // of the variant that is nearest
      size_t held = 0;
      std::string failure = v->first_failure(s, &held);
      alike += failure.empty() && v->reads_reals;
      if (refusal.empty() && held >= most) most = held, why = std::move(failure);
    }
  }
  const StanceKind stance = jit::stance();
  if (stance == StanceKind::fail_on_recompile)
    throw CompileError(name_ + ": the stance is \"fail_on_recompile\", and no compiled code serves this call" +
                       (why.empty() ? "" : ": " + why));
  if (stance == StanceKind::eager_on_recompile) return run_eagerly(s, eager);
  if (alike >= kRealConditions) return give_up_on_reals(s, eager);
  if (made) jit::log("recompiles", name_ + ": " + why);
  if (made >= static_cast<size_t>(get_cache_size_limit())) {
    const std::string limit = "the limit of " + std::to_string(get_cache_size_limit()) +
                              " variants (set_cache_size_limit) is reached; the last guard that failed: " + why;
    tell_eager(limit);
    {
      const std::unique_lock lock(mutex_);
      limit_ = limit;
    }
    return run_eagerly(s, eager);
  }

  if (settings_.async && is_new(s)) return run_eagerly(s, eager);  // a call that never comes back costs nothing
  // A replay takes as long as the call, and more: the thread that compiles makes it. Where it cannot, since the program
  // has gone on and written to what the call saw, a later call compares what was compiled.
  const bool later = settings_.async && checks_later_;
  const OwnChanges changes(*this, s);
  jit::OpenDims open = dims_to_open(s);
  auto v = std::make_shared<jit::Variant>(s, open);
  const auto add = [&] {
    const std::unique_lock lock(mutex_);
    if (!variants_.empty()) v->made_because = why;
    variants_.push_back(v);
  };
  const auto as_sized = [&](const jit::OpenDims& dims) {
    return jit::record(s.arguments, [&](const ResultSink& sink) { eager.run(eager.self, &sink); },
                       {.arguments = [&](const auto& see) { eager.arguments(eager.self, see); },
                        .verify = !later,
                        .fullgraph = settings_.fullgraph,
                        .open = dims});
  };
  jit::Recorded recorded;
  const auto start = std::chrono::steady_clock::now();
  try {
    try {
      recorded = as_sized(open);
    } catch (const PrecompileError& e) {
      if (open.empty()) throw;
      jit::log("dynamic", name_ + ": sizes stay as they are: " + e.what());
      {
        const std::unique_lock lock(mutex_);
        specialized_ = e.what();
      }
      v->guards = jit::Guards(s.arguments, s.closure, s.ambient);
      v->open.clear();
      recorded = as_sized({});
    }
  } catch (const PrecompileError& e) {
    tell_eager(e.what(), kNoGraph);
    v->give_up(e.what());
    add();
    if (!dynamic_cast<const trace::RanThrough*>(&e)) return run_eagerly(eager);
    ++eager_calls_;  // it has been one
    return;
  } catch (const trace::FnThrew& e) {
    ++eager_calls_;
    std::rethrow_exception(e.exception);
  }
  recorded.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  if (recorded.discarded) eager.run(eager.self, nullptr);
  if (later && !jit::can_be_compared(recorded.signature)) {  // so the next one is recorded and replayed
    checks_later_ = false;
    return;
  }
  *v->unchecked = later;
  for (const auto& [leaf, dims] : v->open)
    for (const int64_t d : dims)
      jit::log("dynamic",
               name_ + ": leaf " + std::to_string(leaf) + " dim " + std::to_string(d) + " is open from now on");
  v->found_grads = recorded.found_grads;
  v->conditions = recorded.signature.conditions;
  v->reads_reals = recorded.reads_reals();
  if (jit::logs("graph")) jit::log("graph", ir::print(recorded.graph));
  if (jit::logs("guards"))
    for (const std::string& line : v->guards.in_words()) jit::log("guards", name_ + ": " + line);
  auto work = [recorded = std::move(recorded), &settings = settings_, unchecked = v->unchecked]() mutable {
    if (settings.async) step_back();
    if (const auto replay = std::exchange(recorded.replay, nullptr); replay && replay->verifies()) *unchecked = false;
    return lower(std::move(recorded), settings);
  };
  v->program = std::async(std::launch::async, std::move(work)).share();
  add();
}

/// By custom those that differ from what an earlier variant took; all of them, or none, if the caller says so.
jit::OpenDims CompiledFunction::dims_to_open(const Seen& s) const {
  const std::shared_lock lock(mutex_);
  if (!settings_.dynamic.value_or(true) || !specialized_.empty()) return {};
  jit::OpenDims open;
  if (settings_.dynamic) {
    for (size_t i = 0; i < s.arguments.leaves.size(); ++i) {
      if (s.arguments.leaves[i].kind != Kind::tensor) continue;
      const at::Tensor& t = *s.arguments.leaves[i].tensor;
      for (int64_t d = 0; t.layout() == at::kStrided && jit::is_canonical(t) && d < t.dim(); ++d)
        if (t.size(d) >= 2) open[i].insert(d);
    }
    return open;
  }
  for (const VariantPtr& v : variants_)
    if (const auto dims = v->runs_eagerly ? std::nullopt : v->guards.to_open(s.arguments, s.closure, s.ambient))
      for (const auto& [leaf, more] : *dims) open[leaf].insert(more.begin(), more.end());
  return open;
}

/// A value is a condition, and few calls have the same real number: variants for it are not worth a compiler each.
void CompiledFunction::give_up_on_reals(const Seen& s, const EagerCall& eager) {
  const std::string why = "it reads a real number of a tensor (item()) that was another one in each of " +
                          std::to_string(kRealConditions) +
                          " variants; compare tensors instead of numbers, or return the tensor";
  tell_eager(why);
  const auto v = std::make_shared<jit::Variant>(s, jit::OpenDims());
  v->give_up(why);
  {
    const std::unique_lock lock(mutex_);
    std::erase_if(variants_, [&](const VariantPtr& other) { return other->reads_reals && other->holds(s); });
    variants_.push_back(v);
  }
  run_eagerly(s, eager);
}

void CompiledFunction::reset() {
  std::unique_lock recording(recording_, std::defer_lock);
  if (!trace::is_recording()) recording.lock();  // else it may be this very function that asks, from within
  const std::unique_lock lock(mutex_);
  variants_.clear(), met_.clear(), specialized_.clear(), limit_.clear();
  models_.clear();
  warned_ = false;
}

void CompiledFunction::wait() const {
  std::vector<VariantPtr> all;
  {
    const std::shared_lock lock(mutex_);
    all = variants_;
  }
  for (const VariantPtr& v : all)
    if (v->program.valid()) v->program.wait();
}

std::string CompiledFunction::explain() const {
  const std::shared_lock lock(mutex_);
  std::string text = name_ + ": " + count(variants_.size(), "variant") + ", " +
                     count(variants_.empty() ? 0 : variants_.size() - 1, "recompile") + ", " +
                     count(static_cast<size_t>(eager_calls_), "eager call") + "\n";
  for (size_t i = 0; i < variants_.size(); ++i) {
    const jit::Variant& v = *variants_[i];
    text += "variant " + std::to_string(i) + ", " + count(static_cast<size_t>(v.hits), "call") + "\n";
    text += v.in_words();
  }
  for (const VariantPtr& v : variants_)
    if (!v->program.valid()) text += "cut: " + v->eager + "\n";
  if (!limit_.empty()) text += "other calls run eagerly: " + limit_ + "\n";
  if (!specialized_.empty()) text += "sizes are not dynamic: " + specialized_ + "\n";
  return text;
}

}  // namespace precast::detail
