// Complex values as pairs of real ones: windows on their bytes, and back.
#pragma once
#include "passes/rules.h"

namespace precast::passes {

/// Both of one dtype and one size.
struct Parts {
  Val re, im;
};

ir::Dtype part_of(ir::Dtype);  // of a complex dtype; of another one itself
ir::Dtype pair_of(ir::Dtype);

/// A real value has an imaginary part of zeros.
Parts parts(Val);
Parts cast(Parts, ir::Dtype);
/// The complex value of parts that broadcast against each other.
Val joined(Parts);
/// v in another dtype, to or from complex ones too.
Val converted(Val v, ir::Dtype);
/// The same elements in these strides, of a dense layout.
Val complex_copy(Val, const Dims& strides);
/// base with a window of complex values, or with a window in complex values, overwritten (prim::scatter).
Val complex_scatter(Val base, Val src, const ir::Size& offset_bytes, const Dims& strides);

/// An operand, or a number, in parts of this dtype.
Parts operand(Op&, const char* arg, ir::Dtype);
/// The parts' dtype of these operands' common dtype.
ir::Dtype part_dtype(Op&, std::initializer_list<const char*> args);

Parts operator+(Parts, Parts);
Parts operator-(Parts, Parts);
Parts operator-(Parts);
Parts operator*(Parts, Parts);
/// As c10::complex divides, by the larger part of the divisor.
Parts operator/(Parts, Parts);
Parts times(Parts, double);  // part by part
Parts number(Val like, double re, double im = 0);
Parts where(Val condition, Parts, Parts);
Val equal(Parts, Parts);
Val is_true(Parts);  // not zero
Val size_of(Parts);  // |z|

}  // namespace precast::passes
