// The argument language of the command line.
#include "io/input.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <numeric>
#include <set>
#include <stdexcept>

#include "io/npy.h"
#include "scratch.h"

using namespace precast;
using namespace precast::io;

namespace {

template <class T>
std::vector<T> values(const char* text, uint64_t seed = 0) {
  const Array array = *parse_input(text, seed).array;
  std::vector<T> result(static_cast<size_t>(array.type.numel()));
  REQUIRE(ir::itemsize(array.type.dtype) == sizeof(T));
  if (!result.empty()) std::memcpy(result.data(), array.data, result.size() * sizeof(T));
  return result;
}

std::string message_of(const char* text) {
  try {
    parse_input(text, 0);
  } catch (const std::invalid_argument& e) {
    return e.what();
  }
  return "no error";
}

}  // namespace

TEST_CASE("input: fills") {
  CHECK(values<float>("f32[2,2]:arange") == std::vector<float>{0, 1, 2, 3});
  CHECK(values<int64_t>("i64[3]") == std::vector<int64_t>{0, 0, 0});
  CHECK(values<int64_t>("i64[2, 1]:ones") == std::vector<int64_t>{1, 1});
  CHECK(values<uint16_t>("f16[3]:arange") == std::vector<uint16_t>{0, 0x3c00, 0x4000});
  CHECK(values<uint16_t>("bf16[3]:arange") == std::vector<uint16_t>{0, 0x3f80, 0x4000});
  CHECK(values<float>("f32[]:ones") == std::vector<float>{1});
  CHECK(values<float>("f32[0]").empty());
  CHECK(values<float>("f32[4]") == values<float>("f32[4]:randn"));
  CHECK(values<float>("float32[ 2 , 2 ]:arange") == std::vector<float>{0, 1, 2, 3});
  CHECK(values<uint8_t>("u8[256]:arange").back() == 255);
}

TEST_CASE("input: random complex numbers have both parts, others are real") {
  const auto parts = [](const char* text) {
    const Array array = *parse_input(text, 0).array;
    std::vector<float> result(static_cast<size_t>(array.type.numel() * 2));
    std::memcpy(result.data(), array.data, result.size() * sizeof(float));
    return result;
  };
  for (const char* text : {"c64[20]", "complex64[20]:-1..1"}) {
    const auto numbers = parts(text);
    CHECK(std::count(numbers.begin(), numbers.end(), 0.f) == 0);
    CHECK(std::set<float>(numbers.begin(), numbers.end()).size() == numbers.size());
  }
  CHECK(parts("c64[2]:ones") == std::vector<float>{1, 0, 1, 0});
}

TEST_CASE("input: random values follow the seed and keep to their range") {
  CHECK(values<float>("f32[8]", 1) == values<float>("f32[8]", 1));
  CHECK(values<float>("f32[8]", 1) != values<float>("f32[8]", 2));
  const auto normal = values<double>("f64[10000]");
  const double mean = std::accumulate(normal.begin(), normal.end(), 0.0) / 1e4;
  double square = 0;
  for (double x : normal) square += (x - mean) * (x - mean) / 1e4;
  CHECK(std::abs(mean) < 0.05);
  CHECK(std::abs(square - 1) < 0.1);
  std::vector<int> seen(3, 0);
  for (int64_t x : values<int64_t>("i64[300]:-1..2")) ++seen.at(static_cast<size_t>(x + 1));
  for (int count : seen) CHECK(count > 60);
  for (float x : values<float>("f32[300]:-1..0.5")) CHECK((x >= -1 && x <= 0.5f));
}

TEST_CASE("input: half floats round to nearest even") {
  // 2048 + i: above 2048 a float16 holds even numbers only.
  const auto half = values<uint16_t>("f16[2054]:arange");
  CHECK(half[2047] == 0x67ff);
  CHECK(half[2049] == 0x6800);
  CHECK(half[2050] == 0x6801);
  CHECK(half[2051] == 0x6802);
  const auto brain = values<uint16_t>("bf16[260]:arange");
  CHECK(brain[257] == 0x4380);
  CHECK(brain[259] == 0x4382);
}

TEST_CASE("input: files and plain values") {
  const Scratch dir;
  const std::string path = (dir.path / "x.npy").string();
  write_npy(path, *parse_input("i32[2]:arange", 0).array);
  CHECK(parse_input(path, 0).array->type == ir::contiguous(ir::Dtype::i32, {2}));
  const std::string bracket = (dir.path / "x[1].npy").string();
  write_npy(bracket, *parse_input("u8[3]", 0).array);
  CHECK(parse_input(bracket, 0).array->type == ir::contiguous(ir::Dtype::u8, {3}));
  CHECK(parse_input("16000", 0).value == ir::Attr(int64_t{16000}));
  CHECK(parse_input("-0.5", 0).value == ir::Attr(-0.5));
  CHECK(parse_input("true", 0).value == ir::Attr(true));
  CHECK(parse_input("none", 0).value == ir::Attr());
  CHECK(parse_input("\"a[1]\"", 0).value == ir::Attr(std::string("a[1]")));
}

TEST_CASE("input: what is not understood is named, with a way to write it") {
  const struct {
    const char *text, *message;
  } cases[] = {
      {"float[3]", "'float' is no dtype"},
      {"f32[3", "']' is missing"},
      {"f32[3,]", "sizes must be whole numbers"},
      {"f32[-3]", "sizes must be whole numbers"},
      {"f32[3]x", "expected ':'"},
      {"f32[3]:", "expected ':'"},
      {"f32[3]:rand", "'rand' is no fill for f32"},
      {"i64[3]:randn", "'randn' is no fill for i64"},
      {"i64[3]:5..5", "'5..5' is no range of numbers: it is LOW..END, with LOW below END"},
      {"f32[9999999999,9999999999]", "too large"},
      {"u8[3]:0..300", "'0..300' gives numbers that u8 does not hold"},
      {"u8[3]:-1..3", "u8 does not hold"},
      {"i8[129]:arange", "i8 does not hold"},
      {"i64[3]:0..1e19", "i64 does not hold"},
      {"dtype<99>[3]", "is no dtype"},
      {"99999999999999999999", "it is no integer of 64 bits"},
      {"hello", "not understood"},
      {"", "not understood"},
  };
  for (const auto& c : cases) {
    CAPTURE(c.text);
    const std::string message = message_of(c.text);
    CAPTURE(message);
    CHECK(message.find(c.message) != std::string::npos);
    CHECK(message.find("'f32[1,576]'") != std::string::npos);
  }
}
