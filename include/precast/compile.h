/** @file
 * compile(): the compiler as a JIT. Call the result in your loop.
 *
 *     auto f = precast::compile(model);                          // any handle to a module
 *     auto step = precast::compile([](Net& net, at::Tensor x) { return net.forward(x); });
 *     auto g = precast::compile([&](at::Tensor x) { return net->forward(x) + 1; }, net);   // modules that fn reaches
 *     at::Tensor y = f(x);                                       // eager, and recorded; later calls run compiled
 *
 * The first call with new kinds of arguments runs the function for real, records it and returns eager's own result;
 * lowering follows in the background, and the next call finds compiled code. Results, in-place writes, gradients and
 * random numbers are eager's. Effects on the host (printing, counters) happen in calls that run eagerly only.
 *
 * A variant serves the very modules it was recorded with, as long as their plain members hold what they held: of those
 * passed to compile() or as arguments as far as their type is known there, and of all classes of torch::nn. Members of
 * nested modules of your own classes cannot be seen (`verify_every` finds out).
 *
 * Tensors come from the arguments, or from modules named to compile() or passed. A call that reads another one, or
 * does what cannot be recorded, runs eagerly, with one warning; under `fullgraph` it is an error (CompileError). What a
 * callable captures is compared by its bytes where it is trivially copyable; captured references and other objects
 * cannot be looked into, and must not change (`verify_every` finds out). It is called as const: no mutable lambda.
 *
 * A recording runs the backward once as well, where a result requires grad, so hooks of the graph run once more.
 */
#pragma once
#include <iostream>
#include <map>
#include <optional>
#include <string>
#include <tuple>
#include <variant>
#include <vector>

#include "precast/detail/compile_core.h"
#include "precast/precast.h"

namespace precast {

/// A call could not be compiled as one graph (`fullgraph`), or a stance forbids what it would need.
struct CompileError : std::runtime_error {
  using std::runtime_error::runtime_error;
};

using GraphFunction = std::function<std::vector<at::Tensor>(const std::vector<at::Tensor>&)>;
/// Compiles a graph; example inputs have its types. Forward and backward are graphs of their own.
using BackendFunction = std::function<GraphFunction(const Graph&, const std::vector<at::Tensor>& example_inputs)>;

/// "inductor": precast's compiler; "eager" and "aot_eager": the recorded graphs, op by op; one of register_backend; or
/// a function.
class CompileBackend {
 public:
  CompileBackend(std::string name) : name_(std::move(name)) {}  // NOLINT: converts
  CompileBackend(const char* name) : name_(name) {}             // NOLINT: converts
  template <class F>
    requires std::is_invocable_r_v<GraphFunction, F&, const Graph&, const std::vector<at::Tensor>&>
  CompileBackend(F function) : name_("function"), function_(std::move(function)) {}  // NOLINT: converts

  const std::string& name() const { return name_; }
  const BackendFunction& function() const { return function_; }

 private:
  std::string name_;
  BackendFunction function_;
};

using OptionValue = std::variant<bool, int64_t, double, std::string>;

struct CompileOptions {
  bool fullgraph = false;                   ///< one graph or an error
  std::optional<bool> dynamic{};            ///< none: sizes that change become dynamic; true: all at once; false: never
  std::optional<CompileBackend> backend{};  ///< none: get_default_backend()
  std::optional<std::string> mode{};        ///< see list_mode_options()
  std::map<std::string, OptionValue> options{};  ///< see list_options(); not beside `mode`
  bool disable = false;                          ///< calls fn, for testing
  bool async = false;                            ///< no call waits for a compiler: until it is done, calls run eagerly
  int verify_every = 0;  ///< n: each n-th compiled call is compared with eager, which then counts
};

// ---- For the whole process ----

/// Compiled code of all functions is dropped; the next calls compile anew.
void reset();
/// Inside a function that is being recorded.
bool is_compiling();

/// Without debug backends; list_backends(std::nullopt) gives all.
std::vector<std::string> list_backends(std::optional<std::vector<std::string>> exclude_tags = std::vector<std::string>{
                                           "debug", "experimental"});
/// Throws std::invalid_argument for a name that is taken.
void register_backend(const std::string& name, BackendFunction);
void set_default_backend(const std::string& name);
std::string get_default_backend();

/// Options with their default values.
std::map<std::string, OptionValue> list_options();
/// What each mode sets.
std::map<std::string, std::map<std::string, OptionValue>> list_mode_options();

/// How many variants of one function are kept; beyond, calls run eagerly. 64.
void set_cache_size_limit(int);
int get_cache_size_limit();
inline void set_recompile_limit(int n) { set_cache_size_limit(n); }
inline int get_recompile_limit() { return get_cache_size_limit(); }

/// "default"; "force_eager": no compiled code is run; "eager_on_recompile": compiled code is run, none is made;
/// "fail_on_recompile": where some would be made, CompileError. Of the whole process; the object restores what was set
/// before when it goes, and may be dropped at once with `keep()`.
class [[nodiscard]] Stance {
 public:
  explicit Stance(const std::string& name);
  ~Stance();
  Stance(const Stance&) = delete;
  Stance& operator=(const Stance&) = delete;
  void keep() { restores_ = false; }

 private:
  int before_;
  bool restores_ = true;
};
inline void set_stance(const std::string& name) { Stance(name).keep(); }

/// A step of "reduce-overhead" begins, in the whole process: results of the step before may be overwritten.
void cudagraph_mark_step_begin();

/// Everything compiled so far in this process, to be loaded elsewhere; nothing when nothing has been compiled.
std::optional<std::vector<std::byte>> save_cache_artifacts();
/// How many entries were added. Executable input: load only what you trust. Throws PrecompileError for other bytes.
int load_cache_artifacts(std::span<const std::byte>);

// ---- compile ----

namespace detail {

/// A module as it is kept: handles by copy, modules themselves by address.
template <class M>
class KeptModule {
  static constexpr bool by_address = PlainModule<M> && !std::is_same_v<M, torch::jit::Module>;
  using Stored = std::conditional_t<by_address, M*, std::remove_const_t<M>>;

 public:
  template <class T>
    requires(!std::is_same_v<std::remove_const_t<T>, KeptModule>)
  explicit KeptModule(T& m) : stored_(store(m)) {}
  ModuleArgument argument() const { return ModuleArgument(stored_); }
  auto& get() const {
    if constexpr (by_address)
      return *stored_;
    else if constexpr (std::is_same_v<std::remove_const_t<M>, torch::jit::Module>)
      return stored_;
    else
      return *stored_;
  }

 private:
  template <class T>
  static Stored store(T& m) {
    if constexpr (by_address)
      return &m;
    else
      return m;
  }
  mutable Stored stored_;
};

/// A module's forward as a function.
template <class M>
struct Forward {
  KeptModule<M> module;
  template <class... A>
  decltype(auto) operator()(A&&... a) const {
    auto& m = module.get();
    if constexpr (std::is_same_v<std::remove_cvref_t<decltype(m)>, torch::jit::Module>)
      return m.forward({c10::IValue(std::forward<A>(a))...}).toTensor();
    else
      return m.forward(std::forward<A>(a)...);
  }
};
template <class F>
inline constexpr bool is_forward = false;
template <class M>
inline constexpr bool is_forward<Forward<M>> = true;

/// As pass(), for a function that may be called once more: a temporary is given as a copy where it can be copied.
template <class A>
decltype(auto) pass_again(std::remove_reference_t<A>& a) {
  using T = std::remove_cvref_t<A>;
  if constexpr (is_module<A> || std::is_lvalue_reference_v<A> || !std::is_copy_constructible_v<T>)
    return pass<A>(a);
  else
    return T(a);
}

template <class Fn>
CallableIdentity identify(const Fn& fn) {
  CallableIdentity id{nullptr, nullptr, typeid(Fn).name()};
  using F = std::remove_pointer_t<Fn>;
  if constexpr (std::is_function_v<F>)
    id.code = &typeid(Fn), id.address = reinterpret_cast<const void*>(fn);
  else if constexpr (is_forward<Fn> || std::is_empty_v<Fn> || std::is_trivially_copyable_v<Fn>)
    id.code = &typeid(Fn);
  return id;
}

}  // namespace detail

/// A compiled function; copies share what is compiled, as do functions of one type. Safe from any thread.
template <class Fn, class... M>
class Compiled {
 public:
  Compiled(Fn fn, std::tuple<detail::KeptModule<M>...> modules, CompileOptions options)
      : fn_(std::move(fn)),
        modules_(std::move(modules)),
        core_(detail::compiled_function(detail::identify(fn_), options)) {}

  template <class... A>
  std::invoke_result_t<const Fn&, A...> operator()(A&&... a) const {
    using R = std::invoke_result_t<const Fn&, A...>;
    static_assert(!std::is_reference_v<R>, "precast::compile: the function returns a reference; return a value");
    detail::Result<R> result;
    const auto invoke = [&]() -> decltype(auto) { return std::invoke(fn_, detail::pass_again<A>(a)...); };
    auto state = std::tie(result, invoke, fn_, a...);
    using State = decltype(state);
    detail::EagerCall eager{
        &state,
        [](void* self, const detail::ResultSink* sink) {
          auto& s = *static_cast<State*>(self);
          std::get<0>(s).set(std::get<1>(s));
          if (sink) std::get<0>(s).describe(*sink);
        },
        [](void* self, const detail::ResultSink& sink) { std::get<0>(*static_cast<State*>(self)).describe(sink); },
        [](void* self, const std::function<void(const detail::Arguments&)>& see) {
          std::apply(
              [&](auto&, auto&, auto&, auto&... now) {
                const detail::Flattened flat(now...);
                see(flat.arguments());
              },
              *static_cast<State*>(self));
        },
        &keep<State, R, A...>};
    return std::apply(
        [&](const auto&... m) -> R {
          std::optional<detail::Flattened> flat;
          try {
            flat.emplace(m.argument()..., a...);
          } catch (const PrecompileError& e) {  // an argument has no form
            detail::call_unseen(*core_, eager, e.what());
            return result.take();
          }
          detail::CompiledResult out;
          if (!detail::call(*core_, flat->arguments(), bytes(), eager, out)) return result.take();
          return detail::rebuild_result<R>(out.structure, out.leaves.data());
        },
        modules_);
  }

  /// What happened: variants with their guards, recompiles and why, host ops with the reason, times, kernels.
  std::string explain() const { return detail::explain(*core_); }

 private:
  /// The bytes of a callable that holds nothing but bytes.
  std::span<const std::byte> bytes() const {
    if constexpr (!detail::is_forward<Fn> && std::is_trivially_copyable_v<Fn> && !std::is_empty_v<Fn>)
      return std::as_bytes(std::span<const Fn>(&fn_, 1));
    else
      return {};
  }

  template <class State, class R, class... A>
  static std::function<void(const detail::ResultSink&)> keep(void* self) {
    if constexpr (std::is_copy_constructible_v<Fn> &&
                  ((detail::is_module<A> || std::is_copy_constructible_v<std::remove_cvref_t<A>>) && ...)) {
      return std::apply(
          [](auto&, auto&, const Fn& fn, auto&... a) -> std::function<void(const detail::ResultSink&)> {
            return [fn, kept = std::tuple<Kept<A>...>(Kept<A>(a)...)](const detail::ResultSink& sink) mutable {
              detail::Result<R> result;
              result.set([&]() -> decltype(auto) {
                return std::apply([&](auto&... k) -> decltype(auto) { return std::invoke(fn, k.template as<A>()...); },
                                  kept);
              });
              result.describe(sink);
            };
          },
          *static_cast<State*>(self));
    } else {
      return {};
    }
  }
  /// An argument for later: modules by address, others by copy.
  template <class A>
  class Kept {
    using Value = std::remove_reference_t<A>;
    static constexpr bool by_address = detail::PlainModule<std::remove_cv_t<Value>>;
    std::conditional_t<by_address, Value*, std::remove_cv_t<Value>> value_;
    std::shared_ptr<const void> owner_;  // of a module, where it has one

   public:
    explicit Kept(Value& v)
        : value_([&]() -> decltype(value_) {
            if constexpr (by_address)
              return &v;
            else
              return v;
          }()) {
      if constexpr (by_address && std::is_base_of_v<torch::nn::Module, Value>) owner_ = v.weak_from_this().lock();
    }
    template <class As>
    decltype(auto) as() {
      if constexpr (by_address)
        return static_cast<Value&>(*value_);
      else if constexpr (std::is_lvalue_reference_v<As>)
        return static_cast<Value&>(value_);
      else
        return std::remove_cv_t<Value>(value_);
    }
  };

  Fn fn_;
  std::tuple<detail::KeptModule<M>...> modules_;
  detail::CompiledPtr core_;
};

/// compile(module), compile(fn): with the options last, if there are any.
template <class F>
auto compile(F&& fn, CompileOptions options = {}) {
  using Fn = std::decay_t<F>;
  if constexpr (detail::PlainModule<Fn> && !std::is_same_v<Fn, torch::jit::Module> && !std::is_lvalue_reference_v<F>) {
    return compile(std::make_shared<Fn>(std::forward<F>(fn)), std::move(options));    // a temporary is moved in
  } else if constexpr (detail::is_module<Fn> && !std::is_copy_constructible_v<Fn>) {  // a unique_ptr
    if constexpr (std::is_lvalue_reference_v<F>)
      return compile(*fn, std::move(options));
    else
      return compile(std::shared_ptr<typename Fn::element_type>(std::forward<F>(fn)), std::move(options));
  } else if constexpr (detail::is_module<Fn>) {
    using M = std::conditional_t<detail::PlainModule<Fn> && !std::is_same_v<Fn, torch::jit::Module>,
                                 std::remove_reference_t<F>, Fn>;
    detail::KeptModule<M> kept(fn);
    return Compiled<detail::Forward<M>, M>(detail::Forward<M>{kept}, std::tuple(kept), std::move(options));
  } else {
    return Compiled<Fn>(std::forward<F>(fn), {}, std::move(options));
  }
}
/// compile(fn, module...): modules that fn reaches without their being arguments.
template <class F, class First, class... More>
  requires(detail::is_module<First> && !detail::is_module<F>)
auto compile(F&& fn, First& first, More&... more) {
  using Fn = std::decay_t<F>;
  return Compiled<Fn, First, More...>(std::forward<F>(fn),
                                      {detail::KeptModule<First>(first), detail::KeptModule<More>(more)...}, {});
}
template <class F, class First, class... More>
  requires(detail::is_module<First> && !detail::is_module<F>)
auto compile(CompileOptions options, F&& fn, First& first, More&... more) {
  using Fn = std::decay_t<F>;
  return Compiled<Fn, First, More...>(
      std::forward<F>(fn), {detail::KeptModule<First>(first), detail::KeptModule<More>(more)...}, std::move(options));
}
/// The form without a function: gives a wrapper, `compile({.fullgraph = true})(fn)`.
inline auto compile(CompileOptions options) {
  return [options = std::move(options)]<class F>(F&& fn) { return compile(std::forward<F>(fn), options); };
}

namespace detail {
/// Throws PrecompileError while a function is recorded.
void disabled_call();
}  // namespace detail

/// fn, never compiled: a compiled function that calls it runs eagerly.
template <class Fn>
auto disable(Fn fn) {
  return [fn = std::move(fn)]<class... A>(A&&... a) -> decltype(auto) {
    detail::disabled_call();
    return std::invoke(fn, std::forward<A>(a)...);
  };
}

/// Prints to std::cout what has happened to f so far, and returns it. `f.explain()` only returns it.
template <class... T>
std::string explain(const Compiled<T...>& f) {
  std::string text = f.explain();
  std::cout << text << std::flush;
  return text;
}

}  // namespace precast
