#include "generate.h"

#include <ATen/ATen.h>

#include <array>

#include "inputs.h"
#include "ops.h"
#include "outcome.h"

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

// Ops whose gradient looks for zeros: the number of operations it takes depends on the values, so that such a call is
// refused for others, and rightly.
bool gradient_depends_on_values(const Step& step, const State& s) {
  constexpr std::array kOps = {"aten::prod", "aten::prod.dim_int", "aten::cumprod", "aten::cumprod_"};
  if (std::find(kOps.begin(), kOps.end(), step.op) == kOps.end()) return false;
  return s.at(std::get<Ref>(step.args[0])).requires_grad();
}

bool writes_anything(const Step& step) { return writes(step) || !written(step).empty(); }

// Tries one step; on success it is part of the program.
void try_step(State& s, Theme theme) {
  const Family& family = pick_family(s.random, theme);
  s.allow_inexact = family.kind != Kind::discontinuous;
  const auto args = family.make(s);
  if (!args) return;
  Step step{s.random.choose(family.ops), *args, 0, family.kind == Kind::inexact};
  if (gradient_depends_on_values(step, s)) return;
  bool inexact = step.inexact;
  for (const Ref r : operands(step)) inexact |= s.inexact[static_cast<size_t>(r.value)];

  const size_t before = s.values.size();
  const auto undo = [&] {
    if (writes_anything(step)) return run_again(s);
    s.values.resize(before);
  };
  try {
    run_step(step, s.values);
  } catch (const std::exception&) {  // eager refuses it: not a program
    return undo();
  }
  bool fine = s.values.size() - before <= 8 && inputs_keep_requires_grad(s);
  for (size_t i = before; i < s.values.size(); ++i)
    fine &= s.values[i].defined() && s.values[i].numel() <= kMaxElements;
  if (!fine) return undo();
  const auto has_last_bits = [](const at::Tensor& t) { return t.is_floating_point() || t.is_complex(); };
  for (size_t i = before; i < s.values.size(); ++i)
    s.inexact.push_back(inexact && (has_last_bits(s.values[i]) || family.kind != Kind::exact));
  if (inexact)  // every value that shares the memory
    for (const Ref r : written(step))
      for (size_t i = 0; i < s.values.size(); ++i)
        if (shares_storage(s.values[i], s.at(r))) s.inexact[i] = true;
  s.program.steps.push_back(std::move(step));
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
    run_eager(p, Variant::other, 2);
    for (uint64_t seed : {1u, 2u}) {
      const Outcome noisy = run_eager(p, Variant::capture, 1, {4, seed});
      if (!close_under_noise(clean, noisy)) return false;
    }
    return true;
  } catch (const std::exception&) {
    return false;
  }
}

Program generate(uint64_t seed) {
  for (uint64_t attempt = 0;; ++attempt) {
    State s{Random(seed * 1000 + attempt), {}, {}, {}};
    s.program.seed = seed;
    const Theme theme = s.random.choose({Theme::none, Theme::none, Theme::none, Theme::none, Theme::none, Theme::none,
                                         Theme::matrix, Theme::batched, Theme::image, Theme::attention, Theme::rows,
                                         Theme::table, Theme::table, Theme::cell});
    s.program.inputs = random_inputs(s.random, theme);
    s.values = make_inputs(s.program, Variant::capture);
    s.inexact.assign(s.values.size(), false);
    const int64_t wanted = s.random.integer(3, 9);
    for (int tries = 0; tries < 100 && static_cast<int64_t>(s.program.steps.size()) < wanted; ++tries)
      try_step(s, s.random.chance(0.4) ? theme : Theme::none);
    choose_results(s);
    if (s.program.steps.size() < 2 || s.program.results.empty()) continue;
    s.program.inexact = s.inexact;
    s.program.backward = s.random.chance(0.6);
    if (s.program.backward && !well_conditioned(s.program)) s.program.backward = false;
    if (well_conditioned(s.program)) return s.program;
  }
}

}  // namespace precast::fuzz
