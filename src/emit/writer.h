// Writes expressions as vector statements. Each is placed in the outermost open loop that binds what it depends on,
// once; loops are scopes.
#pragma once
#include <map>
#include <set>
#include <string>
#include <vector>

#include "emit/kernel.h"

namespace precast::emit {

/// "f32": the vocabulary's name of a dtype.
std::string type_name(ir::Dtype);
/// The dtype of a register: f32 for f16 and bf16.
ir::Dtype register_dtype(ir::Dtype);
/// C++ literal of a number of this dtype.
std::string literal(double);
std::string literal(ir::Dtype, int64_t);

class Writer {
 public:
  Writer(loops::Exprs& exprs) : exprs_(exprs) { scopes_.emplace_back(); }

  // ---- Scopes: [0] is the function; each loop opens one ----
  void open(std::set<loops::Atom> bound) { scopes_.push_back({std::move(bound), {}, {}}); }
  std::string close();
  void line(const std::string& statement) { scopes_.back().text += statement + "\n"; }
  std::string take_text();  // of the innermost scope

  void name(loops::Atom variable, std::string text) { variables_[variable] = std::move(text); }
  const std::string& name(loops::Atom variable) const { return variables_.at(variable); }

  /// The variable that runs along the lanes (-1: none), and whether only `len` of W lanes are valid.
  loops::Atom lane = -1;
  bool tail = false;
  std::string lanes() const { return tail ? "len" : "W"; }

  /// A value kept in an array of this thread instead of its buffer. `per_lane`: one vector per `at`.
  struct Scratch {
    std::string array;
    loops::Index at;
    bool per_lane = false;
  };
  std::map<loops::BufferId, Scratch> scratch;

  /// The vector that holds the expression.
  std::string value(loops::ExprId);
  /// The same, read again here: for memory that the loop changes.
  std::string value_now(loops::ExprId);
  /// From here on in this scope the expression is known as `name`.
  void bind(loops::ExprId, std::string name);
  std::string fresh(const char* prefix = "x") { return prefix + std::to_string(counter_++); }
  /// Stores a vector at an element of a buffer.
  void store(loops::BufferId, ir::Dtype, const loops::Index& at, const std::string& value);
  /// The integer an index has in lane 0.
  std::string scalar(const loops::Index&);
  /// Integer lanes of an index that has a coefficient for the lane variable.
  std::string lanes_of(const loops::Index&, const char* type);

  const std::set<loops::Atom>& dependencies(loops::ExprId);
  bool varies(loops::ExprId e) { return lane >= 0 && dependencies(e).contains(lane); }

  /// Parameter for element `constant` of a buffer.
  std::string pointer(loops::BufferId, ir::Dtype, const ir::Size& constant, bool written);

  struct Parameter {
    Pointer pointer;
    ir::Dtype dtype;
    bool written = false;
  };
  std::vector<Parameter> parameters;  // p0, p1, ...
  bool can_fail = false;
  std::set<std::string> guards;  // statements that come first

 private:
  void guard_empty(loops::ExprId);
  struct Scope {
    std::set<loops::Atom> bound;
    std::string text;
    std::map<loops::ExprId, std::string> names;
  };
  size_t depth(loops::ExprId);
  std::vector<loops::ExprId> operands(loops::ExprId) const;
  size_t scope_of(loops::ExprId) const;
  bool made_here(loops::BufferId) const;
  std::string expression(loops::ExprId);
  std::string load(const loops::Expr&);
  std::string call(const loops::Expr&);
  bool lanes_vary(const loops::Index&);
  std::string offsets(const loops::Index&);

  loops::Exprs& exprs_;
  std::vector<Scope> scopes_;
  std::map<loops::Atom, std::string> variables_;
  std::map<loops::ExprId, std::set<loops::Atom>> dependencies_;
  int counter_ = 0;
};

}  // namespace precast::emit
