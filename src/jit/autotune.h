// max_autotune: which choices of the compiler are fastest on this machine, found by compiling and running a graph both
// ways. What was found stays in the cache on disk.
#pragma once
#include <functional>
#include <string>
#include <vector>

#include "ir/choices.h"
#include "ir/graph.h"
#include "precast/detail/core.h"

namespace precast::jit {

struct Tuned {
  ir::Choices choices;
  std::vector<std::string> lines;  // "padded rows: 0.93 of the time, taken"
};

/// A graph, and the text of a function of its inputs: of one list.
struct TrialGraph {
  ir::Graph graph;
  std::string code;
};
/// The graphs of a program under some choices: each is run as often as the others.
using MakeGraphs = std::function<std::vector<TrialGraph>(const ir::Choices&)>;
using CompileText = std::function<detail::RunnablePtr(const std::string& code)>;

/// Starts from `first` and takes what makes the graphs faster by 3 % or more, one choice after another. `key`: names
/// the entry on disk. Graphs whose sizes are open, and such as fail on made-up inputs, keep `first`.
Tuned autotune(const std::string& key, const ir::Choices& first, const MakeGraphs&, const CompileText&);

}  // namespace precast::jit
