// Runs programs through compiler and reference and compares: values, under several ways to cut up parallel loops.
#pragma once
#include <doctest/doctest.h>

#include "compiled.h"

namespace compiled {

struct Program {
  std::string name, text;
  double relative = 1e-5, absolute = 1e-5;
  std::map<int, int64_t> below{};  // input -> its integers are in [0, below)
  int host_ops = 0;
  bool threads = false;  // run by threads, too
};

inline std::vector<reference::Tensor> random_inputs(const precast::ir::Graph& g, const Program& p, uint32_t seed) {
  std::vector<reference::Tensor> inputs;
  for (size_t k = 0; k < g.inputs.size(); ++k) {
    const auto below = p.below.find(static_cast<int>(k));
    inputs.push_back(random_tensor(g.type(g.inputs[k]), seed + static_cast<uint32_t>(k),
                                   below == p.below.end() ? 0 : below->second));
  }
  return inputs;
}

/// Runs a program cut into so many pieces (run(pieces); below 0: by threads): each time it gives what is expected, and
/// the same bytes, whoever computed what.
template <class Run>
void check_cuts(const Run& run, const std::vector<int>& cuts, const std::vector<reference::Tensor>& expected,
                double relative, double absolute) {
  std::vector<reference::Tensor> first;
  for (const int pieces : cuts) {
    const auto r = run(pieces);
    REQUIRE_MESSAGE(r.code == 0, r.message);
    for (size_t k = 0; k < expected.size(); ++k) {
      CAPTURE(k);
      CHECK(disagreement(r.outputs[k], expected[k], relative, absolute) <= 1);
      if (pieces != 1) CHECK(r.outputs[k].bytes == first[k].bytes);
    }
    first = r.outputs;
  }
}

inline void check(const std::vector<Program>& programs, const Options& options = {}) {
  Batch batch(options);
  for (const Program& p : programs) {
    INFO(p.name);
    batch.add(p.text);
  }
  batch.compile();
  for (int i = 0; i < static_cast<int>(programs.size()); ++i) {
    const Program& p = programs[static_cast<size_t>(i)];
    CAPTURE(p.name);
    const auto inputs = random_inputs(batch.graph(i), p, static_cast<uint32_t>(100 * i));
    CHECK(static_cast<int>(batch.emitted(i).host_ops.size()) == p.host_ops);
    const auto expected = reference::Interpreter(batch.graph(i), inputs).outputs();
    const auto run = [&](int pieces) { return batch.run(i, inputs, pieces); };
    check_cuts(run, p.threads ? std::vector{1, 3, -3} : std::vector{1, 3}, expected, p.relative, p.absolute);
  }
}

}  // namespace compiled
