// Open sizes: dims of a program's inputs that are marked (mark_unbacked) before a capture of it alone, whose artifact
// is then judged by eager at other sizes.
#pragma once
#include "batch.h"
#include "program.h"
#include "random.h"

namespace precast::fuzz {

/// Before the first step: makes the inputs that have a dim of some size such that they can be marked.
void prepare_open(Random&, std::vector<Input>&);
/// Marks dims, if possible such that eager runs the program at other sizes. (Ops have sizes among their arguments.)
void choose_open(Random&, Program&);

/// The program on inputs of other sizes; one for each group of open dims.
Program resized(const Program&, const std::vector<int64_t>& sizes);
std::string print_open(const Program&);

/// The sizes in "call with open sizes 0 7"; none in the name of another stage.
std::vector<int64_t> open_sizes_in(const std::string& stage);

/// What became of the marked programs of a run.
struct OpenCounts {
  double seconds = 0;
  int marked = 0, captured = 0, refused = 0;
  std::vector<std::string> why;      // of the refused
  int calls = 0, refused_calls = 0;  // at other sizes; eager refuses these as well
};

/// Captures each marked program into DIR/open-N.{cpp,cache}. A refusal that blames the mark is counted.
void save_open(const std::vector<Program>&, const std::filesystem::path& dir, const std::vector<std::string>& isa,
               const Report&, OpenCounts&);
/// Loads those that are there, and calls them at other sizes.
void load_open(const std::vector<Program>&, const std::filesystem::path& dir, const Report&, OpenCounts&);

}  // namespace precast::fuzz
