// Tensors of the reference interpreter: bytes with a type, read as long double.
#pragma once
#include <cmath>
#include <cstdint>
#include <cstring>
#include <functional>
#include <stdexcept>
#include <vector>

#include "ir/graph.h"

namespace reference {

using precast::ir::Dtype;
using precast::ir::Graph;
using precast::ir::Node;
using precast::ir::Type;
using precast::ir::ValueId;
using Real = long double;  // holds every f64 and every i64

inline float from_bits(uint32_t u) {
  float f;
  std::memcpy(&f, &u, 4);
  return f;
}
inline uint32_t to_bits(float f) {
  uint32_t u;
  std::memcpy(&u, &f, 4);
  return u;
}
inline uint16_t bf16_bits(float f) {
  if (std::isnan(f)) return 0x7fc0;
  const uint32_t u = to_bits(f);
  return static_cast<uint16_t>((u + 0x7fff + ((u >> 16) & 1)) >> 16);
}
inline float f16_value(uint16_t h) {
  const int e = (h >> 10) & 31, m = h & 1023;
  const float sign = h & 0x8000 ? -1.0f : 1.0f;
  if (e == 31) return m ? NAN : sign * INFINITY;
  return sign * (e ? std::ldexp(1024.0f + static_cast<float>(m), e - 25) : std::ldexp(static_cast<float>(m), -24));
}
inline uint16_t f16_bits(float f) {
  const uint16_t sign = std::signbit(f) ? 0x8000 : 0;
  const double a = std::fabs(static_cast<double>(f));
  if (std::isnan(f)) return sign | 0x7e00;
  if (a >= 65520) return sign | 0x7c00;
  int e;
  std::frexp(a, &e);
  e = std::max(e, -13);
  const double ulp = std::ldexp(1.0, e - 11);
  const double units = std::nearbyint(a / ulp);  // half to even
  const double v = units * ulp;
  if (v == 0) return sign;
  std::frexp(v, &e);
  if (e < -13) return sign | static_cast<uint16_t>(v / std::ldexp(1.0, -24));
  return sign | static_cast<uint16_t>(((e + 14) << 10) | (static_cast<int>(v / std::ldexp(1.0, e - 11)) - 1024));
}

struct Tensor {
  Type type;
  std::vector<char> bytes;

  Real get(int64_t element) const { return read(type.dtype, element * precast::ir::itemsize(type.dtype)); }
  Real read(Dtype t, int64_t at) const {
    const char* p = bytes.data() + at;
    const auto as = [&](auto v) {
      std::memcpy(&v, p, sizeof v);
      return static_cast<Real>(v);
    };
    switch (t) {
      case Dtype::u8:
        return as(uint8_t{});
      case Dtype::b8:
        return as(uint8_t{}) != 0;
      case Dtype::i8:
        return as(int8_t{});
      case Dtype::i16:
        return as(int16_t{});
      case Dtype::i32:
        return as(int32_t{});
      case Dtype::i64:
        return as(int64_t{});
      case Dtype::f32:
        return as(float{});
      case Dtype::f64:
        return as(double{});
      case Dtype::f16:
        return f16_value(static_cast<uint16_t>(as(uint16_t{})));
      case Dtype::bf16:
        return from_bits(static_cast<uint32_t>(as(uint16_t{})) << 16);
      default:
        throw std::runtime_error("reference: dtype");
    }
  }
  void set(int64_t element, Real v) {
    char* p = bytes.data() + element * precast::ir::itemsize(type.dtype);
    const auto put = [&](auto x) { std::memcpy(p, &x, sizeof x); };
    switch (type.dtype) {
      case Dtype::u8:
        return put(static_cast<uint8_t>(static_cast<int64_t>(v)));
      case Dtype::b8:
        return put(static_cast<uint8_t>(v != 0));
      case Dtype::i8:
        return put(static_cast<int8_t>(static_cast<int64_t>(v)));
      case Dtype::i16:
        return put(static_cast<int16_t>(static_cast<int64_t>(v)));
      case Dtype::i32:
        return put(static_cast<int32_t>(static_cast<int64_t>(v)));
      case Dtype::i64:
        return put(static_cast<int64_t>(v));
      case Dtype::f32:
        return put(static_cast<float>(v));
      case Dtype::f64:
        return put(static_cast<double>(v));
      case Dtype::f16:
        return put(f16_bits(static_cast<float>(v)));
      case Dtype::bf16:
        return put(bf16_bits(static_cast<float>(v)));
      default:
        throw std::runtime_error("reference: dtype");
    }
  }
};

inline Tensor make(const Type& t) { return {t, std::vector<char>(static_cast<size_t>(t.span_bytes()))}; }

/// Calls f(index) for each index, last dim fastest.
inline void each(const std::vector<int64_t>& sizes, const std::function<void(const std::vector<int64_t>&)>& f) {
  std::vector<int64_t> i(sizes.size(), 0);
  for (const int64_t s : sizes)
    if (s == 0) return;
  for (;;) {
    f(i);
    size_t d = sizes.size();
    while (d > 0 && ++i[d - 1] == sizes[d - 1]) i[--d] = 0;
    if (d == 0) return;
  }
}
inline void each(const precast::ir::Dims& sizes, const std::function<void(const std::vector<int64_t>&)>& f) {
  each(precast::ir::numbers(sizes), f);
}
inline int64_t offset(const Type& t, const std::vector<int64_t>& i) {
  int64_t at = 0;
  for (size_t d = 0; d < i.size(); ++d) at += i[d] * t.strides[d];
  return at;
}

}  // namespace reference
