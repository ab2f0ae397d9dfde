// Functions of complex numbers, with the special values of the C library, which eager calls.
#pragma once
#include "passes/complex.h"

namespace precast::passes {

Parts sqrt(Parts);
Parts log(Parts);
Parts log1p(Parts);
Parts exp(Parts);
Parts expm1(Parts);
Parts sin(Parts);
Parts cos(Parts);
Parts tan(Parts);
Parts sinh(Parts);
Parts cosh(Parts);
Parts tanh(Parts);
Parts asin(Parts);
Parts acos(Parts);
Parts atan(Parts);
Parts asinh(Parts);
Parts acosh(Parts);
Parts atanh(Parts);
Parts reciprocal(Parts);
Parts pow(Parts base, Parts exponent);

}  // namespace precast::passes
