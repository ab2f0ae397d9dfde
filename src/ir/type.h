// Dtype, device and tensor type: what is known of a value besides its contents.
// Dtype numbers equal c10::ScalarType, so the LibTorch rooms convert by cast.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "ir/size.h"

namespace precast::ir {

enum class Dtype : int8_t {
  u8 = 0,
  i8 = 1,
  i16 = 2,
  i32 = 3,
  i64 = 4,
  f16 = 5,
  f32 = 6,
  f64 = 7,
  c32 = 8,
  c64 = 9,
  c128 = 10,
  b8 = 11,
  bf16 = 15,
  u16 = 27,
  u32 = 28,
  u64 = 29,
};

/// "f32", "bool", "c64" (complex of two f32), ...; "dtype<N>" for one precast does not know.
std::string_view name(Dtype);
/// Inverse of name(); nothing when the text names no dtype.
std::optional<Dtype> dtype_from_name(std::string_view);
int itemsize(Dtype);
bool is_float(Dtype);  // f16, bf16, f32, f64
bool is_complex(Dtype);
bool is_integral(Dtype);  // integers, not bool

/// Numbers equal c10::DeviceType; index -1 means "the current one".
struct Device {
  int8_t type = 0, index = -1;
  bool operator==(const Device&) const = default;
};
std::string name(Device);  // "cpu", "cuda:0"
std::optional<Device> device_from_name(std::string_view);

/// Geometry and dtype of one tensor value. Strides count elements.
struct Type {
  Dtype dtype = Dtype::f32;
  Dims sizes, strides;
  Device device{};
  bool conj = false, neg = false;  // lazy conjugate / negative bits

  Size numel() const;
  int64_t dim() const { return static_cast<int64_t>(sizes.size()); }
  bool is_contiguous() const;
  /// Bytes from the first element to one past the last that strides reach (strides >= 0); 0 if empty. With symbols, it
  /// may be more where a size comes out as 0.
  Size span_bytes() const;
  bool is_symbolic() const { return ir::is_symbolic(sizes) || ir::is_symbolic(strides); }
  bool operator==(const Type&) const = default;
};
/// A size of 0 counts as 1 in those further out; a symbolic one as itself: strides of an empty tensor do not matter.
Dims contiguous_strides(const Dims& sizes);
Type contiguous(Dtype, Dims sizes);
std::string to_string(const Type&);  // "f32[2,u0]", "f32[3,2]{1,3}", then " conj", " neg", " @cuda:0"

}  // namespace precast::ir
