#include "batch.h"

#include <precast/precast.h>

#include <algorithm>
#include <fstream>
#include <future>

#include "call.h"
#include "open.h"
#include "outcome.h"

namespace precast::fuzz {
namespace {

constexpr const char* kBackends[] = {"eager", "inductor"};

PairPaths paths_of(const std::filesystem::path& dir, const std::string& backend, const char* cache = ".cache") {
  return {dir / (backend + ".cpp"), dir / (backend + cache)};
}

std::vector<Outcome> split(const std::vector<Program>& programs, const std::vector<at::Tensor>& results,
                           const Inputs& inputs) {
  std::vector<Outcome> outcomes;
  size_t at = 0;
  for (size_t p = 0; p < programs.size(); ++p) {
    const size_t n = programs[p].results.size();
    outcomes.push_back(outcome_of(
        {results.begin() + static_cast<std::ptrdiff_t>(at), results.begin() + static_cast<std::ptrdiff_t>(at + n)},
        inputs.of_program[p]));
    at += n;
  }
  return outcomes;
}

// What eager makes of each program with each variant, before any recorder is there.
struct Expected {
  std::vector<Variant> variants;  // nasty only where comparing says something
  std::vector<Outcome> outcomes;
  std::vector<Slack> slacks;
};
Expected expect(const std::vector<Program>& programs, Variant variant, int runs = 1) {
  Expected e;
  for (const Program& p : programs) {
    Variant chosen = variant;
    Outcome clean = try_eager(p, variant, runs);
    if (variant == Variant::nasty &&
        (!clean.error.empty() || !close_under_noise(clean, run_eager(p, variant, runs, {4, 1})))) {
      chosen = Variant::other;
      clean = run_eager(p, chosen, runs);
    }
    e.variants.push_back(chosen);
    e.slacks.push_back(slack_of(p, chosen, runs, clean));
    e.outcomes.push_back(std::move(clean));
  }
  return e;
}

// Eager refuses the nasty values of an input in a step that counts: with other harmless values there the outcome is
// another. (An artifact need not compute what nobody sees.)
bool must_throw(const Program& p) {
  if (try_eager(p, Variant::nasty).error.empty()) return false;
  const Slack exact(p.results.size() + 2 * p.inputs.size(), kExact);
  const Outcome harmless = try_eager(p, Variant::tame);
  if (!harmless.error.empty()) return false;
  const auto others = make_inputs(p, Variant::tame_too);
  for (size_t i = 0; i < p.inputs.size(); ++i) {
    std::vector<Variant> variants(p.inputs.size(), Variant::tame);
    variants[i] = Variant::nasty;
    const auto step = throwing_step(p, make_inputs(p, variants));
    if (!step) continue;
    const Outcome other = try_eager(p, make_inputs(p, Variant::tame), {*step, i, others[i]});
    if (other.error.empty() && !difference(harmless, other, exact).empty()) return true;
  }
  return false;
}

// A second call with the same inputs: gradients add up. Where the first one leaves inputs that are no longer exactly
// eager's, the second may jump, and is no matter.
bool comparable_twice(const Program& p) {
  return std::none_of(p.inexact.begin(), p.inexact.begin() + static_cast<std::ptrdiff_t>(p.inputs.size()),
                      [](bool inexact) { return inexact; });
}

void compare_all(const std::vector<Program>& programs, const Expected& expected, const std::vector<at::Tensor>& results,
                 const Inputs& inputs, const std::string& stage, const Report& report, bool again = false) {
  const auto found = split(programs, results, inputs);
  for (size_t p = 0; p < programs.size(); ++p) {
    if (again && !comparable_twice(programs[p])) continue;
    const std::string what = difference(expected.outcomes[p], found[p], expected.slacks[p]);
    if (!what.empty()) report({static_cast<int>(p), stage, what});
  }
}

// Reports what `run` throws as a failure of the whole batch.
template <class F>
bool guarded(const std::string& stage, const Report& report, F&& run) {
  try {
    run();
    return true;
  } catch (const std::exception& e) {
    report({-1, stage, std::string("threw: ") + e.what()});
    return false;
  }
}

// Calls at the same time, each with inputs of its own.
void call_from_threads(const Runnable& f, const std::vector<Program>& programs, const Expected& expected,
                       const std::string& stage, const Report& report) {
  std::vector<std::unique_ptr<Inputs>> inputs;
  std::vector<std::future<std::vector<at::Tensor>>> calls;
  for (int t = 0; t < 3; ++t) inputs.push_back(std::make_unique<Inputs>(programs, expected.variants));
  for (auto& own : inputs) calls.push_back(std::async(std::launch::async, [&] { return f(*own, own->user); }));
  for (size_t t = 0; t < calls.size(); ++t)
    guarded(stage, report, [&] { compare_all(programs, expected, calls[t].get(), *inputs[t], stage, report); });
}

// Eager throws for these values, so the artifact has to, and must then have changed nothing.
void expect_errors(const Runnable& f, const std::vector<Program>& programs, const std::vector<bool>& throws,
                   const std::string& stage, const Report& report) {
  for (size_t bad = 0; bad < programs.size(); ++bad) {
    if (!throws[bad]) continue;
    std::vector<Variant> variants(programs.size(), Variant::capture);
    variants[bad] = Variant::nasty;
    Inputs inputs(programs, variants);
    const Inputs before(programs, variants);
    bool threw = false;
    try {
      f(inputs, inputs.user);
    } catch (const std::exception&) {
      threw = true;
    }
    if (!threw) report({static_cast<int>(bad), stage, "eager throws for these values, and the artifact does not"});
    for (size_t p = 0; threw && p < programs.size(); ++p)
      for (size_t i = 0; i < before.of_program[p].size(); ++i)
        if (!at::equal(inputs.of_program[p][i].nan_to_num(), before.of_program[p][i].nan_to_num()))
          report({static_cast<int>(bad), stage,
                  "the call failed, as in eager, but input v" + std::to_string(i) + " had been changed"});
  }
}

}  // namespace

void save_batch(const std::vector<Program>& programs, const std::filesystem::path& dir,
                const std::vector<std::string>& isa, const Report& report) {
  const Expected expected = expect(programs, Variant::capture);
  for (const char* backend : kBackends) {
    const std::string stage = std::string("capture ") + backend;
    guarded(stage, report, [&] {
      Inputs inputs(programs, expected.variants);
      LowerOptions options;
      options.backend = backend;
      options.isa = isa;
      auto cap = capture([&](Inputs& module, std::vector<at::Tensor> user) { return run_all(programs, module, user); },
                         paths_of(dir, backend), options);
      const auto results = cap(inputs, inputs.user);
      cap.finish();
      compare_all(programs, expected, results, inputs, stage, report);
    });
  }
}

void load_batch(const std::vector<Program>& programs, const std::filesystem::path& dir, bool recompile,
                const Report& report) {
  const Expected variants[] = {expect(programs, Variant::capture), expect(programs, Variant::other),
                               expect(programs, Variant::nasty)};
  const Expected twice = expect(programs, Variant::other, 2);
  const char* const names[] = {"the captured values", "other values", "nasty values"};
  std::vector<bool> throws;
  for (const Program& p : programs) throws.push_back(must_throw(p));

  for (const std::string backend : kBackends) {
    for (const bool stripped : {false, true}) {
      if (stripped && backend == "inductor" && !recompile) continue;
      const std::string what = backend + (stripped ? " without its cache" : "");
      if (stripped) std::ofstream(paths_of(dir, backend, ".stripped").cache_path) << "stripped";
      guarded("load " + what, report, [&] {
        const Runnable f = load<Signature>(paths_of(dir, backend, stripped ? ".stripped" : ".cache"));
        for (size_t v = 0; v < std::size(variants); ++v)
          guarded("call " + what + " with " + names[v], report, [&] {
            Inputs inputs(programs, variants[v].variants);
            auto results = f(inputs, inputs.user);
            compare_all(programs, variants[v], results, inputs, "call " + what + " with " + names[v], report);
            if (v != 1) return;
            results = f(inputs, inputs.user);
            compare_all(programs, twice, results, inputs, "call " + what + " with other values twice", report, true);
          });
        if (!stripped) call_from_threads(f, programs, variants[1], "call " + what + " from several threads", report);
        expect_errors(f, programs, throws, "call " + what + " with values that eager refuses", report);
      });
    }
  }
}

void run_batch(const std::vector<Program>& programs) {
  for (const Program& p : programs) {
    try_eager(p, Variant::capture);
    try_eager(p, Variant::other, 2);
    try_eager(p, Variant::nasty);
    run_eager(p, Variant::capture, 1, {4, 1});
  }
}

}  // namespace precast::fuzz
