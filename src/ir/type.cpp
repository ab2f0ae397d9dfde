#include "ir/type.h"

#include <array>
#include <charconv>

namespace precast::ir {
namespace {

struct DtypeRow {
  Dtype dtype;
  std::string_view name;
  int itemsize;
};
constexpr DtypeRow kDtypes[] = {
    {Dtype::u8, "u8", 1},     {Dtype::i8, "i8", 1},   {Dtype::i16, "i16", 2},    {Dtype::i32, "i32", 4},
    {Dtype::i64, "i64", 8},   {Dtype::f16, "f16", 2}, {Dtype::f32, "f32", 4},    {Dtype::f64, "f64", 8},
    {Dtype::c32, "c32", 4},   {Dtype::c64, "c64", 8}, {Dtype::c128, "c128", 16}, {Dtype::b8, "bool", 1},
    {Dtype::bf16, "bf16", 2}, {Dtype::u16, "u16", 2}, {Dtype::u32, "u32", 4},    {Dtype::u64, "u64", 8},
};
// Dtypes without a name here (quantized, float8, bits): one byte, but for these two.
constexpr int kQInt32 = 14, kBits16 = 22;

constexpr std::array<std::string_view, 21> kDevices = {
    "cpu",   "cuda", "mkldnn", "opengl", "opencl", "ideep", "hip",  "fpga", "maia", "xla",          "vulkan",
    "metal", "xpu",  "mps",    "meta",   "hpu",    "ve",    "lazy", "ipu",  "mtia", "privateuseone"};

const DtypeRow* row(Dtype d) {
  for (const DtypeRow& r : kDtypes)
    if (r.dtype == d) return &r;
  return nullptr;
}

// The N of "PREFIX<N>".
std::optional<int> bracketed(std::string_view text, std::string_view prefix) {
  if (!text.starts_with(prefix) || !text.ends_with('>')) return {};
  text = text.substr(prefix.size(), text.size() - prefix.size() - 1);
  int n = 0;
  auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), n);
  if (error != std::errc{} || end != text.data() + text.size() || n < 0 || n > 127) return {};
  return n;
}

}  // namespace

std::string_view name(Dtype d) {
  static const auto& names = *new auto([] {
    std::array<std::string, 256> a;
    for (int i = 0; i < 256; ++i) {
      const DtypeRow* r = row(static_cast<Dtype>(i));
      a[static_cast<size_t>(i)] = r ? std::string(r->name) : "dtype<" + std::to_string(i) + ">";
    }
    return a;
  }());
  return names[static_cast<uint8_t>(d)];
}

std::optional<Dtype> dtype_from_name(std::string_view text) {
  for (const DtypeRow& r : kDtypes)
    if (r.name == text) return r.dtype;
  auto n = bracketed(text, "dtype<");
  if (!n || row(static_cast<Dtype>(*n))) return {};
  return static_cast<Dtype>(*n);
}

int itemsize(Dtype d) {
  if (const DtypeRow* r = row(d)) return r->itemsize;
  int n = static_cast<int>(d);
  return n == kQInt32 ? 4 : n == kBits16 ? 2 : 1;
}

bool is_float(Dtype d) { return d == Dtype::f16 || d == Dtype::f32 || d == Dtype::f64 || d == Dtype::bf16; }
bool is_complex(Dtype d) { return d == Dtype::c32 || d == Dtype::c64 || d == Dtype::c128; }
bool is_integral(Dtype d) { return (d >= Dtype::u8 && d <= Dtype::i64) || (d >= Dtype::u16 && d <= Dtype::u64); }

std::string name(Device d) {
  std::string s = d.type >= 0 && static_cast<size_t>(d.type) < kDevices.size()
                      ? std::string(kDevices[static_cast<size_t>(d.type)])
                      : "device<" + std::to_string(static_cast<uint8_t>(d.type)) + ">";
  return d.index < 0 ? s : s + ":" + std::to_string(d.index);
}

std::optional<Device> device_from_name(std::string_view text) {
  Device d;
  if (size_t colon = text.find(':'); colon != text.npos) {
    std::string_view number = text.substr(colon + 1);
    int n = -1;
    auto [end, error] = std::from_chars(number.data(), number.data() + number.size(), n);
    if (error != std::errc{} || end != number.data() + number.size() || n < 0 || n > 127) return {};
    d.index = static_cast<int8_t>(n);
    text = text.substr(0, colon);
  }
  for (size_t i = 0; i < kDevices.size(); ++i) {
    if (kDevices[i] != text) continue;
    d.type = static_cast<int8_t>(i);
    return d;
  }
  auto n = bracketed(text, "device<");
  if (!n || static_cast<size_t>(*n) < kDevices.size()) return {};
  d.type = static_cast<int8_t>(*n);
  return d;
}

Size Type::numel() const { return product(sizes); }

bool Type::is_contiguous() const {
  Size expected = 1;
  bool ok = true;
  for (size_t i = sizes.size(); i-- > 0;) {
    if (sizes[i] == 0) return true;
    if (sizes[i] == 1) continue;
    ok = ok && strides[i] == expected;
    expected *= sizes[i];
  }
  return ok;
}

Size Type::span_bytes() const {
  Size last = 0;
  for (size_t i = 0; i < sizes.size(); ++i) {
    if (sizes[i] == 0) return 0;
    last += (sizes[i] - 1) * strides[i];
  }
  return max((last + 1) * itemsize(dtype), 0);
}

Dims contiguous_strides(const Dims& sizes) {
  Dims strides(sizes.size());
  Size n = 1;
  for (size_t i = sizes.size(); i-- > 0;) {
    strides[i] = n;
    if (sizes[i] != 0) n *= sizes[i];
  }
  return strides;
}

Type contiguous(Dtype dtype, Dims sizes) {
  Type t{.dtype = dtype, .sizes = std::move(sizes), .strides = {}};
  t.strides = contiguous_strides(t.sizes);
  return t;
}

std::string to_string(const Type& t) {
  auto list = [](char open, const Dims& v, char close) {
    std::string s(1, open);
    for (size_t i = 0; i < v.size(); ++i) s += (i ? "," : "") + to_string(v[i]);
    return s + close;
  };
  std::string s(name(t.dtype));
  s += list('[', t.sizes, ']');
  if (t.strides != contiguous_strides(t.sizes)) s += list('{', t.strides, '}');
  if (t.conj) s += " conj";
  if (t.neg) s += " neg";
  if (t.device != Device{}) s += " @" + name(t.device);
  return s;
}

}  // namespace precast::ir
