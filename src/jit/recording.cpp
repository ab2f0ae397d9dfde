#include "jit/recording.h"

#include <torch/csrc/autograd/autograd.h>
#include <torch/csrc/autograd/saved_variable.h>
#include <torch/csrc/jit/runtime/graph_executor.h>

#include <algorithm>
#include <optional>
#include <unordered_set>

#include "api/call_arguments.h"
#include "host_torch/error_text.h"
#include "host_torch/module_state.h"
#include "jit/model.h"
#include "jit/without_hooks.h"
#include "precast/error.h"
#include "trace/dispatch.h"
#include "trace/geometry.h"
#include "trace/marks.h"
#include "trace/random_state.h"
#include "trace/recorder.h"
#include "util/errors.h"

namespace precast::jit {
namespace {

using artifact::Result;
using artifact::Signature;

bool can_have_gradient(const at::Tensor& t) {
  return t.defined() && t.requires_grad() &&
         (at::isFloatingType(t.scalar_type()) || at::isComplexType(t.scalar_type()));
}

/// The results that carry gradients, and the sources that they flow to: each object once.
class Flow {
 public:
  explicit Flow(const trace::Sources& sources) {
    int source = 0;
    for (const auto* list : {&sources.params, &sources.buffers, &sources.user})
      for (const trace::Source& s : *list) {
        all_.push_back(s.tensor);
        if (can_have_gradient(s.tensor) && seen_.insert(s.tensor.unsafeGetTensorImpl()).second) {
          primals_.push_back(s.handle ? s.handle : &s.tensor);
          primal_sources.push_back(source);
        }
        ++source;
      }
  }

  /// Appends tangents, then gradients, to what the call returned.
  void add(std::vector<trace::Leaf>& leaves, at::MemoryFormat layout) {
    // What the backward does is done once more here, so nobody may see it: a refusal stops it, and it writes nothing.
    const bool run_through = trace::runs_through();
    const std::vector<int64_t> before = versions();
    trace::set_run_through(false);
    std::exception_ptr failure;
    try {
      run(leaves, layout);
    } catch (...) {
      failure = std::current_exception();
    }
    if (versions() != before) throw PrecompileError("its backward writes to an argument, a parameter or a buffer");
    trace::set_run_through(run_through);
    if (failure) std::rethrow_exception(failure);
  }

  std::vector<int> primal_sources, results;
  std::vector<int> spent;  // a result whose backward the call has run itself

 private:
  std::vector<int64_t> versions() const {
    std::vector<int64_t> all;
    for (const at::Tensor& t : all_) all.push_back(t.defined() && !t.is_inference() ? t._version() : 0);
    return all;
  }

  void run(std::vector<trace::Leaf>& leaves, at::MemoryFormat layout) {
    std::vector<at::Tensor> outputs, tangents, primals;
    for (const at::Tensor* t : primals_) {  // where sizes are open, others than before
      primals.push_back(*t);
      seen_.insert(t->unsafeGetTensorImpl());
    }
    for (size_t i = 0; i < leaves.size(); ++i)
      if (leaves[i].is_tensor && can_have_gradient(leaves[i].tensor) &&
          seen_.insert(leaves[i].tensor.unsafeGetTensorImpl()).second) {
        if (leaves[i].tensor.retains_grad() && !leaves[i].tensor.is_leaf())
          throw PrecompileError("result " + std::to_string(i) + " retains its gradient; call retain_grad() outside");
        results.push_back(static_cast<int>(i));
        outputs.push_back(leaves[i].tensor);
      }
    if (outputs.empty()) return;
    const at::NoGradGuard no_grad;
    for (const at::Tensor& t : outputs) tangents.push_back(at::ones_like(t, t.options(), layout));
    std::vector<at::Tensor> gradients;
    const size_t draws = trace::recorded_draws();
    trace::KeepRandomState generator;
    try {
      const WithoutHooks no_hooks(primals);
      gradients = torch::autograd::grad(outputs, primals, tangents, /*retain_graph=*/true, /*create_graph=*/false,
                                        /*allow_unused=*/true);
    } catch (const PrecompileError&) {
      throw;
    } catch (const std::exception& e) {
      if (outputs.size() == 1 && host_torch::error_text(e) == torch::autograd::ERR_BACKWARD_TWICE) {
        spent = std::exchange(results, {});
        return;
      }
      throw PrecompileError("its backward fails: " + host_torch::error_text(e));
    }
    if (trace::recorded_draws() != draws) throw PrecompileError("its backward draws random numbers");
    generator.leave();  // as other threads have left it
    for (const at::Tensor& t : tangents) leaves.push_back({t, {}, true});
    for (const at::Tensor& g : gradients) leaves.push_back({g.defined() ? g.clone() : g, {}, true});
  }

  std::vector<at::Tensor> all_;
  std::vector<const at::Tensor*> primals_;
  std::unordered_set<const void*> seen_;
};

/// Whether two results lie on some same byte: autograd would have to know them as views of one another.
bool share_memory(const ir::Graph& g, const Result& a, const Result& b) {
  const auto is_output = [](const Result& r) {
    return r.kind == Result::Kind::output || r.kind == Result::Kind::output_view;
  };
  if (!is_output(a) || !is_output(b) || a.index != b.index || a.same_as >= 0 || b.same_as >= 0) return false;
  const auto window = [&](const Result& r) {
    const bool view = r.kind == Result::Kind::output_view;
    const ir::Type& type = view ? r.type : g.type(g.outputs.at(static_cast<size_t>(r.index)));
    trace::Window w{type, view ? r.offset_bytes.hint() : 0};
    for (ir::Dims* dims : {&w.type.sizes, &w.type.strides})
      for (ir::Size& size : *dims) size = size.hint();
    return w;
  };
  return !trace::disjoint(window(a), window(b));
}

/// What a call with gradients must not do; the recorder has changed nothing yet.
void check_differentiable(const ir::Graph& g, const Signature& s, const Flow& flow) {
  for (const int i : flow.results)
    for (const int k : flow.results)
      if (i < k && share_memory(g, s.results[static_cast<size_t>(i)], s.results[static_cast<size_t>(k)]))
        throw PrecompileError("results " + std::to_string(i) + " and " + std::to_string(k) +
                              " require grad and share memory; return a copy of one (.clone())");
  for (const int i : flow.results)
    if (s.results[static_cast<size_t>(i)].kind == Result::Kind::source_view)
      throw PrecompileError("result " + std::to_string(i) +
                            " requires grad and is a view of an argument; return a copy (.clone())");
  for (const artifact::WriteBack& w : s.writes)
    if (std::ranges::find(flow.primal_sources, w.source) != flow.primal_sources.end())
      throw PrecompileError("an argument that requires grad is written in place; write to a copy");
}

/// Which of several results a constant gradient (of a custom autograd function) comes from is not known. `results` of
/// the call are its own, then come tangents, then gradients.
void check_constant_gradients(const ir::Graph& g, const Signature& s, size_t own, size_t tangents) {
  if (tangents < 2) return;
  const auto value = [&](size_t i) {
    const Result& r = s.results[i];
    return r.kind == Result::Kind::output ? g.outputs.at(static_cast<size_t>(r.index)) : ir::kNoValue;
  };
  std::vector<ir::ValueId> sources;
  for (size_t i = own; i < own + tangents; ++i)
    if (value(i) != ir::kNoValue) sources.push_back(value(i));
  const std::vector<bool> late = ir::dependents(g, sources);
  for (size_t i = own + tangents; i < s.results.size(); ++i)
    if (value(i) != ir::kNoValue && !late[static_cast<size_t>(value(i))])
      throw PrecompileError(
          "one of its gradients does not depend on those of its results, and there are several: which one it comes "
          "from is not known");
}

/// What fn may have got references to.
class PassedArguments {
 public:
  explicit PassedArguments(const detail::Arguments& a) : spec_(a.spec), leaves_(a.leaves.begin(), a.leaves.end()) {
    for (const detail::Leaf& leaf : leaves_) {
      tensors_.push_back(leaf.kind == detail::Kind::tensor ? *leaf.tensor : at::Tensor());
      texts_.emplace_back(leaf.kind == detail::Kind::string ? std::string(leaf.text, static_cast<size_t>(leaf.length))
                                                            : std::string());
    }
  }
  /// Throws PrecompileError where fn has changed one that is no tensor, or bound one that is to another tensor.
  void check(const detail::Arguments& now) const {
    const auto changed = [](const std::string& what) {
      throw PrecompileError(what + " is a reference that the function changed, which no recorded op shows; return it");
    };
    if (now.leaves.size() != leaves_.size() || spec_ != now.spec) changed("an argument (a container)");
    for (size_t i = 0; i < leaves_.size(); ++i)
      if (!same(i, now.leaves[i])) changed("argument leaf " + std::to_string(i));
  }

 private:
  bool same(size_t i, const detail::Leaf& now) const {
    const detail::Leaf& then = leaves_[i];
    if (now.kind != then.kind) return false;
    switch (then.kind) {
      case detail::Kind::none:
        return true;
      case detail::Kind::tensor:
        return now.tensor->is_same(tensors_[i]);
      case detail::Kind::string:
        return texts_[i] == std::string_view(now.text, static_cast<size_t>(now.length));
      default:
        return now.integer == then.integer;  // of a real number, too: its bits
    }
  }

  std::string spec_;
  std::vector<detail::Leaf> leaves_;
  std::vector<at::Tensor> tensors_;
  std::vector<std::string> texts_;
};

/// The tangents were made in the call: they become inputs.
void cut(ir::Graph& g, const std::vector<ir::ValueId>& tangents) {
  std::erase_if(g.nodes, [&](const ir::Node& n) {
    bool makes = false;
    ir::for_each_definition(n,
                            [&](ir::ValueId v) { makes = makes || std::ranges::find(tangents, v) != tangents.end(); });
    return makes;
  });
  g.inputs.insert(g.inputs.end(), tangents.begin(), tangents.end());
}

}  // namespace

namespace {

/// Marks of arguments, for the length of a recording; the caller's own come back.
class Marking {
 public:
  Marking(const detail::Arguments& a, const OpenDims& open) {
    for (const auto& [leaf, dims] : open) {
      const at::Tensor& t = *a.leaves[leaf].tensor;
      before_.emplace_back(t, trace::marks_of(t));
      for (const int64_t d : dims) mark_unbacked(t, d);
    }
  }
  ~Marking() {
    for (auto& [tensor, marks] : before_) trace::set_marks(tensor, std::move(marks));
  }
  Marking(const Marking&) = delete;
  Marking& operator=(const Marking&) = delete;

 private:
  std::vector<std::pair<at::Tensor, trace::Marks>> before_;
};

}  // namespace

bool Recorded::reads_reals() const {
  return std::ranges::any_of(graph.nodes, [](const ir::Node& n) {
    return std::ranges::any_of(n.outs, [](const ir::Out& out) { return std::holds_alternative<double>(out.expect); });
  });
}

Recorded record(const detail::Arguments& arguments, const std::function<void(const detail::ResultSink&)>& run,
                const RecordOptions& how) {
  const Marking marking(arguments, how.open);
  const api::CallArguments call(arguments);
  const torch::jit::GraphOptimizerEnabledGuard no_optimizer(false);  // its passes run operators of their own
  const bool grad_mode = at::GradMode::is_enabled();
  const std::span<const detail::ModuleRef> modules = refs(arguments);
  const std::vector<std::string> modes = host_torch::module_modes(modules);
  Recorded recorded;
  Flow flow(call.sources());
  std::string out_spec;
  size_t own = 0;  // leaves of the result
  trace::Options options;
  options.guards_gradients = true;
  options.run_through = !how.fullgraph && how.open.empty();
  std::optional<PrecompileError> refusal;
  const Ambient ambient = Ambient::now();
  std::optional<Ambient> left;  // by fn
  const PassedArguments passed(arguments);
  const auto fn = [&] {
    const at::AutoGradMode as_outside(grad_mode);
    std::vector<trace::Leaf> leaves;
    run([&](const detail::Leaves& result, const std::string& spec) {
      out_spec = spec;
      leaves = api::recorded_leaves(result);
    });
    own = leaves.size();
    left = Ambient::now();
    try {
      if (!(*left == ambient))
        throw PrecompileError(
            "it leaves another grad mode, default dtype, autocast or determinism than it found; set that outside of "
            "it");
      if (how.arguments && how.open.empty()) how.arguments([&](const detail::Arguments& now) { passed.check(now); });
      if (grad_mode && !trace::recording_has_failed())
        flow.add(leaves, how.open.empty() ? at::MemoryFormat::Preserve : at::MemoryFormat::Contiguous);
    } catch (const PrecompileError& e) {
      if (!trace::runs_through()) throw;
      refusal.emplace(e);  // the call itself has been made
    }
    return leaves;
  };
  options.verify = how.verify;
  options.verify_later = !how.verify;
  options.marks = !how.open.empty();  // sizes are guarded on where they are not open
  options.name_places = how.fullgraph;
  options.accept = [&](ir::Graph& g, const Signature& s) {
    if (refusal) throw *refusal;
    if (host_torch::module_modes(modules) != modes)
      throw PrecompileError("it changes the training mode of a module; do that outside of it");
    if (how.fullgraph && !s.conditions.empty())
      throw PrecompileError("it reads a tensor's value as a number: " + s.conditions.front());
    for (const int i : flow.spent)
      if (s.results[static_cast<size_t>(i)].kind != Result::Kind::output)
        throw PrecompileError("its backward has been run, and result " + std::to_string(i) + " is a view; detach it");
    if (flow.results.empty()) return;
    check_differentiable(g, s, flow);
    check_constant_gradients(g, s, own, flow.results.size());
  };
  // The autograd graph of such results holds open sizes.
  options.discard = [&] { return recorded.discarded = !how.open.empty() && !flow.results.empty(); };
  trace::Recording recording = [&] {
    try {
      return trace::record(call.sources(), fn, options);
    } catch (const trace::RanThrough&) {
      if (left && left->grad != grad_mode) at::GradMode::set_enabled(left->grad);  // as the call has left it
      throw;
    }
  }();
  call.complete(recording.signature);
  recorded.random = recording.random;
  recorded.replay = std::move(recording.replay);
  recorded.found_grads = std::move(recording.found_grads);

  recorded.graph = std::move(recording.graph);
  Signature& s = recorded.signature = std::move(recording.signature);
  s.out_spec = std::move(out_spec);
  recorded.spent = std::move(flow.spent);
  if (flow.results.empty()) {
    for (Result& r : s.results) r.required_grad = false;
    return recorded;
  }
  std::vector<ir::ValueId> tangents;
  size_t at = own;
  for (const int result : flow.results) {
    const Result& r = s.results.at(at++);
    PRECAST_CHECK(r.kind == Result::Kind::output, "a tangent is no output of the recorded graph");
    tangents.push_back(recorded.graph.outputs.at(static_cast<size_t>(r.index)));
    recorded.tangents.push_back(result);
  }
  for (const int source : flow.primal_sources) recorded.gradients.push_back({source, s.results.at(at++)});
  s.results.resize(own);
  for (Result& r : s.results) r.required_grad = false;  // the caller's node carries it
  cut(recorded.graph, tangents);
  return recorded;
}

}  // namespace precast::jit
