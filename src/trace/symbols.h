// The sizes that a recording leaves open, one symbol for each marked dim or group, and how LibTorch sees them: as
// SymInts that compute with expressions, and refuse whoever asks for a number or a truth that the bounds do not tell.
#pragma once
#include <c10/core/SymBool.h>
#include <c10/core/SymInt.h>

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "ir/size.h"
#include "precast/error.h"
#include "util/checks.h"

namespace precast::trace {

/// A value for each symbol, by id.
using Point = std::vector<int64_t>;

/// A condition on sizes.
struct Truth {
  enum class Kind { constant, equal, less, at_most, both, either, negation } kind = Kind::constant;
  bool value = false;
  ir::Size a{}, b{};
  std::shared_ptr<const Truth> left{}, right{};

  bool at(const std::function<int64_t(const ir::Size&)>& value_of) const;
  std::string text() const;
};
using TruthPtr = std::shared_ptr<const Truth>;

/// A call cannot be followed at other sizes: the reason of a refusal, or what is left where a test build switched the
/// refusal off.
struct RunFailure : PrecompileError {
  using PrecompileError::PrecompileError;
};

class Symbols : public std::enable_shared_from_this<Symbols> {
 public:
  struct One {
    ir::Symbol symbol;
    int64_t real = 0;   // in the recorded call
    std::string where;  // "argument 0, dim 1"
    int same_as = -1;   // the graph needs it to be equal to this one
  };
  std::vector<One> all;
  int changes = 0;   // how often two became one, or bounds grew tighter
  bool live = true;  // false: the call is over, and sizes are those it had
  std::function<void(Check, const std::string&)> refuse;
  std::vector<TruthPtr> assumed;  // what LibTorch checks of the sizes, true in the recorded call

  int add(ir::Symbol, int64_t real, std::string where);
  ir::Size size(int id) const { return ir::Size::symbol(all.at(static_cast<size_t>(root(id))).symbol); }
  int root(int id) const;
  /// Both are one size from now on; the bounds of both hold.
  void join(int a, int b);
  /// With joined symbols as one.
  ir::Size canonical(const ir::Size&) const;
  int64_t real(const ir::Size&) const;
  std::optional<int64_t> at(const ir::Size&, const Point&) const;
  /// "u0=5 u1=13", without symbols that are joined to others.
  std::string in_words(const Point&, const char* between) const;
  /// What the bounds tell of it.
  std::optional<bool> decide(const Truth&) const;

  c10::SymInt to_sym(const ir::Size&);
  ir::Size from_sym(const c10::SymInt&) const;
  /// "u0 (argument 0, dim 1)", for each symbol of an expression.
  std::string origins(const ir::Size&) const;
  /// A number or truth was asked for.
  [[noreturn]] void refuse_guard(const std::string& expression, const std::string& origins) const;
};

/// The op of LibTorch that asks ("aten::matmul"), or nothing.
std::string calling_op();
/// Whether this function of LibTorch is among the callers.
bool is_called_by(std::string_view function);
/// The optimizer whose step asks ("torch::optim::Adam"), or nothing.
std::string calling_optimizer();
/// The op and the place in the user's source that called LibTorch: " by aten::matmul, called at model.cpp:12"; may be
/// empty.
std::string calling_place();

}  // namespace precast::trace
