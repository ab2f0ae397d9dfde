// Structure<T>: how a C++ type is a tree of leaves. Tensors, numbers, strings and none are leaves; vectors, tuples,
// pairs, optionals, string-keyed maps and packed sequences nest; a struct joins through precast_tie, found by argument
// lookup:
//
//   auto precast_tie(const Batch& b) { return std::tie(b.x, b.mask); }
//   auto precast_tie(Batch& b) { return std::tie(b.x, b.mask); }
//
// or with names, which then stand in messages and metadata:
//
//   auto precast_tie(const Batch& b) { return precast::fields("Batch", {"x", "mask"}, b.x, b.mask); }
//
// Entries of a map come in the order of their keys.
#pragma once
#include <c10/core/Scalar.h>
#include <c10/util/ArrayRef.h>

#include <algorithm>
#include <array>
#include <map>
#include <optional>
#include <string>
#include <tuple>
#include <type_traits>
#include <unordered_map>
#include <utility>
#include <variant>
#include <vector>

#include "precast/detail/leaf.h"
#include "precast/error.h"

namespace torch::nn::utils::rnn {
class PackedSequence;
}

namespace precast {

/// A struct's members with its name and theirs; see precast_tie.
template <class... T>
struct Fields {
  const char* name;
  std::array<const char*, sizeof...(T)> keys;
  std::tuple<T&...> members;
};
template <class... T>
Fields<T...> fields(const char* name, const char* const (&keys)[sizeof...(T)], T&... members) {
  Fields<T...> result{name, {}, std::tie(members...)};
  std::copy(std::begin(keys), std::end(keys), result.keys.begin());
  return result;
}

namespace detail {

/// Members of each specialization:
///   fixed            the structure depends on the type alone
///   flatten          appends the leaves of a value
///   spec             appends the structure string of a value
///   fixed_spec       the same without a value (fixed types)
///   matches          does a recorded structure fit the type? advances the cursor over it
///   rebuild          makes a value from result leaves
///   words            the type for messages
template <class T, class = void>
struct Structure {
  static_assert(sizeof(T) == 0,
                "precast: arguments and results are tensors, numbers, strings, and vectors, tuples, pairs, optionals, "
                "string-keyed maps and structs of them; give a struct of yours a precast_tie (see precast.h). Modules "
                "are arguments of their own, never nested.");
};
template <class T>
using StructureOf = Structure<std::remove_cv_t<std::remove_reference_t<T>>>;

// ---- Leaves ----

struct FixedLeaf {
  static constexpr bool fixed = true;
  template <class T>
  static void spec(const T&, std::string& out) {
    out += '*';
  }
  static void fixed_spec(std::string& out) { out += '*'; }
};

template <Kind K>
struct LeafOf : FixedLeaf {
  static bool matches(Cursor& c) { return c.node->type == Node::leaf && (c.node++)->kind == K; }
};

template <>
struct Structure<at::Tensor> : LeafOf<Kind::tensor> {
  /// An undefined tensor is None.
  static void flatten(const at::Tensor& t, Leaves& out) {
    Leaf& leaf = out.emplace_back();
    if (!t.defined()) return;
    leaf.kind = Kind::tensor;
    leaf.tensor = &t;
  }
  static bool matches(Cursor& c) {
    const Kind kind = c.node->kind;
    return (c.node++)->type == Node::leaf && (kind == Kind::tensor || kind == Kind::none);
  }
  static at::Tensor rebuild(Cursor& c) { return ++c.node, std::move((c.leaf++)->tensor); }
  static std::string words() { return "tensor"; }
};

template <class T>
struct Structure<T, std::enable_if_t<std::is_integral_v<T>>>
    : LeafOf<std::is_same_v<T, bool> ? Kind::boolean : Kind::integer> {
  static void flatten(T v, Leaves& out) {
    Leaf& leaf = out.emplace_back();
    leaf.kind = std::is_same_v<T, bool> ? Kind::boolean : Kind::integer;
    leaf.integer = static_cast<int64_t>(v);
    if constexpr (std::is_unsigned_v<T>)
      if (leaf.integer < 0)
        throw PrecompileError("the number " + std::to_string(v) + " does not fit into 64 bits with a sign");
  }
  static T rebuild(Cursor& c) {
    const int64_t value = (c.leaf++)->integer;
    ++c.node;
    const T v = static_cast<T>(value);
    if (static_cast<int64_t>(v) != value || (v < T{}) != (value < 0))
      throw PrecompileError("the result is " + std::to_string(value) +
                            ", which the integer type asked for cannot hold; ask for int64_t");
    return v;
  }
  static std::string words() { return std::is_same_v<T, bool> ? "bool" : "int"; }
};

template <class T>
struct Structure<T, std::enable_if_t<std::is_floating_point_v<T>>> : LeafOf<Kind::real> {
  static void flatten(T v, Leaves& out) {
    Leaf& leaf = out.emplace_back();
    leaf.kind = Kind::real;
    leaf.real = static_cast<double>(v);
  }
  static T rebuild(Cursor& c) { return ++c.node, static_cast<T>((c.leaf++)->real); }
  static std::string words() { return "float"; }
};

template <class T>
struct Structure<T, std::enable_if_t<std::is_convertible_v<const T&, std::string_view>>> : LeafOf<Kind::string> {
  static void flatten(const T& v, Leaves& out) {
    Leaf& leaf = out.emplace_back();
    if constexpr (std::is_pointer_v<T>)
      if (!v) return;
    const std::string_view text = v;
    leaf.kind = Kind::string;
    leaf.text = text.data();
    leaf.length = static_cast<int32_t>(text.size());
  }
  static auto rebuild(Cursor& c) { return ++c.node, T((c.leaf++)->text); }
  static std::string words() { return "str"; }
};

struct NoneLeaf : LeafOf<Kind::none> {
  template <class T>
  static void flatten(const T&, Leaves& out) {
    out.emplace_back();
  }
  static std::string words() { return "None"; }
};
template <>
struct Structure<std::monostate> : NoneLeaf {
  static std::monostate rebuild(Cursor& c) { return ++c.node, ++c.leaf, std::monostate{}; }
};
template <>
struct Structure<std::nullopt_t> : NoneLeaf {
  static std::nullopt_t rebuild(Cursor& c) { return ++c.node, ++c.leaf, std::nullopt; }
};
template <>
struct Structure<std::nullptr_t> : NoneLeaf {
  static std::nullptr_t rebuild(Cursor& c) { return ++c.node, ++c.leaf, nullptr; }
};

[[noreturn]] void refuse_complex();

/// A number whose kind is its value's.
template <>
struct Structure<c10::Scalar> : FixedLeaf {
  static void flatten(const c10::Scalar& v, Leaves& out) {
    if (v.isBoolean()) return Structure<bool>::flatten(v.toBool(), out);
    if (v.isIntegral(false)) return Structure<int64_t>::flatten(v.toLong(), out);
    if (v.isComplex()) refuse_complex();
    Structure<double>::flatten(v.toDouble(), out);
  }
  static bool matches(Cursor& c) {
    const Kind kind = c.node->kind;
    return (c.node++)->type == Node::leaf && (kind == Kind::boolean || kind == Kind::integer || kind == Kind::real);
  }
  static c10::Scalar rebuild(Cursor& c) {
    const ResultLeaf& leaf = (++c.node, *c.leaf++);
    if (leaf.kind == Kind::boolean) return c10::Scalar(leaf.integer != 0);
    return leaf.kind == Kind::integer ? c10::Scalar(leaf.integer) : c10::Scalar(leaf.real);
  }
  static std::string words() { return "number"; }
};

/// None, or what T is.
template <class T>
struct Structure<std::optional<T>> {
  static constexpr bool fixed = std::is_base_of_v<FixedLeaf, Structure<T>>;
  static void flatten(const std::optional<T>& v, Leaves& out) {
    if (v) return Structure<T>::flatten(*v, out);
    out.emplace_back();
  }
  static void spec(const std::optional<T>& v, std::string& out) {
    if (v) return Structure<T>::spec(*v, out);
    out += '*';
  }
  static void fixed_spec(std::string& out) { out += '*'; }
  static bool none(const Cursor& c) { return c.node->type == Node::leaf && c.node->kind == Kind::none; }
  static bool matches(Cursor& c) { return none(c) ? (++c.node, true) : Structure<T>::matches(c); }
  static std::optional<T> rebuild(Cursor& c) {
    if (none(c)) return ++c.node, ++c.leaf, std::nullopt;
    return Structure<T>::rebuild(c);
  }
  static std::string words() { return "optional[" + Structure<T>::words() + "]"; }
};

// ---- Lists ----

template <class T, class Element>
struct ListStructure {
  using Entry = Structure<std::remove_cv_t<Element>>;
  static constexpr bool fixed = false;
  static void flatten(const T& v, Leaves& out) {
    for (const auto& e : v) Entry::flatten(e, out);
  }
  static void spec(const T& v, std::string& out) {
    out += '[';
    bool first = true;
    for (const auto& e : v) {
      if (!std::exchange(first, false)) out += ", ";
      Entry::spec(e, out);
    }
    out += ']';
  }
  static bool matches(Cursor& c) {
    if (c.node->type != Node::list) return false;
    for (int n = (c.node++)->children; n > 0; --n)
      if (!Entry::matches(c)) return false;
    return true;
  }
  static std::string words() { return "list[" + Entry::words() + "]"; }
};

template <class T, class A>
struct Structure<std::vector<T, A>> : ListStructure<std::vector<T, A>, T> {
  static std::vector<T, A> rebuild(Cursor& c) {
    std::vector<T, A> result;
    const int n = (c.node++)->children;
    result.reserve(static_cast<size_t>(n));
    for (int i = 0; i < n; ++i) result.push_back(Structure<T>::rebuild(c));
    return result;
  }
};
template <class T>
struct Structure<c10::ArrayRef<T>> : ListStructure<c10::ArrayRef<T>, T> {};  // an argument only: it owns nothing

template <class T, size_t N>
struct Structure<std::array<T, N>> : ListStructure<std::array<T, N>, T> {
  using Base = ListStructure<std::array<T, N>, T>;
  static bool matches(Cursor& c) { return c.node->children == static_cast<int>(N) && Base::matches(c); }
  static std::array<T, N> rebuild(Cursor& c) {
    ++c.node;
    return [&]<size_t... I>(std::index_sequence<I...>) {
      return std::array<T, N>{((void)I, Structure<T>::rebuild(c))...};
    }(std::make_index_sequence<N>());
  }
  static std::string words() { return Base::words() + " of " + std::to_string(N); }
};

// ---- Tuples ----

template <class... T>
struct TupleStructure {
  static constexpr bool fixed = (StructureOf<T>::fixed && ...);
  template <class Tuple>
  static void flatten(const Tuple& v, Leaves& out) {
    std::apply([&](const auto&... e) { (StructureOf<decltype(e)>::flatten(e, out), ...); }, v);
  }
  template <class Tuple>
  static void spec(const Tuple& v, std::string& out) {
    write(out, [&]([[maybe_unused]] auto separate) {
      std::apply([&](const auto&... e) { ((separate(), StructureOf<decltype(e)>::spec(e, out)), ...); }, v);
    });
  }
  static void fixed_spec(std::string& out) {
    write(out, [&]([[maybe_unused]] auto separate) { ((separate(), StructureOf<T>::fixed_spec(out)), ...); });
  }
  static bool matches(Cursor& c) {
    if (c.node->type != Node::tuple || (c.node++)->children != static_cast<int>(sizeof...(T))) return false;
    return (StructureOf<T>::matches(c) && ...);
  }
  static std::string words() {
    std::string out = "tuple(";
    ((out += StructureOf<T>::words() + ", "), ...);
    if constexpr (sizeof...(T) > 0) out.resize(out.size() - 2);
    return out + ")";
  }

 private:
  template <class F>
  static void write(std::string& out, F&& entries) {
    out += '(';
    entries([&, first = true]() mutable {
      if (!std::exchange(first, false)) out += ", ";
    });
    out += sizeof...(T) == 1 ? ",)" : ")";
  }
};

template <class... T>
struct Structure<std::tuple<T...>> : TupleStructure<T...> {
  static std::tuple<T...> rebuild(Cursor& c) {
    ++c.node;
    return std::tuple<T...>{StructureOf<T>::rebuild(c)...};  // braces: left to right
  }
};
/// Data, batch sizes, and the two permutations, which may be None.
template <class T>
struct Structure<T, std::enable_if_t<std::is_same_v<T, torch::nn::utils::rnn::PackedSequence>>>
    : TupleStructure<at::Tensor, at::Tensor, at::Tensor, at::Tensor> {
  using Base = TupleStructure<at::Tensor, at::Tensor, at::Tensor, at::Tensor>;
  static auto tie(const T& p) { return std::tie(p.data(), p.batch_sizes(), p.sorted_indices(), p.unsorted_indices()); }
  static void flatten(const T& p, Leaves& out) { Base::flatten(tie(p), out); }
  static void spec(const T& p, std::string& out) { Base::spec(tie(p), out); }
  static T rebuild(Cursor& c) {
    ++c.node;
    std::array<at::Tensor, 4> t;
    for (at::Tensor& one : t) one = Structure<at::Tensor>::rebuild(c);
    return T(t[0], t[1], t[2], t[3]);
  }
};
template <class A, class B>
struct Structure<std::pair<A, B>> : TupleStructure<A, B> {
  static std::pair<A, B> rebuild(Cursor& c) {
    ++c.node;
    A a = StructureOf<A>::rebuild(c);
    return {std::move(a), StructureOf<B>::rebuild(c)};
  }
};

// ---- Maps ----

void append_key(std::string_view key, std::string& out);  // quoted and escaped: 'k'

/// The entries of a map in the order of their keys.
template <class Map>
auto sorted_entries(const Map& m) {
  std::vector<const typename Map::value_type*> entries;
  for (const auto& e : m) entries.push_back(&e);
  std::sort(entries.begin(), entries.end(), [](auto* a, auto* b) { return a->first < b->first; });
  return entries;
}

template <class Map>
struct MapStructure {
  using Entry = Structure<typename Map::mapped_type>;
  static constexpr bool fixed = false;
  static void flatten(const Map& m, Leaves& out) {
    for (const auto* e : sorted_entries(m)) Entry::flatten(e->second, out);
  }
  static void spec(const Map& m, std::string& out) {
    out += '{';
    bool first = true;
    for (const auto* e : sorted_entries(m)) {
      if (!std::exchange(first, false)) out += ", ";
      append_key(e->first, out);
      out += ": ";
      Entry::spec(e->second, out);
    }
    out += '}';
  }
  static bool matches(Cursor& c) {
    if (c.node->type != Node::dict) return false;
    for (int n = (c.node++)->children; n > 0; --n)
      if (!Entry::matches(c)) return false;
    return true;
  }
  static Map rebuild(Cursor& c) {
    Map result;
    for (int n = (c.node++)->children; n > 0; --n) {
      std::string key(c.node->key);
      result.emplace(std::move(key), Entry::rebuild(c));
    }
    return result;
  }
  static std::string words() { return "dict[" + Entry::words() + "]"; }
};
template <class T, class L, class A>
struct Structure<std::map<std::string, T, L, A>> : MapStructure<std::map<std::string, T, L, A>> {};
template <class T, class H, class E, class A>
struct Structure<std::unordered_map<std::string, T, H, E, A>>
    : MapStructure<std::unordered_map<std::string, T, H, E, A>> {};

// ---- User structs ----

template <class T>
using Tie = decltype(precast_tie(std::declval<T&>()));

template <class>
struct IsFields : std::false_type {};
template <class... T>
struct IsFields<Fields<T...>> : std::true_type {};

template <class Tuple>
struct TiedStructure;
template <class... T>
struct TiedStructure<std::tuple<T&...>> : TupleStructure<std::remove_cv_t<T>...> {
  static void assign(const std::tuple<T&...>& members, Cursor& c) {
    std::apply([&](auto&... m) { ((m = StructureOf<decltype(m)>::rebuild(c)), ...); }, members);
  }
};

template <class T>
struct Structure<T, std::void_t<Tie<const T>>> {
  using Tied = Tie<const T>;
  static constexpr bool named = IsFields<Tied>::value;
  static decltype(auto) members(auto& tied) {
    if constexpr (named)
      return (tied.members);
    else
      return (tied);
  }
  using Members = std::remove_cvref_t<decltype(members(std::declval<Tied&>()))>;
  using Inner = TiedStructure<Members>;
  static constexpr bool fixed = Inner::fixed && !named;

  static void flatten(const T& v, Leaves& out) {
    auto tied = precast_tie(v);
    Inner::flatten(members(tied), out);
  }
  static void spec(const T& v, std::string& out) {
    auto tied = precast_tie(v);
    if constexpr (named) {
      out += tied.name;
      out += '(';
      size_t i = 0;
      std::apply(
          [&](const auto&... m) {
            ((out += i ? ", " : "", out += tied.keys[i++], out += '=', StructureOf<decltype(m)>::spec(m, out)), ...);
          },
          tied.members);
      out += ')';
    } else {
      Inner::spec(tied, out);
    }
  }
  static void fixed_spec(std::string& out) { Inner::fixed_spec(out); }
  static bool matches(Cursor& c) {
    if constexpr (!named)
      return Inner::matches(c);
    else {
      Node tuple = *c.node;
      if (tuple.type != Node::record || tuple.children != static_cast<int>(std::tuple_size_v<Members>)) return false;
      ++c.node;
      return matches_members(c, std::make_index_sequence<std::tuple_size_v<Members>>());
    }
  }
  static T rebuild(Cursor& c) {
    T result{};
    auto tied = precast_tie(result);
    ++c.node;
    TiedStructure<std::remove_cvref_t<decltype(members(tied))>>::assign(members(tied), c);
    return result;
  }
  static std::string words() { return "struct of " + Inner::words(); }

 private:
  template <size_t... I>
  static bool matches_members(Cursor& c, std::index_sequence<I...>) {
    return (StructureOf<std::tuple_element_t<I, Members>>::matches(c) && ...);
  }
};

}  // namespace detail
}  // namespace precast
