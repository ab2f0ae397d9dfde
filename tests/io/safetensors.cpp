// .safetensors files: round trip, exact layout, and refusal of everything malformed.
#include "io/safetensors.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cstring>

#include "io/input.h"
#include "precast/error.h"
#include "scratch.h"

using namespace precast;
using namespace precast::io;

namespace {

std::string file(const std::string& header, const std::string& data) {
  const uint64_t n = header.size();
  return std::string(reinterpret_cast<const char*>(&n), 8) + header + data;
}

std::string message_of(const std::filesystem::path& path) {
  try {
    read_safetensors(path);
  } catch (const PrecompileError& e) {
    return e.what();
  }
  return "no error";
}

}  // namespace

TEST_CASE("safetensors: tensors come back by name, type and content") {
  const Scratch dir;
  std::vector<NamedArray> tensors;
  for (const char* text : {"bool[3]:0..2", "u8[5]:arange", "f16[3]", "bf16[2,2]", "f64[]", "f32[2,3]", "i64[2]:arange",
                           "f32[0,7]", "c64[2]"})
    tensors.push_back({std::string("layer.") + text, *parse_input(text, 1).array});
  write_safetensors(dir.path / "w.safetensors", tensors, {{"format", "pt"}});
  const auto back = read_safetensors(dir.path / "w.safetensors");
  REQUIRE(back.size() == tensors.size());
  for (const NamedArray& b : back) {
    const auto a = std::find_if(tensors.begin(), tensors.end(), [&](auto& t) { return t.name == b.name; });
    REQUIRE(a != tensors.end());
    CHECK(a->array.type == b.array.type);
    CHECK(std::memcmp(a->array.data, b.array.data, static_cast<size_t>(b.array.type.span_bytes())) == 0);
    CHECK(reinterpret_cast<uintptr_t>(b.array.data) % static_cast<uintptr_t>(ir::itemsize(b.array.type.dtype)) == 0);
  }
}

TEST_CASE("safetensors: exact bytes of a small file") {
  const Scratch dir;
  write_safetensors(dir.path / "w.safetensors", {{"x", *parse_input("u8[3]:arange", 0).array}});
  CHECK(dir.read("w.safetensors") ==
        file(R"({"x":{"dtype":"U8","shape":[3],"data_offsets":[0,3]}})" + std::string(3, ' '), {0, 1, 2}));
}

TEST_CASE("safetensors: unaligned data of other writers is read") {
  const Scratch dir;
  dir.write("w.safetensors", file(R"({"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]},)"
                                  R"("b":{"dtype":"I32","shape":[],"data_offsets":[1,5]}})",
                                  {9, 1, 1, 0, 0}));
  const auto back = read_safetensors(dir.path / "w.safetensors");
  int32_t value = 0;
  std::memcpy(&value, back.at(1).array.data, 4);
  CHECK(value == 257);
}

TEST_CASE("safetensors: what is malformed is refused by name") {
  const Scratch dir;
  const struct {
    std::string content, message;
  } cases[] = {
      {"", "shorter than 8 bytes"},
      {"1234567", "shorter than 8 bytes"},
      {file("{}", "").substr(0, 9), "more than the file holds"},
      {std::string(8, '\xff'), "more than the file holds"},
      {file("{", ""), "not JSON"},
      {file("[]", ""), "not a JSON object"},
      {file(R"({"x":3})", ""), "'x': its entry is not an object"},
      {file(R"({"x":{"dtype":"F32","shape":[1]}})", ""), "'x': its entry lacks 'data_offsets'"},
      {file(R"({"x":{"dtype":"Q4","shape":[1],"data_offsets":[0,4]}})", "1234"), "'x': dtype 'Q4' is not supported"},
      {file(R"({"x":{"dtype":"F32","shape":[-1],"data_offsets":[0,4]}})", "1234"), "whole numbers"},
      {file(R"({"x":{"dtype":"F32","shape":[1.5],"data_offsets":[0,4]}})", "1234"), "whole numbers"},
      {file(R"({"x":{"dtype":"F32","shape":[2],"data_offsets":[0,4]}})", "1234"), "needs 8 bytes and its data has 4"},
      {file(R"({"x":{"dtype":"F32","shape":[1],"data_offsets":[0,400]}})", "1234"), "outside the file"},
      {file(R"({"x":{"dtype":"F32","shape":[1],"data_offsets":[4,0]}})", "1234"), "outside the file"},
      {file(R"({"x":{"dtype":"F32","shape":[4611686018427387904,4],"data_offsets":[0,4]}})", "1234"), "too large"},
      {file(R"({"x":{"dtype":"F32","shape":[18446744073709551615],"data_offsets":[0,4]}})", "1234"), "too large"},
      {file(R"({"x":{"dtype":"U8","shape":[2],"data_offsets":[0,2]}})", "123"), "cover 2 of 3 bytes"},
      {file(
           R"({"x":{"dtype":"U8","shape":[2],"data_offsets":[0,2]},"y":{"dtype":"U8","shape":[2],"data_offsets":[1,3]}})",
           "123"),
       "'y' overlaps"},
      {file(
           R"({"x":{"dtype":"U8","shape":[1],"data_offsets":[0,1]},"x":{"dtype":"U8","shape":[1],"data_offsets":[0,1]}})",
           "1"),
       "'x' appears twice"},
  };
  for (const auto& c : cases) {
    dir.write("bad.safetensors", c.content);
    const std::string message = message_of(dir.path / "bad.safetensors");
    CAPTURE(message);
    CHECK(message.find("bad.safetensors") != std::string::npos);
    CHECK(message.find(c.message) != std::string::npos);
  }
}

TEST_CASE("safetensors: no cut and no flipped byte of a good file crashes the reader") {
  const Scratch dir;
  write_safetensors(dir.path / "good", {{"a", *parse_input("f32[3]", 1).array}, {"b", *parse_input("i8[2]", 1).array}});
  const std::string good = dir.read("good");
  int refused = 0;
  for (size_t i = 0; i < good.size(); ++i) {
    dir.write("bad", good.substr(0, i));
    refused += message_of(dir.path / "bad") != "no error";
    std::string flipped = good;
    flipped[i] = static_cast<char>(flipped[i] ^ 0x15);
    dir.write("bad", flipped);
    message_of(dir.path / "bad");
  }
  CHECK(refused == static_cast<int>(good.size()));
}

TEST_CASE("safetensors: two tensors of one name, or a dtype the format lacks, are not written") {
  const Scratch dir;
  const Array a = *parse_input("f32[1]", 0).array;
  CHECK_THROWS_WITH_AS(write_safetensors(dir.path / "w", {{"a", a}, {"a", a}}),
                       ((dir.path / "w").string() + ": two tensors are named 'a'").c_str(), PrecompileError);
  CHECK_THROWS_AS(write_safetensors(dir.path / "w", {{"a", *parse_input("c128[1]", 0).array}}), PrecompileError);
  CHECK_FALSE(std::filesystem::exists(dir.path / "w"));
  CHECK_THROWS_AS(write_safetensors(dir.path / "no" / "w", {{"a", a}}), PrecompileError);
}
