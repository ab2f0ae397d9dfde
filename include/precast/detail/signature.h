// From a C++ signature to what crosses into the core: flattening of arguments, typed parameter lists.
#pragma once
#include <c10/util/Exception.h>

#include <string>
#include <tuple>
#include <utility>

#include "precast/detail/module.h"
#include "precast/detail/structure.h"

namespace precast::detail {

template <class... T>
struct Types {};

/// T... without the modules.
template <class List, class... T>
struct WithoutModules;
template <class... Kept>
struct WithoutModules<Types<Kept...>> {
  using type = Types<Kept...>;
};
template <class... Kept, class Head, class... Tail>
struct WithoutModules<Types<Kept...>, Head, Tail...>
    : std::conditional_t<passes_module<Head>, WithoutModules<Types<Kept...>, Tail...>,
                         WithoutModules<Types<Kept..., Head>, Tail...>> {};

/// Structure strings of calls whose types decide everything are built once per type.
template <class... User>
const std::string& fixed_spec(Types<User...>) {
  static const std::string spec = [] {
    std::string out;
    TupleStructure<std::remove_cvref_t<User>...>::fixed_spec(out);
    return out;
  }();
  return spec;
}

/// Flattens one call; `spec` keeps the structure string of calls that need one of their own.
class Flattened {
 public:
  template <class... A>
  explicit Flattened(const A&... a) {
    arguments_.positional = static_cast<int>(sizeof...(A));
    int position = 0;
    (add(a, position++), ...);
    using User = typename WithoutModules<Types<>, A...>::type;
    write_spec(User{}, a...);
  }
  Flattened(const Flattened&) = delete;
  Flattened& operator=(const Flattened&) = delete;

  const Arguments& arguments() const { return arguments_; }

 private:
  template <class A>
  void add(const A& a, int position) {
    if constexpr (std::is_same_v<A, ModuleArgument>)
      add_module(a.ref(), position);
    else if constexpr (is_module<A>)
      add_module(module_ref(a), position);
    else
      StructureOf<A>::flatten(a, arguments_.leaves);
  }
  void add_module(const ModuleRef& ref, int position) {
    arguments_.modules.push_back(ref);
    arguments_.module_positions.push_back(position);
  }

  template <class... User, class... A>
  void write_spec(Types<User...> types, const A&... a) {
    if constexpr ((StructureOf<User>::fixed && ...)) {
      arguments_.spec = fixed_spec(types).c_str();
    } else {
      int user = 0;
      spec_ += '(';
      (add_spec(a, user), ...);
      spec_ += user == 1 ? ",)" : ")";
      arguments_.spec = spec_.c_str();
    }
  }
  template <class A>
  void add_spec(const A& a, int& user) {
    if constexpr (!passes_module<A>) {
      if (user++) spec_ += ", ";
      StructureOf<A>::spec(a, spec_);
    }
  }

  Arguments arguments_;
  std::string spec_;
};

/// How a typed runnable takes parameter P.
template <class P>
using Parameter = std::conditional_t<is_module<P>, ModuleArgument, const std::remove_cvref_t<P>&>;

/// Reads a result of type R from the leaves of a call.
template <class R>
R rebuild_result(std::span<const Node> structure, ResultLeaf* leaves) {
  if constexpr (!std::is_void_v<R>) {
    Cursor cursor{structure.data(), leaves};
    return StructureOf<R>::rebuild(cursor);
  }
}

}  // namespace precast::detail
