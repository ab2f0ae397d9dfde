// .npy files: every dtype round-trips, NumPy's own layouts are read, broken files are refused with a sentence.
#include "io/npy.h"

#include <doctest/doctest.h>

#include <cstring>

#include "io/input.h"
#include "precast/error.h"
#include "scratch.h"

using namespace precast;
using namespace precast::io;

namespace {

// Any version of the header, written by hand.
std::string npy(const std::string& dict, const std::string& data, char version = 1) {
  std::string text = std::string("\x93NUMPY") + version + '\0';
  const size_t n = dict.size();
  text += {static_cast<char>(n & 255), static_cast<char>(n >> 8)};
  if (version > 1) text += {'\0', '\0'};
  return text + dict + data;
}

std::string message_of(const std::filesystem::path& path) {
  try {
    read_npy(path);
  } catch (const PrecompileError& e) {
    return e.what();
  }
  return "no error";
}

}  // namespace

TEST_CASE("npy: every dtype comes back as it went") {
  const Scratch dir;
  for (const char* text : {"f32[2,3]", "f64[4]", "f16[3,5]", "bf16[7]", "i64[2,2]:-9..9", "i32[3]:arange",
                           "i16[3]:ones", "i8[2]:-5..5", "u8[5]:0..255", "u16[2]:ones", "u32[2]:ones", "u64[2]:ones",
                           "bool[6]:0..2", "c64[3]", "c128[3]", "f32[]", "f32[0,4]", "f32[1,1,2,1]"}) {
    CAPTURE(text);
    const Array array = *parse_input(text, 3).array;
    write_npy(dir.path / "a.npy", array);
    const Array back = read_npy(dir.path / "a.npy");
    CHECK(back.type.sizes == array.type.sizes);
    CHECK(back.type.dtype == (array.type.dtype == ir::Dtype::bf16 ? ir::Dtype::u16 : array.type.dtype));
    CHECK(std::memcmp(back.data, array.data, static_cast<size_t>(array.type.span_bytes())) == 0);
    CHECK(std::filesystem::file_size(dir.path / "a.npy") % 64 ==
          static_cast<uintmax_t>(array.type.span_bytes()) % 64);  // NumPy wants the data aligned
  }
}

TEST_CASE("npy: a strided array is written in C order") {
  const Scratch dir;
  Array array = *parse_input("i32[2,3]:arange", 0).array;
  array.type = {ir::Dtype::i32, {3, 2}, {1, 3}, {}, false, false};
  write_npy(dir.path / "t.npy", array);
  const Array back = read_npy(dir.path / "t.npy");
  const int32_t expected[] = {0, 3, 1, 4, 2, 5};
  CHECK(std::memcmp(back.data, expected, sizeof expected) == 0);
}

TEST_CASE("npy: Fortran order, versions 2 and 3, big-endian numbers and bfloat16 from ml_dtypes are read") {
  const Scratch dir;
  const std::string one_two_three{1, 0, 2, 0, 3, 0};
  for (char version : {1, 2, 3}) {
    dir.write("v.npy", npy("{'descr': '<i2', 'fortran_order': True, 'shape': (1, 3), }", one_two_three, version));
    const Array array = read_npy(dir.path / "v.npy");
    CHECK(array.type.strides == ir::Dims{1, 1});
    CHECK(std::memcmp(array.data, one_two_three.data(), 6) == 0);
  }
  dir.write("f.npy", npy("{'descr': '|u1', 'fortran_order': True, 'shape': (2, 2), }", "abcd"));
  CHECK(std::memcmp(contiguous(read_npy(dir.path / "f.npy")).data, "acbd", 4) == 0);
  dir.write("b.npy", npy("{'descr': '>i4', 'fortran_order': False, 'shape': (1,), }", {0, 0, 1, 2}));
  int32_t value = 0;
  std::memcpy(&value, read_npy(dir.path / "b.npy").data, 4);
  CHECK(value == 258);
  dir.write("h.npy", npy("{'descr': '<V2', 'fortran_order': False, 'shape': (1,), }", "ab"));
  CHECK(read_npy(dir.path / "h.npy").type.dtype == ir::Dtype::bf16);
}

TEST_CASE("npy: what is broken is refused by name") {
  const Scratch dir;
  const std::string good = "{'descr': '<f4', 'fortran_order': False, 'shape': (2,), }";
  const struct {
    std::string content, message;
  } cases[] = {
      {"", "it does not begin with \\x93NUMPY"},
      {"PK\3\4 an archive", "it does not begin with \\x93NUMPY"},
      {npy(good, "1234567"), "it should hold 8 bytes of data and holds 7"},
      {npy(good, "12345678", 9), "format version 9 is unknown"},
      {npy(good, "").substr(0, 30), "the header is cut off"},
      {npy("{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': (2,), }", ""), "a structured dtype"},
      {npy("{'descr': '<f4', 'shape': (2,), }", ""), "lacks"},
      {npy("{'descr': '<f4', 'fortran_order': maybe, 'shape': (2,), }", ""), "neither True nor False"},
      {npy("{'descr': '<f4', 'fortran_order': False, 'shape': (-2,), }", ""), "not a number"},
      {npy("{'descr': '<f4', 'fortran_order': False, 'shape': (99999999999, 99999999999), }", ""), "too large"},
      {npy("{'descr': '<f4', 'fortran_order': False, 'shape': (0, 99999999999, 99999999999), }", ""), "too large"},
      {npy("{'descr': '<f4', 'fortran_order': False, 'shape': (99999999999999999999999,), }", ""), "too large"},
      {npy("{'descr': '<U5', 'fortran_order': False, 'shape': (2,), }", ""), "dtype '<U5' is not supported"},
      {npy("{'descr': '|O', 'fortran_order': False, 'shape': (2,), }", ""), "dtype '|O' is not supported"},
      {npy("{'colour': 'red', }", ""), "unknown key 'colour'"},
  };
  for (const auto& c : cases) {
    dir.write("bad.npy", c.content);
    const std::string message = message_of(dir.path / "bad.npy");
    CAPTURE(message);
    CHECK(message.find("bad.npy") != std::string::npos);
    CHECK(message.find(c.message) != std::string::npos);
  }
  CHECK(message_of(dir.path / "none.npy").find("cannot be opened: No such file") != std::string::npos);
}

TEST_CASE("npy: no cut and no flipped byte of a good file crashes the reader") {
  const Scratch dir;
  write_npy(dir.path / "good.npy", *parse_input("f32[2,3]", 1).array);
  const std::string good = dir.read("good.npy");
  int refused = 0;
  for (size_t i = 0; i < 128; ++i) {
    dir.write("bad.npy", good.substr(0, i));
    refused += message_of(dir.path / "bad.npy") != "no error";
    std::string flipped = good;
    flipped[i] = static_cast<char>(flipped[i] ^ 0x15);
    dir.write("bad.npy", flipped);
    message_of(dir.path / "bad.npy");
  }
  CHECK(refused == 128);
}
