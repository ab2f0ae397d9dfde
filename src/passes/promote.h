// ATen's type promotion over tensors, 0-dim tensors and numbers.
#pragma once
#include <string>
#include <variant>

#include "ir/graph.h"

namespace precast::passes {

/// Thrown by a rule that cannot rewrite a node exactly; the node stays as it is.
struct Declined {
  std::string why;
};
[[noreturn]] void decline(std::string why);

/// A real number argument; it keeps its kind.
class Number {
 public:
  Number(bool v) : v_(v) {}
  Number(int v) : v_(int64_t{v}) {}
  Number(int64_t v) : v_(v) {}
  Number(double v) : v_(v) {}
  Number(const ir::Size& v) : v_(v) {
    if (!v.is_symbolic()) v_ = int64_t{v};
  }

  bool is_bool() const { return std::holds_alternative<bool>(v_); }
  bool is_double() const { return std::holds_alternative<double>(v_); }
  double real() const;      // Undecided where it is a size that only a call knows
  ir::Dtype dtype() const;  // bool, i64, or the default f32
  /// The number as an operand of this dtype sees it, rounded or wrapped; declines where it does not fit.
  ir::Attr in(ir::Dtype) const;
  bool operator==(double d) const { return !std::holds_alternative<ir::Size>(v_) && real() == d; }

 private:
  std::variant<bool, int64_t, double, ir::Size> v_;
};

/// v rounded to what the float dtype holds.
double rounded(double v, ir::Dtype);

ir::Dtype promote(ir::Dtype, ir::Dtype);

/// Accumulates operands in any order; then result().
class Promotion {
 public:
  Promotion& add(const ir::Type& t);
  Promotion& add(const Number& n) { return add_number(n.dtype()); }
  Promotion& add_number(ir::Dtype);
  ir::Dtype result() const;

 private:
  static constexpr ir::Dtype kNone = static_cast<ir::Dtype>(-1);
  static ir::Dtype combine(ir::Dtype higher, ir::Dtype lower);
  ir::Dtype dim_ = kNone, zero_ = kNone, wrapped_ = kNone;
};

}  // namespace precast::passes
