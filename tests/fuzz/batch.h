// Many programs as one function, so that they share a capture and a compile; and the two processes that judge it.
#pragma once
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "program.h"

namespace precast::fuzz {

/// A failure of one program, or of the whole batch when `program` is -1.
struct Failure {
  int program = -1;
  std::string stage;  // "capture inductor", "load eager", ...; shrinking keeps it
  std::string what;
};
using Report = std::function<void(const Failure&)>;

/// Runs in a process that has loaded no recorder. Plain eager first; then a capture with each backend writes
/// DIR/eager.{cpp,cache} and DIR/inductor.{cpp,cache}, and what the captured call returned and changed is compared.
void save_batch(const std::vector<Program>&, const std::filesystem::path& dir, const std::vector<std::string>& isa,
                const Report&);

/// Runs in another process. Plain eager first; then both pairs are loaded and called with the values of the capture,
/// with others (twice), and with nasty ones; where eager throws, so must they, leaving every input as it was. Once more
/// with the caches stripped: always for "eager", for "inductor" if `recompile`.
void load_batch(const std::vector<Program>&, const std::filesystem::path& dir, bool recompile, const Report&);

/// Plain eager alone, with all values: a process that dies here says nothing about precast.
void run_batch(const std::vector<Program>&);

}  // namespace precast::fuzz
