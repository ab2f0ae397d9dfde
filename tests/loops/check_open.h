// Runs graphs with symbols, compiled once, at many sizes, 0 and 1 among them, against the graph of those sizes.
#pragma once
#include "check.h"

namespace compiled {

struct Dynamic {
  std::string name, text;  // of the graph, after the line of symbols
  std::vector<std::string> symbols = {"u0 in [0, inf) hint 8"};
  std::map<int, int64_t> below{};  // input -> its integers are in [0, below)
  int host_ops = 0;
  double relative = 1e-5, absolute = 1e-5;
  std::vector<std::vector<int64_t>> sizes{};  // instead of the usual ones
};

inline constexpr int64_t kSizes[] = {0, 1, 2, 7, 8, 17, 100};

inline std::vector<std::vector<int64_t>> choices(size_t symbols) {
  std::vector<std::vector<int64_t>> all;
  for (const int64_t a : kSizes) {
    if (symbols == 1) all.push_back({a});
    for (const int64_t b : {0, 1, 3, 16, 33})
      if (symbols == 2) all.push_back({a, b});
  }
  return all;
}

inline void check_open(const std::vector<Dynamic>& programs, const Options& options = {}) {
  Batch batch(options);
  for (const Dynamic& p : programs) {
    std::string text = "symbols: ";
    for (const std::string& s : p.symbols) text += (&s == p.symbols.data() ? "" : ", ") + s;
    INFO(p.name);
    batch.add(text + "\n" + p.text);
  }
  batch.compile();
  for (int i = 0; i < static_cast<int>(programs.size()); ++i) {
    const Dynamic& p = programs[static_cast<size_t>(i)];
    CAPTURE(p.name);
    std::string why;
    for (const auto& op : batch.emitted(i).host_ops) why += op.op + ": " + op.why + "\n";
    CHECK_MESSAGE(static_cast<int>(batch.emitted(i).host_ops.size()) == p.host_ops, why);
    for (const std::vector<int64_t>& sizes : p.sizes.empty() ? choices(p.symbols.size()) : p.sizes) {
      CAPTURE(sizes[0]);
      CAPTURE(sizes.back());
      const precast::ir::Graph g = batch.with_sizes(i, sizes);
      const auto inputs = random_inputs(g, {.name = {}, .text = {}, .below = p.below}, 7);
      const auto expected = reference::Interpreter(g, inputs).outputs();
      const auto run = [&](int pieces) { return batch.run(i, sizes, inputs, pieces); };
      check_cuts(run, {1, 3}, expected, p.relative, p.absolute);
    }
  }
}

}  // namespace compiled
