// Which types are modules, and how any handle to one (reference, holder, shared pointer) becomes a ModuleRef.
#pragma once
#include <memory>
#include <type_traits>

#include "precast/detail/leaf.h"

namespace torch::nn {
template <typename Contained>
class ModuleHolder;
}

namespace precast::detail {

template <class T>
concept PlainModule =
    std::is_class_v<T> && (std::is_same_v<T, torch::jit::Module> || std::is_base_of_v<torch::nn::Module, T>);

template <class C>
std::true_type holds(const torch::nn::ModuleHolder<C>*);
std::false_type holds(...);
template <class T>
concept HolderModule = decltype(holds(static_cast<T*>(nullptr)))::value;

template <class T>
struct PointsToModule : std::false_type {};
template <class M>
struct PointsToModule<std::shared_ptr<M>> : std::bool_constant<PlainModule<std::remove_cv_t<M>>> {};
template <class M, class D>
struct PointsToModule<std::unique_ptr<M, D>> : std::bool_constant<PlainModule<std::remove_cv_t<M>>> {};
template <class M>
struct PointsToModule<M*> : std::bool_constant<PlainModule<std::remove_cv_t<M>>> {};

template <class T>
inline constexpr bool is_module = [] {
  using U = std::remove_cvref_t<T>;
  if constexpr (PointsToModule<U>::value)
    return true;
  else if constexpr (std::is_class_v<U>)
    return PlainModule<U> || HolderModule<U>;
  else
    return false;
}();

template <class T>
ModuleRef module_ref(const T& handle) {
  ModuleRef ref;
  if constexpr (std::is_same_v<T, torch::jit::Module>)
    ref.script = &handle;
  else if constexpr (PlainModule<T>)
    ref.module = &handle, ref.object = &handle, ref.bytes = sizeof(T);
  else if constexpr (HolderModule<T>)
    return handle ? module_ref(*handle.ptr()) : ref;
  else if (handle != nullptr)
    return module_ref(*handle);
  return ref;  // neither is set: an empty handle
}

/// What a typed runnable takes where its signature names a module.
class ModuleArgument {
 public:
  template <class T>
    requires is_module<T>
  ModuleArgument(const T& handle) : ref_(module_ref(handle)) {}  // NOLINT: any handle converts
  const ModuleRef& ref() const { return ref_; }

 private:
  ModuleRef ref_;
};

template <class T>
inline constexpr bool passes_module = is_module<T> || std::is_same_v<std::remove_cvref_t<T>, ModuleArgument>;

}  // namespace precast::detail
