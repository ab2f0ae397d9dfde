#include "io/input.h"

#include <bit>
#include <charconv>
#include <cmath>
#include <cstring>
#include <functional>
#include <limits>
#include <numbers>
#include <stdexcept>

#include "io/npy.h"

namespace precast::io {
namespace {

[[noreturn]] void bad(std::string_view text, const std::string& what) {
  throw std::invalid_argument("input '" + std::string(text) + "': " + what +
                              "; write a type and sizes such as 'f32[1,576]', with a fill if needed "
                              "(':zeros', ':ones', ':arange', ':randn', ':0..10'), or FILE.npy, or a number");
}

template <class T>
std::optional<T> number(std::string_view text) {
  T value{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || text.empty()) return std::nullopt;
  return value;
}

// A counter-based generator (splitmix64): value i of a seed needs no state.
uint64_t random_bits(uint64_t seed, uint64_t i) {
  uint64_t z = (seed + 1) * 0x9e3779b97f4a7c15u + i * 0xd1342543de82ef95u;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
  return z ^ (z >> 31);
}
double uniform(uint64_t seed, uint64_t i) { return static_cast<double>(random_bits(seed, i) >> 11) * 0x1p-53; }
double normal(uint64_t seed, uint64_t i) {
  const double radius = std::sqrt(-2 * std::log(1 - uniform(seed, 2 * i)));
  return radius * std::cos(2 * std::numbers::pi * uniform(seed, 2 * i + 1));
}

// Round to nearest even, as hardware does.
uint16_t to_bf16(float value) {
  const auto bits = std::bit_cast<uint32_t>(value);
  if (std::isnan(value)) return 0x7fc0;
  return static_cast<uint16_t>((bits + 0x7fff + ((bits >> 16) & 1)) >> 16);
}
uint16_t to_f16(float value) {
  const auto bits = std::bit_cast<uint32_t>(value);
  const auto sign = static_cast<uint16_t>((bits >> 16) & 0x8000);
  const float magnitude = std::fabs(value);
  if (std::isnan(value)) return 0x7e00;
  if (magnitude >= 65520.f) return sign | 0x7c00;
  if (magnitude < 0x1p-14f)  // subnormal: a multiple of 2^-24
    return sign | static_cast<uint16_t>(std::nearbyint(magnitude * 0x1p24f));
  const uint32_t rebased = std::bit_cast<uint32_t>(magnitude) - (112u << 23);
  return sign | static_cast<uint16_t>((rebased + 0xfff + ((rebased >> 13) & 1)) >> 13);
}

template <class T>
void store_as(std::byte* at, double value) {
  const T converted = static_cast<T>(value);
  std::memcpy(at, &converted, sizeof converted);
}

// How each dtype keeps a number, and the whole numbers that it has; a complex one gets it as its real part.
struct Storage {
  ir::Dtype dtype;
  std::string_view long_name;
  void (*store)(std::byte* at, double value);
  double low = -HUGE_VAL, end = HUGE_VAL;  // low <= x < end
};
template <class T>
constexpr Storage integer(ir::Dtype dtype, std::string_view name) {
  const double half = static_cast<double>(T{1} << (std::numeric_limits<T>::digits - 1));  // max + 1 is a power of 2
  return {dtype, name, store_as<T>, static_cast<double>(std::numeric_limits<T>::min()), 2 * half};
}
constexpr Storage kStorage[] = {
    {ir::Dtype::b8, "bool", [](std::byte* at, double v) { *at = std::byte{v != 0}; }},
    integer<uint8_t>(ir::Dtype::u8, "uint8"),
    integer<int8_t>(ir::Dtype::i8, "int8"),
    integer<uint16_t>(ir::Dtype::u16, "uint16"),
    integer<int16_t>(ir::Dtype::i16, "int16"),
    integer<uint32_t>(ir::Dtype::u32, "uint32"),
    integer<int32_t>(ir::Dtype::i32, "int32"),
    integer<uint64_t>(ir::Dtype::u64, "uint64"),
    integer<int64_t>(ir::Dtype::i64, "int64"),
    {ir::Dtype::f32, "float32", store_as<float>},
    {ir::Dtype::f64, "float64", store_as<double>},
    {ir::Dtype::f16, "float16",
     [](std::byte* at, double v) {
       const uint16_t bits = to_f16(static_cast<float>(v));
       std::memcpy(at, &bits, 2);
     }},
    {ir::Dtype::bf16, "bfloat16",
     [](std::byte* at, double v) {
       const uint16_t bits = to_bf16(static_cast<float>(v));
       std::memcpy(at, &bits, 2);
     }},
    {ir::Dtype::c64, "complex64", store_as<float>},
    {ir::Dtype::c128, "complex128", store_as<double>},
};

struct Range {
  double low, high;
};
std::optional<Range> range(std::string_view text) {
  const size_t dots = text.find("..");
  if (dots == std::string_view::npos) return std::nullopt;
  const auto low = number<double>(text.substr(0, dots)), high = number<double>(text.substr(dots + 2));
  if (!low || !high || !(*low < *high) || !std::isfinite(*high - *low)) return std::nullopt;
  return Range{*low, *high};
}

const Storage* storage_of(ir::Dtype dtype) {
  for (const Storage& storage : kStorage)
    if (storage.dtype == dtype) return &storage;
  return nullptr;
}

struct Fill {
  std::function<double(uint64_t)> value;  // of element i; empty if there is no such fill
  bool both_parts = false;                // of a complex number
  double low = 0, end = 1;                // low <= value < end, for integers
};
Fill fill_named(ir::Dtype dtype, std::string_view how, int64_t numel, uint64_t seed) {
  const bool real = ir::is_float(dtype) || ir::is_complex(dtype);
  if (how.empty()) how = real ? "randn" : "zeros";
  if (how == "zeros") return {[](uint64_t) { return 0.0; }};
  if (how == "ones") return {[](uint64_t) { return 1.0; }};
  if (how == "arange") return {[](uint64_t i) { return static_cast<double>(i); }, false, 0, static_cast<double>(numel)};
  if (how == "randn" && real) return {[seed](uint64_t i) { return normal(seed, i); }, true};
  if (const auto r = range(how))
    return {[seed, real, r = *r](uint64_t i) {
              const double x = r.low + (r.high - r.low) * uniform(seed, i);
              const double below = std::min(x, std::nextafter(r.high, r.low));  // rounding may have reached the end
              return real ? below : std::floor(below);
            },
            true, std::floor(r->low), r->high};
  return {};
}

std::string_view trimmed(std::string_view text) {
  while (text.starts_with(' ')) text.remove_prefix(1);
  while (text.ends_with(' ')) text.remove_suffix(1);
  return text;
}

std::optional<std::vector<int64_t>> parse_sizes(std::string_view text) {
  std::vector<int64_t> sizes;
  while (!trimmed(text).empty()) {
    const size_t comma = text.find(',');
    const auto size = number<int64_t>(trimmed(text.substr(0, comma)));
    if (!size || *size < 0) return std::nullopt;
    sizes.push_back(*size);
    if (comma == std::string_view::npos) break;
    text.remove_prefix(comma + 1);
    if (trimmed(text).empty()) return std::nullopt;
  }
  return sizes;
}

const Storage* dtype_named(std::string_view name) {
  if (const auto dtype = ir::dtype_from_name(name)) return storage_of(*dtype);
  for (const Storage& storage : kStorage)
    if (storage.long_name == name) return &storage;
  return nullptr;
}

Array tensor(std::string_view text, uint64_t seed) {
  const size_t open = text.find('['), close = text.find(']', open);
  const Storage* const storage = dtype_named(text.substr(0, open));
  if (!storage)
    bad(text, "'" + std::string(text.substr(0, open)) + "' is no dtype (f32, f64, f16, bf16, i64, i32, u8, bool, ...)");
  if (close == std::string_view::npos) bad(text, "']' is missing");
  const auto sizes = parse_sizes(text.substr(open + 1, close - open - 1));
  if (!sizes) bad(text, "sizes must be whole numbers from 0, separated by commas");
  if (!byte_count(storage->dtype, *sizes)) bad(text, "the sizes are too large");
  std::string_view how = text.substr(close + 1);
  if (!how.empty() && (how[0] != ':' || how.size() == 1)) bad(text, "expected ':' and a fill after ']'");
  if (!how.empty()) how.remove_prefix(1);
  const ir::Type type = ir::contiguous(storage->dtype, ir::sizes(*sizes));
  const std::string name(ir::name(type.dtype));
  const Fill f = fill_named(type.dtype, how, type.numel(), seed);
  if (!f.value && how.find("..") != how.npos)
    bad(text, "'" + std::string(how) + "' is no range of numbers: it is LOW..END, with LOW below END");
  if (!f.value) bad(text, "'" + std::string(how) + "' is no fill for " + name);
  if (f.low < storage->low || f.end > storage->end)
    bad(text, "'" + std::string(how) + "' gives numbers that " + name + " does not hold");
  Array array = allocate(type);
  fill(array, how, seed);
  return array;
}

}  // namespace

void fill(Array& array, std::string_view how, uint64_t seed) {
  const ir::Type& type = array.type;
  const Fill f = fill_named(type.dtype, how, type.numel(), seed);
  const Storage* const storage = storage_of(type.dtype);
  if (!f.value || !storage || f.low < storage->low || f.end > storage->end)
    throw std::invalid_argument("'" + std::string(how) + "' is no fill for " + std::string(ir::name(type.dtype)));
  const int parts = ir::is_complex(type.dtype) && f.both_parts ? 2 : 1, item = ir::itemsize(type.dtype) / parts;
  for (int64_t i = 0, n = type.numel() * parts; i < n; ++i)
    storage->store(array.data + i * item, f.value(static_cast<uint64_t>(i)));
}

Input parse_input(std::string_view text, uint64_t seed) {
  Input input{std::string(text), std::nullopt, {}};
  const bool quoted = text.size() >= 2 && text.front() == '"' && text.back() == '"';
  if (text.ends_with(".npy"))
    input.array = read_npy(text);
  else if (text.find('[') != std::string_view::npos && !quoted)
    input.array = tensor(text, seed);
  else if (text == "none")
    input.value = std::monostate{};
  else if (text == "true" || text == "false")
    input.value = text == "true";
  else if (quoted)
    input.value = std::string(text.substr(1, text.size() - 2));
  else if (const auto integer = number<int64_t>(text))
    input.value = *integer;
  else if (!text.empty() && text.find_first_not_of("-0123456789") == std::string_view::npos)
    bad(text, "it is no integer of 64 bits");
  else if (const auto real = number<double>(text))
    input.value = *real;
  else
    bad(text, "not understood");
  return input;
}

}  // namespace precast::io
