// Marked programs, captured alone and called at other sizes.
#include <precast/dynamic.h>

#include <algorithm>
#include <cstring>
#include <sstream>

#include "call.h"
#include "open.h"
#include "outcome.h"
#include "reduce.h"

namespace precast::fuzz {
namespace {

PairPaths paths_of(const std::filesystem::path& dir, size_t p) {
  const std::string name = "open-" + std::to_string(p);
  return {dir / (name + ".cpp"), dir / (name + ".cache")};
}

void mark(const Program& p, const Inputs& inputs) {
  for (const OpenDim& o : p.open) {
    Mark m;
    if (o.shape_id) m.shape_id = "group " + std::to_string(o.group);
    mark_unbacked(inputs.of_program[0][o.input], o.dim, m);
  }
}

std::vector<int64_t> sizes_of(const Program& p) {
  std::vector<int64_t> sizes;
  for (const OpenDim& o : p.open) {
    const auto g = static_cast<size_t>(o.group);
    sizes.resize(std::max(sizes.size(), g + 1));
    sizes[g] = p.inputs[o.input].sizes[static_cast<size_t>(o.dim)];
  }
  return sizes;
}

bool fits(const Program& p) {
  return std::all_of(p.inputs.begin(), p.inputs.end(), [](const Input& in) {
    int64_t n = 1;
    for (const int64_t s : in.sizes) n *= s;
    return n <= 1 << 14;
  });
}

/// Those of the capture first. Marks that are apart get equal sizes, where they were equal, and others.
std::vector<std::vector<int64_t>> all_sizes(const Program& p) {
  const std::vector<int64_t> captured = sizes_of(p);
  std::vector<std::vector<int64_t>> all = {captured};
  for (const int64_t size : {0, 1, 2}) all.emplace_back(captured.size(), size);
  const auto changed = [&](auto&& change) {
    std::vector<int64_t> sizes = captured;
    for (size_t g = 0; g < sizes.size(); ++g) sizes[g] = change(sizes[g], static_cast<int64_t>(g));
    all.push_back(sizes);
  };
  changed([](int64_t s, int64_t) { return s + 1; });
  changed([](int64_t s, int64_t) { return 2 * s + 19; });
  changed([](int64_t s, int64_t) { return 5 * s + 101; });
  if (!fits(resized(p, all.back()))) all.pop_back();
  if (captured.size() < 2) return all;
  changed([](int64_t s, int64_t g) { return s + 2 + g; });
  changed([](int64_t s, int64_t g) { return g ? s : 1; });
  changed([](int64_t s, int64_t g) { return g ? s + 4 : 0; });
  return all;
}

/// One call at other sizes, and what eager makes of it.
struct Case {
  Program program;
  std::vector<int64_t> sizes;
  Variant variant;
  Outcome eager;
  Slack slack;
  bool comparable = true;  // its last bits do not change much
  bool must_throw = false;
};

constexpr const char* kStage = "call with open sizes";

std::string stage_at(const std::vector<int64_t>& sizes) {
  std::string text = kStage;
  for (const int64_t s : sizes) text += " " + std::to_string(s);
  return text;
}

/// An artifact may refuse sizes that eager takes: marks that are apart turn out to be one size, and eager broadcasts
/// one of them; and the least of a size holds for larger ones of the others.
bool may_refuse(const Case& c, const std::string& error) {
  const auto has = [&](int64_t s) { return std::find(c.sizes.begin(), c.sizes.end(), s) != c.sizes.end(); };
  if (c.sizes.size() < 2 || !(has(0) || has(1))) return false;
  return error.find(" must equal ") != std::string::npos || error.find("These are the bounds") != std::string::npos;
}

/// Without the steps that change nothing: an artifact does not run them, and does not fail where they would.
Program without_dead_steps(const Program& p) {
  const Slack exact(p.results.size() + 2 * p.inputs.size(), kExact);
  const Outcome all = try_eager(p, Variant::capture);
  Reduction kept = whole(p);
  for (size_t step = p.steps.size(); step-- > 0;) {
    kept.steps[step] = false;
    const auto part = apply(p, kept);
    kept.steps[step] = !part || !difference(all, try_eager(*part, Variant::capture), exact).empty();
  }
  return *apply(p, kept);
}

/// LibTorch's own way around an empty batch fails where there are no channels.
bool norm_of_no_channels(const Case& c) {
  return std::find(c.sizes.begin(), c.sizes.end(), 0) != c.sizes.end() &&
         std::any_of(c.program.steps.begin(), c.program.steps.end(),
                     [](const Step& s) { return s.op == "aten::batch_norm"; });
}

bool must_throw(const Program& p, const Case& c) {
  return !c.eager.error.empty() && !norm_of_no_channels(c) &&
         !try_eager(resized(without_dead_steps(p), c.sizes), c.variant).error.empty();
}

Case expect(const Program& p, const std::vector<int64_t>& sizes, Variant variant) {
  Case c{resized(p, sizes), sizes, variant, {}, {}};
  c.eager = try_eager(c.program, variant);
  c.must_throw = must_throw(p, c);
  if (!c.eager.error.empty()) return c;
  try {
    c.comparable = close_under_noise(c.eager, run_eager(c.program, variant, 1, {4, 1}));
    c.slack = slack_of(c.program, variant, 1, c.eager);
  } catch (const std::exception&) {
    c.comparable = false;
  }
  return c;
}

void judge(const Runnable& f, const Case& c, int number, const Report& report, OpenCounts& counts) {
  const std::string stage = stage_at(c.sizes);
  ++counts.calls;
  Inputs inputs({c.program}, {c.variant});
  std::vector<at::Tensor> results;
  std::string error;
  try {
    results = f(inputs, inputs.user);
  } catch (const std::exception& e) {
    error = e.what();
  }
  if (!error.empty()) {
    ++counts.refused_calls;
    if (c.eager.error.empty() && !may_refuse(c, error)) report({number, stage, "threw: " + error});
    const Inputs before({c.program}, {c.variant});
    for (size_t i = 0; i < before.of_program[0].size(); ++i)
      if (!at::equal(inputs.of_program[0][i].nan_to_num(), before.of_program[0][i].nan_to_num()))
        report({number, stage, "the call failed, but input v" + std::to_string(i) + " had been changed"});
    return;
  }
  if (c.must_throw) report({number, stage, "eager throws, and the artifact does not: " + c.eager.error});
  if (!c.eager.error.empty() || !c.comparable) return;
  const bool small = std::any_of(c.sizes.begin(), c.sizes.end(), [](int64_t s) { return s < 2; });
  const std::string what = difference(c.eager, outcome_of(results, inputs.of_program[0]), c.slack, small);
  if (!what.empty()) report({number, stage, what});
}

}  // namespace

std::vector<int64_t> open_sizes_in(const std::string& stage) {
  std::vector<int64_t> sizes;
  if (!stage.starts_with(kStage)) return sizes;
  std::istringstream in(stage.substr(std::strlen(kStage)));
  for (int64_t s = 0; in >> s;) sizes.push_back(s);
  return sizes;
}

void save_open(const std::vector<Program>& programs, const std::filesystem::path& dir,
               const std::vector<std::string>& isa, const Report& report, OpenCounts& counts) {
  for (size_t n = 0; n < programs.size(); ++n) {
    const std::vector<Program> alone = {programs[n]};
    if (alone[0].open.empty()) continue;
    ++counts.marked;
    const Case expected = expect(alone[0], sizes_of(alone[0]), Variant::capture);
    Inputs inputs(alone, {Variant::capture});
    mark(alone[0], inputs);
    try {
      LowerOptions options;
      options.isa = isa;
      auto cap = capture([&](Inputs& module, std::vector<at::Tensor> user) { return run_all(alone, module, user); },
                         paths_of(dir, n), options);
      const auto results = cap(inputs, inputs.user);
      cap.finish();
      ++counts.captured;
      const auto what = difference(expected.eager, outcome_of(results, inputs.of_program[0]), expected.slack);
      if (!what.empty()) report({static_cast<int>(n), "capture with open sizes", what});
    } catch (const PrecompileError& e) {
      const std::string what = e.what();
      if (what.find("mark") == std::string::npos)
        report({static_cast<int>(n), "capture with open sizes", "threw: " + what});
      ++counts.refused;
      counts.why.push_back(what);
    } catch (const std::exception& e) {
      report({static_cast<int>(n), "capture with open sizes", std::string("threw: ") + e.what()});
    }
  }
}

void load_open(const std::vector<Program>& programs, const std::filesystem::path& dir, const Report& report,
               OpenCounts& counts) {
  std::vector<std::vector<Case>> cases(programs.size());
  for (size_t n = 0; n < programs.size(); ++n) {
    if (!std::filesystem::exists(paths_of(dir, n).cache_path)) continue;
    for (const auto& sizes : all_sizes(programs[n])) cases[n].push_back(expect(programs[n], sizes, Variant::other));
  }
  for (size_t n = 0; n < programs.size(); ++n) {
    if (cases[n].empty()) continue;
    try {
      const Runnable f = load<Signature>(paths_of(dir, n));
      for (const Case& c : cases[n]) judge(f, c, static_cast<int>(n), report, counts);
    } catch (const std::exception& e) {
      report({static_cast<int>(n), "load with open sizes", std::string("threw: ") + e.what()});
    }
  }
}

}  // namespace precast::fuzz
