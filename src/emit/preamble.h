// The vocabulary of emitted kernels: vector types, memory access, casts, arithmetic and maths with ATen's CPU
// semantics, and the matrix product. Header-free C++17 that stands once in every ISA section of an artifact.
//
// ---- Types ----
//   i8 i16 i32 i64 u8 u16 u32 u64 f32 f64   scalars;  f16 bf16 b8   what memory holds (2, 2 and 1 byte)
//   LANES                  f32 lanes of this section: 16, 8 or 4
//   vec<T, W>              W lanes of T
//   reg<T, W>              what a tensor element of dtype T is in registers: vec<T, W>; f16 and bf16 are vec<f32, W>
//                          that hold rounded values; b8 is mask<W>
//   mask<W>                vec<i32, W> of 0 and -1, whatever dtype was compared
// W is free (LANES in loops, 1 for a scalar), so emitted text names W and runs at any width. `len` counts valid lanes:
// a tail runs the same text with len < W; the other lanes of a load hold `fill` (0), a store leaves them alone.
//
// ---- Memory ----   pointers are of the storage type, strides count elements
//   load<T, W>(p)      load<T, W>(p, len)      load<T, W>(p, len, fill)           -> reg<T, W>
//   store<T>(p, v)     store<T>(p, v, len)
//   load_strided<T, W>(p, stride, len)         store_strided<T>(p, stride, v, len)
//   load_at<T, W>(p, index, len)               index: vec<i64, W> element offsets; lanes from len on are not read
//   load_one<T, W>(p)                        one element in all lanes
//   splat<T, W>(x)                           a number in all lanes, rounded to T first; T = b8 takes a bool
//   iota<T, W>(start, step)                  start, start + step, ... (computed as start + lane * step, wrapping)
//
// ---- Casts ----
//   cast<To, From>(v)     any dtype to any dtype as ATen's `to` on x86 (out-of-range floats included)
//   round_to<T>(v)        vec<f32> rounded to the values of f16 / bf16 (no-op for other T): after every op of those
//   dtypes
//
// ---- Functions ----   named as the ATen op; both operands of one vec type
// all dtypes   add sub mul neg abs sign maximum minimum square; eq ne lt le gt ge -> mask
//              isnan isinf -> mask; logical_not(v) logical_and logical_or logical_xor: of values (v != 0) or masks ->
//              mask select(mask, a, b); relu clamp(x, lo, hi) propagate NaN; integers wrap
// integers     bitwise_and bitwise_or bitwise_xor bitwise_not bitwise_left_shift bitwise_right_shift (and on masks, no
// shifts)
//              remainder fmod div_floor<T> div_trunc<T>: INT_MIN / -1 wraps; x / 0 is 0 here: ATen raises, so the
//              kernel has to test `any(logical_not(d))` and report; pow(x, y) wraps, negative exponents as ATen
// floats       div remainder fmod pow fmax fmin copysign atan2 hypot
//              floor ceil trunc round (half to even) sqrt rsqrt reciprocal
//              exp exp2 expm1 log log2 log10 log1p sin cos tan asin acos atan sinh cosh tanh asinh acosh atanh
//              erf erfc erfinv lgamma digamma sigmoid
// by dtype     div_floor<T> div_trunc<T> nextafter<T>: T must be given for f16 and bf16, which round between steps
// reductions   sum(v) prod(v) amax(v) amin(v) -> scalar of the element type (NaN wins in amax, amin); any(m) all(m) ->
// bool Not for b8: add, mul, maximum, ...; on masks use the logical or bitwise forms.
//
// Contraction is off in the section; `fma(a, b, c)` fuses where the section's CPU can (a * b + c elsewhere). Accuracy:
// docs/accuracy.md. Every function gives each lane the same value at every W and len.
#pragma once
#include <set>
#include <string>
#include <string_view>

namespace precast::emit {

/// Text of the vocabulary and of what gemm.h builds on. Expects the macros of emitted.h and, before it, the ABI header.
std::string_view preamble();

/// Text of the routines (loops::Routine) with these names, to stand after preamble().
std::string routine_preamble(const std::set<std::string>& functions);

}  // namespace precast::emit
