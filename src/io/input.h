// The little language for arguments on the command line: a tensor by type and fill, a .npy file, or a plain value.
//
//   f32[1,576]             normal numbers (other types: integers and bools are zeros)
//   f32[1,576]:zeros       also :ones, :arange (0, 1, 2, ...), :randn
//   i64[8,64]:0..50257     uniform in 0 <= x < 50257; for float types too: f32[3]:-1..1
//   f32[]                  one number, no dimension
//   voice.npy              a file written by NumPy
//   3   0.5   true   none   '"text"'     an integer, a float, a bool, None, a string
#pragma once
#include <optional>
#include <string>
#include <string_view>

#include "io/array.h"
#include "ir/graph.h"

namespace precast::io {

struct Input {
  std::string text;            // as the user wrote it
  std::optional<Array> array;  // a tensor
  ir::Attr value;              // anything else: monostate, bool, int64_t, double or std::string
};

/// The same text and seed give the same values on every machine. Throws std::invalid_argument for text that is none of
/// the forms above, PrecompileError for a file that cannot be read.
Input parse_input(std::string_view text, uint64_t seed);

/// Fills a contiguous array: `fill` is "zeros", "ones", "arange", "randn" or "LOW..HIGH"; "" is the type's default.
void fill(Array& array, std::string_view fill, uint64_t seed);

}  // namespace precast::io
