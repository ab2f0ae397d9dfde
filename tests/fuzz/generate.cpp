#include "generate.h"

#include <ATen/ATen.h>
#include <c10/util/Exception.h>

#include <algorithm>
#include <array>
#include <utility>

#include "coverage.h"
#include "inputs.h"
#include "open.h"
#include "ops.h"
#include "outcome.h"
#include "targets.h"

namespace precast::fuzz {
namespace {

constexpr int64_t kMaxElements = 1 << 16;

const Family& pick_family(Random& random, Theme theme) {
  const auto fits = [&](const Family& f) { return theme == Theme::none || f.theme == theme; };
  int64_t total = 0;
  for (const Family& f : families()) total += fits(f) ? f.weight : 0;
  int64_t at = random.integer(0, total - 1);
  for (const Family& f : families()) {
    if (!fits(f)) continue;
    if (at < f.weight) return f;
    at -= f.weight;
  }
  return families().front();
}

bool shares_storage(const at::Tensor& a, const at::Tensor& b) { return a.defined() && b.defined() && a.is_alias_of(b); }

// Values as they were before a step that may have written some.
void run_again(State& s) {
  s.values = make_inputs(s.program, Variant::capture);
  for (Step& step : s.program.steps) run_step(step, s.values);
}

// An input that comes to require grad is an effect that no op shows: refused at capture, and rightly.
bool inputs_keep_requires_grad(const State& s) {
  for (size_t i = 0; i < s.program.inputs.size(); ++i)
    if (s.values[i].requires_grad() && !s.values[i].is_leaf()) return false;
  return true;
}

// Ops whose gradient looks for zeros or NaN, or selects by a mask: which operations it takes depends on the values, so
// that such a call is refused for others, and rightly.
bool gradient_depends_on_values(const Step& step, const State& s) {
  if (step.op.starts_with("aten::masked_fill") && std::holds_alternative<Ref>(step.args[2]))
    return s.at(std::get<Ref>(step.args[2])).requires_grad();
  constexpr std::array kOps = {"aten::prod", "aten::prod.dim_int", "aten::cumprod", "aten::cumprod_",
                               "aten::max",  "aten::min",          "aten::median",  "aten::nanmedian"};
  if (std::find(kOps.begin(), kOps.end(), step.op) == kOps.end()) return false;
  return s.at(std::get<Ref>(step.args[0])).requires_grad();
}

bool writes_anything(const Step& step) { return writes(step) || !written(step).empty(); }

// Tries one step; on success it is part of the program. Else says what stood in the way.
std::string try_step(State& s, const Family& family, const char* op) {
  s.allow_inexact = family.kind != Kind::discontinuous;
  const auto args = family.make(s);
  if (!args) return "the generator has no such operands for it";
  Step step{op, *args, 0, family.kind == Kind::inexact};
  if (gradient_depends_on_values(step, s)) return "its gradient depends on the values";
  const auto read = operands(step);
  const bool has_gradient = std::any_of(read.begin(), read.end(), [&](Ref r) { return s.at(r).requires_grad(); });
  for (const Ref w : written(step))
    if (has_gradient && std::count(read.begin(), read.end(), w) > 1)
      return "its gradient would hold what it writes, for ever";
  if (s.any_dtype)  // the families look at this themselves, but not at stand-ins of another dtype
    for (const Ref w : written(step))
      for (const Ref r : operands(step))
        if (!(w == r) && shares_storage(s.at(w), s.at(r))) return "it would write what it reads";
  bool inexact = step.inexact;
  for (const Ref r : operands(step)) inexact |= s.inexact[static_cast<size_t>(r.value)];

  const size_t before = s.values.size();
  const auto undo = [&] {
    if (writes_anything(step)) return run_again(s);
    s.values.resize(before);
  };
  try {
    run_step(step, s.values);
  } catch (const c10::Error& e) {  // not a program
    undo();
    return "eager refuses: " + std::string(e.what_without_backtrace()).substr(0, 100);
  } catch (const std::exception& e) {
    undo();
    return "eager refuses: " + std::string(e.what()).substr(0, 100);
  }
  bool fine = s.values.size() - before <= 8 && inputs_keep_requires_grad(s);
  for (size_t i = before; i < s.values.size(); ++i)
    fine &= s.values[i].defined() && s.values[i].numel() <= kMaxElements;
  if (!fine) {
    undo();
    return "its results are too large, or none";
  }
  const auto has_last_bits = [](const at::Tensor& t) { return t.is_floating_point() || t.is_complex(); };
  for (size_t i = before; i < s.values.size(); ++i)
    s.inexact.push_back(inexact && (has_last_bits(s.values[i]) || family.kind != Kind::exact));
  if (inexact)  // every value that shares the memory
    for (const Ref r : written(step))
      for (size_t i = 0; i < s.values.size(); ++i)
        if (shares_storage(s.values[i], s.at(r))) s.inexact[i] = true;
  s.program.steps.push_back(std::move(step));
  return "";
}
void try_step(State& s, Theme theme) {
  const Family& family = pick_family(s.random, theme);
  try_step(s, family, s.random.choose(family.ops));
}

void choose_results(State& s) {
  const auto n_inputs = s.program.inputs.size();
  std::vector<bool> used(s.values.size(), false);
  for (const Step& step : s.program.steps)
    for (const Ref r : operands(step)) used[static_cast<size_t>(r.value)] = true;
  for (size_t i = s.values.size(); i-- > n_inputs && s.program.results.size() < 6;)
    if (!used[i] || s.random.chance(0.15)) s.program.results.push_back(static_cast<int>(i));
  if (s.random.chance(0.1))
    s.program.results.push_back(static_cast<int>(s.random.integer(0, static_cast<int64_t>(n_inputs) - 1)));
}

}  // namespace

bool well_conditioned(const Program& p) {
  try {
    const Outcome clean = run_eager(p, Variant::capture);
    // What the first call leaves may be infinite for the second.
    if (!close_under_noise(run_eager(p, Variant::other, 2), run_eager(p, Variant::other, 2, {4, 1}))) return false;
    for (uint64_t seed : {1u, 2u}) {
      const Outcome noisy = run_eager(p, Variant::capture, 1, {4, seed});
      if (!close_under_noise(clean, noisy)) return false;
    }
    return true;
  } catch (const std::exception&) {
    return false;
  }
}

namespace {

// Each is compiled alone, which takes as long as three others.
bool has_open_sizes(uint64_t seed) { return seed < kFirstTarget && seed % 20 == 7; }

void begin(State& s, uint64_t seed, Theme theme, std::optional<at::ScalarType> dtype = {}) {
  s.program.seed = seed;
  s.program.inputs = random_inputs(s.random, theme, dtype);
  if (has_open_sizes(seed)) prepare_open(s.random, s.program.inputs);
  s.values = make_inputs(s.program, Variant::capture);
  s.inexact.assign(s.values.size(), false);
}
// Results and backward; whether the program says something.
bool finish(State& s, size_t least_steps) {
  choose_results(s);
  if (s.program.steps.size() < least_steps || s.program.results.empty()) return false;
  s.program.inexact = s.inexact;
  s.program.backward = s.random.chance(0.6);
  if (well_conditioned(s.program)) return true;
  return std::exchange(s.program.backward, false) && well_conditioned(s.program);
}

// The op on the dtype first, then a step or two on what it gives.
Program generate_for(const Target& target, uint64_t seed) {
  std::string why;
  for (uint64_t attempt = 0; attempt < 100; ++attempt) {
    State s{Random(seed * 1000 + attempt), {}, {}, {}};
    begin(s, seed, target.family->theme, target.dtype);
    s.any_dtype = attempt >= 20;
    if (attempt >= 30 && attempt % 2) try_step(s, Theme::none);  // some ops take no input, only what others made
    const size_t before = s.program.steps.size();
    std::string fault;
    for (int tries = 0; tries < 3 && s.program.steps.size() == before; ++tries)
      fault = try_step(s, *target.family, target.op);
    if (s.program.steps.size() == before) {
      if (why.empty() || fault.starts_with("eager refuses")) why = fault;  // the reason that says most
      continue;
    }
    const std::string dtype = dtype_of(s.program.steps.back(), s.values);
    if (dtype != dtype_name(target.dtype)) {
      if (!why.starts_with("eager refuses"))
        why = dtype == "none" ? "it takes no tensor" : "the generator gives it other dtypes";
      continue;
    }
    s.any_dtype = false;
    for (int64_t more = s.random.integer(0, 2); more > 0; --more) try_step(s, Theme::none);
    if (finish(s, 1)) return s.program;
    why = "noise in its last bits changes all of what follows";
  }
  Program none;
  none.seed = seed;
  none.why_not = why;
  return none;
}

}  // namespace

Program generate(uint64_t seed) {
  if (seed >= kFirstTarget) return generate_for(targets().at(seed - kFirstTarget), seed);
  for (uint64_t attempt = 0;; ++attempt) {
    State s{Random(seed * 1000 + attempt), {}, {}, {}};
    const Theme theme = s.random.choose({Theme::none, Theme::none, Theme::none, Theme::none, Theme::none, Theme::none,
                                         Theme::matrix, Theme::batched, Theme::image, Theme::attention, Theme::rows,
                                         Theme::table, Theme::table, Theme::cell});
    begin(s, seed, theme);
    const int64_t wanted = s.random.integer(3, 9);
    for (int tries = 0; tries < 100 && static_cast<int64_t>(s.program.steps.size()) < wanted; ++tries)
      try_step(s, s.random.chance(0.4) ? theme : Theme::none);
    if (!finish(s, 2)) continue;
    if (has_open_sizes(seed)) choose_open(s.random, s.program);
    return s.program;
  }
}

}  // namespace precast::fuzz
