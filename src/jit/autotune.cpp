#include "jit/autotune.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <chrono>
#include <cstdio>

#include "artifact/spec.h"
#include "host_torch/tensor_types.h"
#include "jit/disk_cache.h"
#include "jit/flat_call.h"
#include "util/sha256.h"

namespace precast::jit {

namespace {

using ir::Choices;
using Clock = std::chrono::steady_clock;

struct Candidate {
  const char* name;
  void (*change)(Choices&);
};
/// In the order of what they promise.
constexpr Candidate kCandidates[] = {
    {"no epilogues", [](Choices& c) { c.epilogues = false; }},
    {"products one by one", [](Choices& c) { c.joint_products = false; }},
    {"layouts as recorded", [](Choices& c) { c.free_layouts = c.padded_rows = false; }},
    {"padded rows", [](Choices& c) { c.padded_rows = true; }},
    {"matrices always packed", [](Choices& c) { c.packing = Choices::Packing::always; }},
    {"matrices never packed", [](Choices& c) { c.packing = Choices::Packing::never; }},
};
constexpr double kGain = 0.97;

/// The graphs of a program, compiled, with inputs to run them on.
class Trial {
 public:
  Trial(const std::vector<TrialGraph>& graphs, const CompileText& compile) {
    for (const auto& [g, code] : graphs) {
      Run& run = runs_.emplace_back();
      run.runnable = compile(code);
      for (const ir::ValueId v : g.inputs) {
        const at::Tensor t = host_torch::empty(g.type(v));
        run.inputs.push_back(at::isFloatingType(t.scalar_type()) || at::isComplexType(t.scalar_type()) ? t.fill_(0.5)
                                                                                                       : t.zero_());
      }
      run.spec = artifact::flat_spec(g.inputs.size());
    }
  }

  double seconds() {
    const auto start = Clock::now();
    for (Run& run : runs_) {
      call_flat(*run.runnable, run.spec, run.inputs);
    }
    return std::chrono::duration<double>(Clock::now() - start).count();
  }

 private:
  struct Run {
    detail::RunnablePtr runnable;
    std::vector<at::Tensor> inputs;
    std::string spec;
  };
  std::vector<Run> runs_;
};

/// Time of `b` / time of `a`: calls take turns, for a quarter of a second or eight turns. The larger of the ratio of
/// the best times and the median of the ratios of neighbours: what else the machine does must not look like a gain.
double ratio(Trial& a, Trial& b) {
  std::vector<double> ratios;
  double best_of_a = a.seconds(), best_of_b = b.seconds();
  for (const auto start = Clock::now();
       ratios.size() < 8 || (Clock::now() - start < std::chrono::milliseconds(250) && ratios.size() < 1000);) {
    const double of_a = a.seconds(), of_b = b.seconds();
    best_of_a = std::min(best_of_a, of_a), best_of_b = std::min(best_of_b, of_b);
    ratios.push_back(of_b / of_a);
  }
  std::ranges::nth_element(ratios, ratios.begin() + static_cast<std::ptrdiff_t>(ratios.size() / 2));
  return std::max(best_of_b / best_of_a, ratios[ratios.size() / 2]);
}

std::string text_of(const std::vector<TrialGraph>& graphs) {
  std::string text;
  for (const TrialGraph& g : graphs) text += g.code;
  return text;
}

/// One letter for each candidate: taken or not.
Choices read(const std::string& taken, const Choices& first) {
  Choices c = first;
  for (size_t i = 0; i < std::size(kCandidates) && i < taken.size(); ++i)
    if (taken[i] == '1') kCandidates[i].change(c);
  return c;
}

/// `first_graphs` are those of `first`.
std::string measure(const Choices& first, const std::vector<TrialGraph>& first_graphs, const MakeGraphs& make,
                    const CompileText& compile, std::vector<std::string>& lines) {
  std::string taken(std::size(kCandidates), '0');
  Choices best = first;
  std::string best_text = text_of(first_graphs);
  auto best_trial = std::make_unique<Trial>(first_graphs, compile);
  for (size_t i = 0; i < std::size(kCandidates); ++i) {
    Choices c = best;
    kCandidates[i].change(c);
    const std::vector<TrialGraph> graphs = make(c);
    const std::string text = text_of(graphs);
    if (text == best_text) continue;
    auto trial = std::make_unique<Trial>(graphs, compile);
    const double r = ratio(*best_trial, *trial);
    char line[160];
    std::snprintf(line, sizeof line, "%s: %.2f of the time%s", kCandidates[i].name, r, r < kGain ? ", taken" : "");
    lines.emplace_back(line);
    if (r >= kGain) continue;
    taken[i] = '1';
    best = c, best_text = text;
    best_trial = std::move(trial);
  }
  return taken;
}

}  // namespace

Tuned autotune(const std::string& key, const Choices& first, const MakeGraphs& make, const CompileText& compile) {
  Tuned tuned{first, {}};
  const std::vector<TrialGraph> graphs = make(first);
  for (const TrialGraph& g : graphs)
    if (!g.graph.symbols.empty()) {
      tuned.lines.emplace_back("sizes are open: nothing to measure");
      return tuned;
    }
  try {
    const at::NoGradGuard no_grad;
    const Cached entry = cached(sha256_hex("choices\n" + key + "\n" + text_of(graphs)), [&] {
      const std::string taken = measure(first, graphs, make, compile, tuned.lines);
      const auto* begin = reinterpret_cast<const std::byte*>(taken.data());
      return Bytes(begin, begin + taken.size());
    });
    std::string taken;
    for (const std::byte b : entry.bytes) taken += static_cast<char>(b);
    tuned.choices = read(taken, first);
    if (tuned.lines.empty()) {
      for (size_t i = 0; i < std::size(kCandidates) && i < taken.size(); ++i)
        if (taken[i] == '1') tuned.lines.push_back(std::string(kCandidates[i].name) + ": as measured before");
      if (tuned.lines.empty()) tuned.lines.emplace_back("nothing was faster when it was measured");
    }
  } catch (const std::exception& e) {  // made-up inputs: an index out of range, a division by zero
    tuned = {first, {std::string("cannot be measured: ") + e.what()}};
  }
  return tuned;
}

}  // namespace precast::jit
