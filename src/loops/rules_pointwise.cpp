// Pointwise ops: one row an op, with the name of its vector function.
#include <array>
#include <complex>
#include <set>

#include "loops/lowering.h"

namespace precast::loops {

namespace {

using ir::Dtype;

struct Row {
  const char* op;
  const char* function;                 // of emit/preamble.h
  std::array<const char*, 2> operands;  // tensors or numbers
};

constexpr std::array<const char*, 2> kUnary = {"self", nullptr}, kBinary = {"self", "other"};

const Row kRows[] = {
    {"aten::neg", "neg", kUnary},
    {"aten::abs", "abs", kUnary},
    {"aten::sign", "sign", kUnary},
    {"aten::sgn", "sign", kUnary},
    {"aten::exp", "exp", kUnary},
    {"aten::exp2", "exp2", kUnary},
    {"aten::expm1", "expm1", kUnary},
    {"aten::log", "log", kUnary},
    {"aten::log2", "log2", kUnary},
    {"aten::log10", "log10", kUnary},
    {"aten::log1p", "log1p", kUnary},
    {"aten::sqrt", "sqrt", kUnary},
    {"aten::rsqrt", "rsqrt", kUnary},
    {"aten::reciprocal", "reciprocal", kUnary},
    {"aten::sin", "sin", kUnary},
    {"aten::cos", "cos", kUnary},
    {"aten::tan", "tan", kUnary},
    {"aten::asin", "asin", kUnary},
    {"aten::acos", "acos", kUnary},
    {"aten::atan", "atan", kUnary},
    {"aten::sinh", "sinh", kUnary},
    {"aten::cosh", "cosh", kUnary},
    {"aten::tanh", "tanh", kUnary},
    {"aten::asinh", "asinh", kUnary},
    {"aten::acosh", "acosh", kUnary},
    {"aten::atanh", "atanh", kUnary},
    {"aten::erf", "erf", kUnary},
    {"aten::erfc", "erfc", kUnary},
    {"aten::erfinv", "erfinv", kUnary},
    {"aten::lgamma", "lgamma", kUnary},
    {"aten::digamma", "digamma", kUnary},
    {"aten::sigmoid", "sigmoid", kUnary},
    {"aten::relu", "relu", kUnary},
    {"aten::floor", "floor", kUnary},
    {"aten::ceil", "ceil", kUnary},
    {"aten::round", "round", kUnary},
    {"aten::trunc", "trunc", kUnary},
    {"aten::isnan", "isnan", kUnary},
    {"aten::isinf", "isinf", kUnary},
    {"aten::logical_not", "logical_not", kUnary},
    {"aten::bitwise_not", "bitwise_not", kUnary},

    {"aten::add.Tensor", "add", kBinary},
    {"aten::add.Scalar", "add", kBinary},
    {"aten::sub.Tensor", "sub", kBinary},
    {"aten::sub.Scalar", "sub", kBinary},
    {"aten::mul.Tensor", "mul", kBinary},
    {"aten::mul.Scalar", "mul", kBinary},
    {"aten::div.Tensor", "div", kBinary},
    {"aten::div.Scalar", "div", kBinary},
    {"aten::remainder.Tensor", "remainder", kBinary},
    {"aten::remainder.Scalar", "remainder", kBinary},
    {"aten::fmod.Tensor", "fmod", kBinary},
    {"aten::fmod.Scalar", "fmod", kBinary},
    {"aten::pow.Tensor_Tensor", "pow", {"self", "exponent"}},
    {"aten::pow.Tensor_Scalar", "pow", {"self", "exponent"}},
    {"aten::pow.Scalar", "pow", {"self", "exponent"}},
    {"aten::maximum", "maximum", kBinary},
    {"aten::minimum", "minimum", kBinary},
    {"aten::fmax", "fmax", kBinary},
    {"aten::fmin", "fmin", kBinary},
    {"aten::atan2", "atan2", kBinary},
    {"aten::hypot", "hypot", kBinary},
    {"aten::copysign.Tensor", "copysign", kBinary},
    {"aten::copysign.Scalar", "copysign", kBinary},
    {"aten::nextafter", "nextafter", kBinary},
    {"aten::eq.Tensor", "eq", kBinary},
    {"aten::eq.Scalar", "eq", kBinary},
    {"aten::ne.Tensor", "ne", kBinary},
    {"aten::ne.Scalar", "ne", kBinary},
    {"aten::lt.Tensor", "lt", kBinary},
    {"aten::lt.Scalar", "lt", kBinary},
    {"aten::le.Tensor", "le", kBinary},
    {"aten::le.Scalar", "le", kBinary},
    {"aten::gt.Tensor", "gt", kBinary},
    {"aten::gt.Scalar", "gt", kBinary},
    {"aten::ge.Tensor", "ge", kBinary},
    {"aten::ge.Scalar", "ge", kBinary},
    {"aten::bitwise_and.Tensor", "bitwise_and", kBinary},
    {"aten::bitwise_and.Scalar", "bitwise_and", kBinary},
    {"aten::bitwise_or.Tensor", "bitwise_or", kBinary},
    {"aten::bitwise_or.Scalar", "bitwise_or", kBinary},
    {"aten::bitwise_xor.Tensor", "bitwise_xor", kBinary},
    {"aten::bitwise_xor.Scalar", "bitwise_xor", kBinary},
    {"aten::bitwise_left_shift.Tensor", "bitwise_left_shift", kBinary},
    {"aten::bitwise_left_shift.Tensor_Scalar", "bitwise_left_shift", kBinary},
    {"aten::bitwise_right_shift.Tensor", "bitwise_right_shift", kBinary},
    {"aten::bitwise_right_shift.Tensor_Scalar", "bitwise_right_shift", kBinary},
    {"aten::logical_and", "logical_and", kBinary},
    {"aten::logical_or", "logical_or", kBinary},
    {"aten::logical_xor", "logical_xor", kBinary},
};

const Row* row(std::string_view op) {
  static const auto& index = *new std::map<std::string_view, const Row*>([] {
    std::map<std::string_view, const Row*> m;
    for (const Row& r : kRows) m[r.op] = &r;
    return m;
  }());
  return index.at(op);
}

std::string short_name(const std::string& op) {
  const size_t start = op.find("::") + 2;
  const std::string name = op.substr(start, op.find('.', start) - start);
  return name == "_to_copy" ? "to" : name;
}

bool is_comparison(std::string_view f) {
  return f == "eq" || f == "ne" || f == "lt" || f == "le" || f == "gt" || f == "ge";
}

/// Masks are 0 and -1, so what ATen does on 0 and 1 becomes logic. Nothing where bool has no such op.
std::optional<ExprId> on_bools(Exprs& ex, std::string_view f, const std::vector<ExprId>& x) {
  const auto logic = [&](const char* op, ExprId a, ExprId b) { return ex.call(op, Dtype::b8, {a, b}); };
  const auto inverse = [&](ExprId a) { return ex.call("bitwise_not", Dtype::b8, {a}); };
  if (f == "add" || f == "maximum" || f == "fmax" || f == "bitwise_or" || f == "logical_or")
    return logic("bitwise_or", x[0], x[1]);
  if (f == "mul" || f == "minimum" || f == "fmin" || f == "bitwise_and" || f == "logical_and")
    return logic("bitwise_and", x[0], x[1]);
  if (f == "ne" || f == "bitwise_xor" || f == "logical_xor") return logic("bitwise_xor", x[0], x[1]);
  if (f == "eq") return inverse(logic("bitwise_xor", x[0], x[1]));
  if (f == "lt") return logic("bitwise_and", inverse(x[0]), x[1]);
  if (f == "gt") return logic("bitwise_and", x[0], inverse(x[1]));
  if (f == "le") return logic("bitwise_or", inverse(x[0]), x[1]);
  if (f == "ge") return logic("bitwise_or", x[0], inverse(x[1]));
  if (f == "logical_not" || f == "bitwise_not") return inverse(x[0]);
  if (f == "sign" || f == "abs") return x[0];
  return std::nullopt;
}

/// A number argument as an element of this dtype. `exact`: not rounded to f16 or bf16 first, as ATen does with factors.
ExprId number_element(Exprs& ex, Dtype dtype, const ir::Node& n, std::string_view arg, bool exact) {
  if (const auto size = ir::as_size(*n.find(arg)); size && size->is_symbolic()) {
    const bool half = dtype == Dtype::f16 || dtype == Dtype::bf16;
    return ex.cast(half && exact ? Dtype::f32 : dtype, ex.index(Index(*size)));
  }
  if (!ir::is_float(dtype)) return ex.constant(dtype, int64_t{integer(n, arg)});
  return exact ? ex.operand_number(dtype, number(n, arg)) : ex.constant(dtype, number(n, arg));
}

bool pointwise(Lowering& l, const ir::Node& n) {
  const Row& r = *row(n.op);
  const ir::ValueId out = result(n);
  Dtype dtype = l.type(out).dtype;
  std::string function = r.function;
  for (const char* name : r.operands)
    if (name)
      if (const ir::ValueId v = tensor(n, name); v != ir::kNoValue) dtype = l.type(v).dtype;
  for (const char* name : r.operands) {
    if (!name) continue;
    if (const ir::ValueId v = tensor(n, name); v != ir::kNoValue && l.type(v).dtype != dtype)
      return l.refuse("operands of different dtypes");
  }
  if (n.find("alpha") && number(n, "alpha") != 1) return l.refuse("alpha is not 1");
  if (n.find("decimals") && integer(n, "decimals") != 0) return l.refuse("rounding to decimals");
  const bool to_bool = is_comparison(function) || function.starts_with("is") || function.starts_with("logical");
  const Dtype result_dtype = to_bool ? Dtype::b8 : dtype;
  if (l.type(out).dtype != result_dtype) return l.refuse("result of another dtype");
  if (dtype == Dtype::b8) {
    Exprs& ex = l.exprs();
    const ExprId zero = ex.constant(Dtype::b8, int64_t{0});
    if (!on_bools(ex, function, {zero, zero})) return l.refuse("bool has no kernel for it");
  } else if (!ir::is_float(dtype)) {
    static const auto& kFloatOnly = *new std::set<std::string_view>{
        "exp", "exp2", "expm1",  "log",    "log2",    "log10",   "log1p", "sqrt",  "rsqrt", "reciprocal", "sin",
        "cos", "tan",  "asin",   "acos",   "atan",    "sinh",    "cosh",  "tanh",  "asinh", "acosh",      "atanh",
        "erf", "erfc", "erfinv", "lgamma", "digamma", "sigmoid", "div",   "atan2", "hypot", "copysign",   "nextafter"};
    static const auto& kSame = *new std::set<std::string_view>{"floor", "ceil", "round", "trunc"};
    if (kFloatOnly.contains(function)) return l.refuse("integers have no kernel for it");
    if (kSame.contains(function)) function = "clone";
    if (function == "fmax") function = "maximum";
    if (function == "fmin") function = "minimum";
  }
  l.define(out, short_name(n.op), [&l, &n, &r, function, dtype, result_dtype](const Indices& index) {
    Exprs& ex = l.exprs();
    std::vector<ExprId> x;
    for (const char* name : r.operands) {
      if (!name) continue;
      if (const ir::ValueId v = tensor(n, name); v != ir::kNoValue) {
        x.push_back(l.broadcast(v, index));
      } else {
        x.push_back(number_element(ex, dtype, n, name, function == "mul" || function == "div"));
      }
    }
    if (function == "clone") return x[0];
    if (dtype == Dtype::b8) return *on_bools(ex, function, x);
    return ex.call(function, result_dtype, std::move(x));
  });
  return true;
}

/// The exponents ATen replaces by exact arithmetic.
bool power(Lowering& l, const ir::Node& n) {
  const Dtype dtype = l.type(result(n)).dtype;
  if (dtype != l.type(tensor(n, "self")).dtype) return l.refuse("result of another dtype");
  if (!ir::is_float(dtype)) return pointwise(l, n);
  const double e = number(n, "exponent");
  const char* function = e == 0.5 ? "sqrt" : e == -0.5 ? "rsqrt" : e == -1 ? "reciprocal" : nullptr;
  if (!function && e != 2 && e != 3 && e != -2) return pointwise(l, n);
  l.define(result(n), "pow", [&l, &n, dtype, function, e](const Indices& index) {
    Exprs& ex = l.exprs();
    const ExprId x = l.broadcast(tensor(n, "self"), index);
    if (function) return ex.call(function, dtype, {x});
    // One op, one rounding: f16 and bf16 square in f32.
    const Dtype wide = dtype == Dtype::f64 ? Dtype::f64 : Dtype::f32;
    const ExprId y = ex.cast(wide, x);
    const ExprId square = ex.call("mul", wide, {y, y});
    if (e == 2) return ex.cast(dtype, square);
    if (e == 3) return ex.cast(dtype, ex.call("mul", wide, {square, y}));
    return ex.cast(dtype, ex.call("div", wide, {ex.constant(wide, 1.0), square}));
  });
  return true;
}

bool div_mode(Lowering& l, const ir::Node& n) {
  const auto* mode = std::get_if<std::string>(n.find("rounding_mode"));
  const ir::ValueId out = result(n);
  const Dtype dtype = l.type(out).dtype;
  if (l.type(tensor(n, "self")).dtype != dtype || dtype == Dtype::b8) return l.refuse("result of another dtype");
  if (!mode && !ir::is_float(dtype)) return l.refuse("true division of integers");
  const std::string function = mode ? "div_" + *mode : "div";
  l.define(out, "div", [&l, &n, function, dtype](const Indices& index) {
    Exprs& ex = l.exprs();
    const ExprId dividend = l.broadcast(tensor(n, "self"), index);
    if (const ir::ValueId other = tensor(n, "other"); other != ir::kNoValue)
      return ex.call(function, dtype, {dividend, l.broadcast(other, index)});
    if (!ir::is_float(dtype))
      return ex.call(function, dtype, {dividend, ex.constant(dtype, int64_t{integer(n, "other")})});
    // By a number, ATen stays in f32 until the end.
    const Dtype wide = dtype == Dtype::f64 ? Dtype::f64 : Dtype::f32;
    return ex.cast(dtype, ex.call(function, wide, {ex.cast(wide, dividend), ex.constant(wide, number(n, "other"))}));
  });
  return true;
}

bool copy(Lowering& l, const ir::Node& n) {
  const ir::ValueId out = result(n);
  l.define(out, short_name(n.op), [&l, &n, dtype = l.type(out).dtype](const Indices& index) {
    return l.exprs().cast(dtype, l.broadcast(tensor(n, "self"), index));
  });
  return true;
}

bool where(Lowering& l, const ir::Node& n) {
  const ir::ValueId out = result(n);
  for (const char* name : {"self", "other"})
    if (l.type(tensor(n, name)).dtype != l.type(out).dtype) return l.refuse("operands of different dtypes");
  if (l.type(tensor(n, "condition")).dtype != Dtype::b8) return l.refuse("the condition is not bool");
  l.define(out, "where", [&l, &n](const Indices& index) {
    return l.exprs().select(l.broadcast(tensor(n, "condition"), index), l.broadcast(tensor(n, "self"), index),
                            l.broadcast(tensor(n, "other"), index));
  });
  return true;
}

bool constant(Lowering& l, const ir::Node& n, const char* arg) {
  if (std::holds_alternative<std::complex<double>>(*n.find(arg))) return l.refuse("complex number");
  const ir::ValueId out = result(n);
  l.define(out, short_name(n.op), [&l, &n, arg, dtype = l.type(out).dtype](const Indices&) {
    return number_element(l.exprs(), dtype, n, arg, false);
  });
  return true;
}

bool full(Lowering& l, const ir::Node& n) { return constant(l, n, "fill_value"); }
bool scalar_tensor(Lowering& l, const ir::Node& n) { return constant(l, n, "s"); }

bool empty(Lowering& l, const ir::Node& n) {
  const ir::ValueId out = result(n);
  l.define(out, "empty",
           [&l, dtype = l.type(out).dtype](const Indices&) { return l.exprs().constant(dtype, int64_t{0}); });
  return true;
}

bool arange(Lowering& l, const ir::Node& n) {
  const ir::ValueId out = result(n);
  const Dtype dtype = l.type(out).dtype;
  if (dtype == Dtype::b8) return l.refuse("arange of bool");
  const bool real = ir::is_float(dtype);
  if (!real && (std::holds_alternative<double>(*n.find("start")) || std::holds_alternative<double>(*n.find("step"))))
    return l.refuse("integers from a real step");
  l.define(out, "arange", [&l, &n, dtype, real](const Indices& index) {
    Exprs& ex = l.exprs();
    if (!real) return ex.cast(dtype, ex.index(index[0] * integer(n, "step") + Index(integer(n, "start"))));
    // ATen computes in double (float for f16 and bf16).
    const Dtype wide = dtype == Dtype::f32 || dtype == Dtype::f64 ? Dtype::f64 : Dtype::f32;
    const ExprId i = ex.cast(wide, ex.index(index[0]));
    const ExprId steps = ex.call("mul", wide, {ex.constant(wide, number(n, "step")), i});
    return ex.cast(dtype, ex.call("add", wide, {ex.constant(wide, number(n, "start")), steps}));
  });
  return true;
}

}  // namespace

void add_pointwise_rules(Rules& rules) {
  for (const Row& r : kRows) rules[r.op] = pointwise;
  rules["aten::pow.Tensor_Scalar"] = power;
  rules["aten::div.Tensor_mode"] = div_mode;
  rules["aten::div.Scalar_mode"] = div_mode;
  rules["aten::clone"] = copy;
  rules["aten::_to_copy"] = copy;
  rules["aten::where.self"] = where;
  rules["aten::full"] = full;
  rules["aten::scalar_tensor"] = scalar_tensor;
  rules["aten::empty.memory_format"] = empty;
  rules["aten::empty_strided"] = empty;
  rules["aten::empty"] = empty;
  rules["aten::arange.start_step"] = arange;
}

}  // namespace precast::loops
