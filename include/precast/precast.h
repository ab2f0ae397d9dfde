/** @file
 * precast: compile a LibTorch function or training step ahead of time, from one real call.
 *
 *     at::Tensor y;
 *     precast::capture([](Net& model, at::Tensor x) { return model->forward(x); },
 *                      {.artifact_path = "m.cpp", .cache_path = "m.cache"}, {},
 *                      [&](auto& cap) { y = cap(model, x); });
 *
 *     auto f = precast::load<at::Tensor(Net&, at::Tensor)>({"m.cpp", "m.cache"});   // any later process
 *     at::Tensor y2 = f(model, x);
 *
 * fn is the whole computation. Everything live is an argument: parameters and buffers of module arguments are inputs
 * of the artifact (no weights are stored; pass the model again), and so are the tensors of the other arguments, which
 * may nest in vectors, tuples, pairs, optionals, string-keyed maps and structs with a precast_tie. Numbers, strings
 * and none are conditions: a call with another value is refused. Control flow and shapes are those of the one call.
 * Effects (in-place writes, buffers, gradients on .grad) happen in the capturing call, once, and in each call of the
 * artifact. Both files are executable input: load only what you trust.
 *
 * Errors: PrecompileError when a capture, load or call breaks the contract; nothing has been written or changed then.
 * std::invalid_argument for a wrong option. What fn itself throws passes through.
 */
#pragma once
#include <ATen/core/ivalue.h>

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>

#include "precast/detail/core.h"
#include "precast/detail/signature.h"
#include "precast/dynamic.h"
#include "precast/error.h"
#include "precast/options.h"

namespace precast {

namespace detail {

/// fn's result while it is recorded; a reference stays one.
template <class R>
class Result {
 public:
  template <class F>
  void set(F&& call) {
    if constexpr (std::is_void_v<R>)
      call();
    else if constexpr (std::is_reference_v<R>)
      value_ = std::addressof(static_cast<std::remove_reference_t<R>&>(call()));
    else
      value_.emplace(call());
  }
  void describe(const ResultSink& sink) {
    Leaves leaves;
    std::string spec;
    if constexpr (std::is_void_v<R>) {
      leaves.emplace_back();
      spec = "*";
    } else {
      StructureOf<R>::flatten(*value_, leaves);
      StructureOf<R>::spec(*value_, spec);
    }
    sink(leaves, spec);
  }
  R take() {
    if constexpr (std::is_reference_v<R>)
      return static_cast<R>(*value_);
    else if constexpr (!std::is_void_v<R>)
      return *std::move(value_);
  }

 private:
  using Stored = std::conditional_t<std::is_void_v<R>, std::monostate, R>;
  std::conditional_t<std::is_reference_v<R>, std::remove_reference_t<R>*, std::optional<Stored>> value_{};
};

/// fn gets a temporary handle as a copy: the module must outlive the recording.
template <class A>
decltype(auto) pass(std::remove_reference_t<A>& a) {
  if constexpr (is_module<A> && !std::is_lvalue_reference_v<A> && std::is_copy_constructible_v<A>)
    return std::remove_cvref_t<A>(a);
  else
    return std::forward<A>(a);
}

template <class R, class Call>
R run(const Runnable& core, Call&& call);

template <class Fn, class... A>
std::invoke_result_t<Fn&, A...> record(CaptureCore& core, Fn& fn, A&&... a) {
  using R = std::invoke_result_t<Fn&, A...>;
  const Flattened flat(a...);
  if (const RunnablePtr received = core.receive(flat.arguments())) {
    if constexpr (std::is_reference_v<R>)
      throw NotImplementedError("compile_on_one_rank: the function returns a reference; return a value");
    else
      return run<R>(*received, [&](auto results) { received->call(flat.arguments(), results); });
  }
  Result<R> result;
  core.record(flat.arguments(), [&](const ResultSink& sink) {
    result.set([&]() -> decltype(auto) { return std::invoke(fn, pass<A>(a)...); });
    result.describe(sink);
  });
  return result.take();
}

}  // namespace detail

/// One capture: armed at construction, takes exactly one successful call, written by finish(). Single use; a call that
/// throws may be repeated. Dropped without finish(), it writes nothing that save() has not written.
template <class Fn>
class Capture {
 public:
  Capture(Fn fn, PairPaths paths, LowerOptions options = {})
      : fn_(std::move(fn)), core_(std::move(paths), std::move(options)) {}

  /// Calls fn for real, with gradients enabled whatever the mode outside, records it, and returns its result.
  template <class... A>
  std::invoke_result_t<Fn&, A...> operator()(A&&... a) {
    return detail::record(core_, fn_, std::forward<A>(a)...);
  }
  /// Writes what has been captured and stays open. Throws PrecompileError when there was no call, or after finish().
  void save() { core_.save(); }
  /// Writes and ends the capture, also when writing fails. Throws PrecompileError when there was no call.
  void finish() { core_.finish(); }
  PrecompileSummary summary() const { return core_.summary(); }

 private:
  Fn fn_;
  detail::CaptureCore core_;
};

/// Names the files first, then call it as you would call fn, then finish().
template <class Fn>
Capture<std::decay_t<Fn>> capture(Fn&& fn, PairPaths paths, LowerOptions options = {}) {
  return {std::forward<Fn>(fn), std::move(paths), std::move(options)};
}

/// The block form: `block(cap)` makes the call; the pair is written when it returns, and not when it throws.
template <class Fn, class Block>
auto capture(Fn&& fn, PairPaths paths, LowerOptions options, Block&& block) {
  Capture<std::decay_t<Fn>> cap(std::forward<Fn>(fn), std::move(paths), std::move(options));
  using R = std::invoke_result_t<Block, Capture<std::decay_t<Fn>>&>;
  if constexpr (std::is_void_v<R>) {
    std::invoke(std::forward<Block>(block), cap);
    cap.finish();
  } else {
    R result = std::invoke(std::forward<Block>(block), cap);
    cap.finish();
    return result;
  }
}

/// The functional form: runs fn on the example arguments and returns the pair. Their gradients are left as they were,
/// by identity; other effects of fn land on them.
template <class Fn, class... A>
Pair precompile(LowerOptions options, Fn&& fn, A&&... example) {
  detail::CaptureCore core = detail::CaptureCore::functional(std::move(options));
  if constexpr (std::is_void_v<std::invoke_result_t<Fn&, A...>>)
    detail::record(core, fn, std::forward<A>(example)...);
  else
    (void)detail::record(core, fn, std::forward<A>(example)...);
  return core.pair();
}
template <class Fn, class... A>
  requires(!std::is_same_v<std::remove_cvref_t<Fn>, LowerOptions>)
Pair precompile(Fn&& fn, A&&... example) {
  LowerOptions options;
  return precompile(std::move(options), std::forward<Fn>(fn), std::forward<A>(example)...);
}

/// Signature of a runnable that takes any arguments and returns a c10::IValue.
struct Untyped;
template <class Sig = Untyped>
class PrecompiledRunnable;

namespace detail {

c10::IValue to_ivalue(std::span<const Node> structure, std::span<ResultLeaf> leaves);

/// Runs `core` as `call(arguments, results)` and reads the result back.
template <class R, class Call>
R run(const Runnable& core, Call&& call) {
  c10::SmallVector<ResultLeaf, 4> leaves(core.result_leaves());
  call(std::span<ResultLeaf>(leaves.data(), leaves.size()));
  if constexpr (std::is_same_v<R, c10::IValue>)
    return to_ivalue(core.result_structure(), {leaves.data(), leaves.size()});
  else
    return rebuild_result<R>(core.result_structure(), leaves.data());
}

/// Throws when the recorded structure does not fit the signature.
template <class R, class... P>
void check_signature(const Runnable& core) {
  c10::SmallVector<int, 4> modules;
  int position = 0;
  ((is_module<P> ? modules.push_back(position++) : void(position++)), ...);
  core.check_arguments(static_cast<int>(sizeof...(P)), {modules.data(), modules.size()});
  int user = 0;
  position = 0;
  const auto check = [&]<class T>(std::type_identity<T>) {
    if constexpr (!is_module<T>) {
      Cursor cursor{core.argument_structure(user++).data(), nullptr};
      if (cursor.node && !StructureOf<T>::matches(cursor)) core.refuse_argument(position, StructureOf<T>::words());
    }
    ++position;
  };
  (check(std::type_identity<P>{}), ...);
  if constexpr (!std::is_void_v<R>) {
    Cursor cursor{core.result_structure().data(), nullptr};
    if (!StructureOf<R>::matches(cursor)) core.refuse_result(StructureOf<R>::words());
  }
}

/// A runnable with its modules already given: `Given` is a Binding or a Snapshot.
template <class Given, class R, class List>
class WithModules;
template <class Given, class R, class... P>
class WithModules<Given, R, Types<P...>> {
 public:
  WithModules(RunnablePtr core, std::shared_ptr<Given> given) : core_(std::move(core)), given_(std::move(given)) {}

  R operator()(Parameter<P>... a) const {
    const Flattened flat(a...);
    return run<R>(*core_, [&](auto results) { core_->call(*given_, flat.arguments(), results); });
  }
  /// Takes the weights as they are now. Calls that run meanwhile finish with the old ones.
  void refresh() const
    requires std::is_same_v<Given, Snapshot>
  {
    core_->refresh(*given_);
  }

 private:
  RunnablePtr core_;
  std::shared_ptr<Given> given_;
};
struct AnyParameters;
template <class Given>
class WithModules<Given, c10::IValue, AnyParameters> {
 public:
  WithModules(RunnablePtr core, std::shared_ptr<Given> given) : core_(std::move(core)), given_(std::move(given)) {}

  template <class... A>
  c10::IValue operator()(const A&... a) const {
    const Flattened flat(a...);
    return run<c10::IValue>(*core_, [&](auto results) { core_->call(*given_, flat.arguments(), results); });
  }
  void refresh() const
    requires std::is_same_v<Given, Snapshot>
  {
    core_->refresh(*given_);
  }

 private:
  RunnablePtr core_;
  std::shared_ptr<Given> given_;
};

/// What typed and untyped runnables share.
template <class R, class List>
class RunnableBase {
 public:
  /// All modules, in their order among the arguments: structure checked once, weights read where they are at each
  /// call. The result takes the other arguments.
  template <class... M>
  WithModules<const Binding, R, List> bind(const M&... modules) const {
    const ModuleRef refs[] = {module_ref(modules)..., ModuleRef{}};
    return {core_, core_->bind({refs, sizeof...(M)})};
  }
  /// A snapshot: weights are copied and packed once. Later changes are seen after refresh().
  template <class... M>
  WithModules<Snapshot, R, List> freeze(const M&... modules) const {
    const ModuleRef refs[] = {module_ref(modules)..., ModuleRef{}};
    return {core_, core_->freeze({refs, sizeof...(M)})};
  }

  /// A precompiled artifact installs nothing, so a scope and unload() do nothing.
  static constexpr bool installed() { return false; }
  struct [[nodiscard]] Scope {
    ~Scope() {}  // not trivial, so that a variable for it is no warning
  };
  Scope scope() const { return {}; }
  void unload() const {}

  const std::string& backend() const { return core_->backend(); }
  std::string metadata() const { return core_->metadata(); }  ///< JSON
  Graph graph() const { return Graph(core_->graph()); }       ///< as recorded

 protected:
  explicit RunnableBase(RunnablePtr core) : core_(std::move(core)) {}
  RunnablePtr core_;
};

}  // namespace detail

/// A loaded artifact with fn's calling convention; a cheap handle, called from any thread. Where the signature names a
/// module, any handle to one is taken: holder, reference, shared pointer, const or not.
template <class R, class... P>
class PrecompiledRunnable<R(P...)>
    : public detail::RunnableBase<R, typename detail::WithoutModules<detail::Types<>, P...>::type> {
 public:
  explicit PrecompiledRunnable(detail::RunnablePtr core) : PrecompiledRunnable::RunnableBase(std::move(core)) {
    detail::check_signature<R, P...>(*this->core_);
  }
  R operator()(detail::Parameter<P>... a) const {
    const detail::Flattened flat(a...);
    return detail::run<R>(*this->core_, [&](auto results) { this->core_->call(flat.arguments(), results); });
  }
};

template <>
class PrecompiledRunnable<Untyped> : public detail::RunnableBase<c10::IValue, detail::AnyParameters> {
 public:
  explicit PrecompiledRunnable(detail::RunnablePtr core) : RunnableBase(std::move(core)) {}
  template <class... A>
  c10::IValue operator()(const A&... a) const {
    const detail::Flattened flat(a...);
    return detail::run<c10::IValue>(*core_, [&](auto results) { core_->call(flat.arguments(), results); });
  }
};

/// Loads a pair. Throws PrecompileError for a missing file, text that is no artifact, a readable current cache of
/// another text, backend or tracer, or a signature that does not fit. An unusable cache is a warning: the text is
/// compiled, or without a compiler its graph is run op by op.
template <class Sig = Untyped>
PrecompiledRunnable<Sig> load(const PairPaths& paths) {
  return PrecompiledRunnable<Sig>(detail::load(paths));
}
template <class Sig = Untyped>
PrecompiledRunnable<Sig> load_from_memory(const Pair& pair) {
  return PrecompiledRunnable<Sig>(detail::load_from_memory(pair));
}

/// Writes a module's parameters and buffers to a .safetensors file, by the names that artifacts use, for programs
/// without LibTorch (precast_bind_file of runtime.h, `precast run --weights`). Throws PrecompileError.
template <class M>
void save_weights(const M& module, const std::filesystem::path& path) {
  detail::save_weights(detail::module_ref(module), path);
}

}  // namespace precast
