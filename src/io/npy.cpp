#include "io/npy.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include "io/file.h"
#include "util/errors.h"

namespace precast::io {
namespace {

static_assert(std::endian::native == std::endian::little, "npy files are read and written on little-endian machines");

struct NpyDtype {
  ir::Dtype dtype;
  std::string_view code;  // without the byte order
};
constexpr NpyDtype kDtypes[] = {
    {ir::Dtype::b8, "b1"},  {ir::Dtype::u8, "u1"},    {ir::Dtype::i8, "i1"},   {ir::Dtype::u16, "u2"},
    {ir::Dtype::i16, "i2"}, {ir::Dtype::u32, "u4"},   {ir::Dtype::i32, "i4"},  {ir::Dtype::u64, "u8"},
    {ir::Dtype::i64, "i8"}, {ir::Dtype::f16, "f2"},   {ir::Dtype::f32, "f4"},  {ir::Dtype::f64, "f8"},
    {ir::Dtype::c64, "c8"}, {ir::Dtype::c128, "c16"}, {ir::Dtype::bf16, "V2"},
};
constexpr std::string_view kMagic = "\x93NUMPY";

struct Header {
  std::string descr;
  bool fortran = false;
  std::vector<int64_t> shape;
};

// The header is a Python dict literal with exactly three known keys.
class HeaderParser {
 public:
  HeaderParser(std::string_view text, const std::filesystem::path& path) : text_(text), path_(path) {}

  Header parse() {
    Header header;
    bool descr = false, order = false, shape = false;
    expect('{');
    while (!accept('}')) {
      const std::string key = string();
      expect(':');
      if (key == "descr") {
        header.descr = string();
        descr = true;
      } else if (key == "fortran_order") {
        header.fortran = boolean();
        order = true;
      } else if (key == "shape") {
        header.shape = tuple();
        shape = true;
      } else {
        fail("unknown key '" + key + "' in the header");
      }
      if (!accept(',')) {
        expect('}');
        break;
      }
    }
    if (!descr || !order || !shape) fail("the header lacks 'descr', 'fortran_order' or 'shape'");
    return header;
  }

 private:
  [[noreturn]] void fail(const std::string& what) const {
    throw PrecompileError(path_.string() + ": not a readable .npy file: " + what);
  }
  void skip() {
    while (at_ < text_.size() && std::strchr(" \t\r\n", text_[at_])) ++at_;
  }
  bool accept(char c) {
    skip();
    if (at_ >= text_.size() || text_[at_] != c) return false;
    ++at_;
    return true;
  }
  void expect(char c) {
    if (!accept(c)) fail(std::string("expected '") + c + "' in the header");
  }
  std::string string() {
    skip();
    const char quote = at_ < text_.size() ? text_[at_] : '\0';
    if (quote != '\'' && quote != '"') fail("a structured dtype, or a string is missing in the header");
    const size_t end = text_.find(quote, at_ + 1);
    if (end == std::string_view::npos) fail("a string in the header does not end");
    std::string result(text_.substr(at_ + 1, end - at_ - 1));
    at_ = end + 1;
    return result;
  }
  bool boolean() {
    skip();
    for (const auto& [word, value] : {std::pair<std::string_view, bool>{"True", true}, {"False", false}})
      if (text_.substr(at_).starts_with(word)) {
        at_ += word.size();
        return value;
      }
    fail("'fortran_order' is neither True nor False");
  }
  int64_t number() {
    skip();
    int64_t value = 0;
    const size_t start = at_;
    for (; at_ < text_.size() && text_[at_] >= '0' && text_[at_] <= '9'; ++at_) {
      if (value > (int64_t{1} << 58)) fail("a size in the header is too large");
      value = value * 10 + (text_[at_] - '0');
    }
    if (at_ == start) fail("a size in the header is not a number");
    return value;
  }
  std::vector<int64_t> tuple() {
    std::vector<int64_t> sizes;
    expect('(');
    while (!accept(')')) {
      sizes.push_back(number());
      if (!accept(',')) {
        expect(')');
        break;
      }
    }
    return sizes;
  }

  std::string_view text_;
  const std::filesystem::path& path_;
  size_t at_ = 0;
};

ir::Dtype dtype_of(const std::string& descr, const std::filesystem::path& path) {
  if (descr.size() > 1 && std::strchr("<|=>", descr[0]))
    for (const auto& known : kDtypes)
      if (std::string_view(descr).substr(1) == known.code) return known.dtype;
  throw PrecompileError(path.string() + ": dtype '" + descr +
                        "' is not supported; save bool, integers, float16/32/64 or complex64/128");
}

// Big-endian data: turns each number around. A complex number is two.
void swap_bytes(std::span<std::byte> bytes, ir::Dtype dtype) {
  const size_t item = static_cast<size_t>(ir::itemsize(dtype)) / (ir::is_complex(dtype) ? 2 : 1);
  for (size_t i = 0; i < bytes.size(); i += item)
    std::reverse(bytes.begin() + static_cast<ptrdiff_t>(i), bytes.begin() + static_cast<ptrdiff_t>(i + item));
}

}  // namespace

Array read_npy(const std::filesystem::path& path) {
  MappedFile file = map_file(path);
  const auto fail = [&](const std::string& what) {
    throw PrecompileError(path.string() + ": not a readable .npy file: " + what);
  };
  const std::string_view text(reinterpret_cast<const char*>(file.bytes.data()), file.bytes.size());
  if (!text.starts_with(kMagic) || text.size() < 10) fail("it does not begin with \\x93NUMPY");
  const int version = static_cast<unsigned char>(text[6]);
  if (version < 1 || version > 3) fail("format version " + std::to_string(version) + " is unknown");
  const size_t length_bytes = version == 1 ? 2 : 4;
  size_t length = 0;
  if (text.size() < 8 + length_bytes) fail("the header is cut off");
  for (size_t i = 0; i < length_bytes; ++i) length |= size_t{static_cast<unsigned char>(text[8 + i])} << (8 * i);
  const size_t start = 8 + length_bytes;
  if (length > text.size() - start) fail("the header is cut off");

  const Header header = HeaderParser(text.substr(start, length), path).parse();
  const ir::Dtype dtype = dtype_of(header.descr, path);
  const std::optional<uint64_t> need = byte_count(dtype, header.shape);
  if (!need) fail("its shape is too large");
  const std::span<std::byte> data = file.bytes.subspan(start + length);
  if (data.size() < *need)
    fail("it should hold " + std::to_string(*need) + " bytes of data and holds " + std::to_string(data.size()));
  ir::Type type = ir::contiguous(dtype, ir::sizes(header.shape));
  if (header.fortran) {
    int64_t stride = 1;
    for (size_t d = 0; d < type.sizes.size(); ++d) {
      type.strides[d] = stride;
      stride *= std::max<int64_t>(type.sizes[d], 1);
    }
  }
  Array array = allocate(type);
  if (*need) std::memcpy(array.data, data.data(), *need);
  if (header.descr[0] == '>') swap_bytes({array.data, *need}, type.dtype);
  return array;
}

void write_npy(const std::filesystem::path& path, const Array& array) {
  const ir::Dtype stored = array.type.dtype == ir::Dtype::bf16 ? ir::Dtype::u16 : array.type.dtype;
  const auto known = std::find_if(std::begin(kDtypes), std::end(kDtypes), [&](auto& k) { return k.dtype == stored; });
  if (known == std::end(kDtypes))
    throw PrecompileError(path.string() + ": NumPy has no dtype for " + std::string(ir::name(array.type.dtype)));
  std::string shape;
  for (int64_t size : array.type.sizes) shape += std::to_string(size) + ", ";
  if (array.type.sizes.size() > 1) shape.resize(shape.size() - 2);
  std::string header = std::string("{'descr': '") + (ir::itemsize(stored) == 1 ? '|' : '<') + std::string(known->code) +
                       "', 'fortran_order': False, 'shape': (" + shape + "), }";
  const size_t total = (10 + header.size() + 1 + 63) / 64 * 64;  // NumPy aligns the data to 64 bytes
  header.resize(total - 11, ' ');
  header += '\n';
  std::string start(kMagic);
  start += {'\x01', '\x00', static_cast<char>(header.size() & 0xff), static_cast<char>(header.size() >> 8)};
  start += header;
  const Array plain = contiguous(array);
  write_file(path,
             {as_bytes(start), {plain.data, static_cast<size_t>(plain.type.numel() * ir::itemsize(plain.type.dtype))}});
}

}  // namespace precast::io
