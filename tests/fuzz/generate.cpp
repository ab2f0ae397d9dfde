#include "generate.h"

#include <ATen/ATen.h>

#include "ops.h"
#include "outcome.h"

namespace precast::fuzz {
namespace {

constexpr int64_t kMaxElements = 1 << 16;

std::vector<Input> random_inputs(Random& random) {
  // Few sizes a program, so that shapes often fit; lengths around the width of vectors.
  std::vector<int64_t> pool;
  for (int i = 0; i < 3; ++i) pool.push_back(random.choose({1, 2, 3, 4, 5, 7, 8, 9, 15, 16, 17, 31, 33}));
  if (random.chance(0.08)) pool[0] = 0;
  const std::vector<at::ScalarType> dtypes = {at::kFloat, at::kFloat,    at::kFloat, at::kFloat, at::kDouble,
                                              at::kHalf,  at::kBFloat16, at::kLong,  at::kInt,   at::kShort,
                                              at::kChar,  at::kByte,     at::kBool};
  const std::vector<at::ScalarType> palette = {random.choose(dtypes), random.choose(dtypes), at::kFloat};
  std::vector<Input> inputs;
  const int64_t n = random.integer(2, 5);
  for (int64_t i = 0; i < n; ++i) {
    Input in;
    in.dtype = random.choose(palette);
    const int64_t rank = random.choose({0, 1, 1, 2, 2, 2, 3, 3, 4});
    for (int64_t d = 0; d < rank; ++d) in.sizes.push_back(random.chance(0.15) ? 1 : random.choose(pool));
    if (rank > 1 && random.chance(0.2)) in.layout = Layout::transposed;
    if (rank > 0 && random.chance(0.1)) in.layout = Layout::sliced;
    if (at::isFloatingType(in.dtype) && random.chance(0.4))
      in.role = Role::parameter;
    else if (random.chance(0.15))
      in.role = Role::buffer;
    in.seed = random.bits() % 1000;
    inputs.push_back(in);
  }
  if (random.chance(0.5)) {  // an index
    Input in;
    in.dtype = random.chance(0.8) ? at::kLong : at::kInt;
    in.index_below = random.choose(pool);
    if (in.index_below > 0) {
      for (int64_t d = 0; d < random.integer(1, 2); ++d) in.sizes.push_back(std::min<int64_t>(random.choose(pool), 16));
      in.seed = random.bits() % 1000;
      inputs.push_back(in);
    }
  }
  if (random.chance(0.3)) {  // a mask
    Input in{at::kBool, inputs[0].sizes};
    in.seed = random.bits() % 1000;
    inputs.push_back(in);
  }
  if (inputs[0].role == Role::user && inputs[0].layout == Layout::contiguous && random.chance(0.08)) {
    int64_t n0 = 1;
    for (int64_t size : inputs[0].sizes) n0 *= size;
    if (n0 > 1) {
      Input in{inputs[0].dtype, {n0 / 2}};
      in.alias_of = 0;
      inputs.push_back(in);
    }
  }
  return inputs;
}

int pick_family(Random& random) {
  static const int total = [] {
    int sum = 0;
    for (const Family& f : families()) sum += f.weight;
    return sum;
  }();
  auto at = random.integer(0, total - 1);
  int i = 0;
  while (at >= families()[static_cast<size_t>(i)].weight) at -= families()[static_cast<size_t>(i++)].weight;
  return i;
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

// Tries one step; on success it is part of the program.
void try_step(State& s) {
  const Family& family = families()[static_cast<size_t>(pick_family(s.random))];
  s.allow_inexact = family.kind != Kind::discontinuous;
  const auto args = family.make(s);
  if (!args) return;
  bool inexact = false;
  std::vector<Ref> operands;
  for (const Arg& arg : *args) {
    if (const auto* r = std::get_if<Ref>(&arg)) operands.push_back(*r);
    if (const auto* list = std::get_if<std::vector<Ref>>(&arg))
      operands.insert(operands.end(), list->begin(), list->end());
  }
  for (Ref r : operands) inexact |= r.value >= 0 && s.inexact[static_cast<size_t>(r.value)];

  Step step{s.random.choose(family.ops), *args, 0, family.kind == Kind::inexact};
  const size_t before = s.values.size();
  try {
    run_step(step, s.values);
  } catch (const std::exception&) {  // eager refuses it: not a program
    if (writes(step)) return run_again(s);
    s.values.resize(before);
    return;
  }
  bool fine = s.values.size() - before <= 4;
  for (size_t i = before; i < s.values.size(); ++i)
    fine &= s.values[i].defined() && s.values[i].numel() <= kMaxElements;
  if (!fine) {
    s.values.resize(before);
    return;
  }
  if (!inputs_keep_requires_grad(s)) return run_again(s);
  inexact |= step.inexact;
  for (size_t i = before; i < s.values.size(); ++i)
    s.inexact.push_back(inexact && (at::isFloatingType(s.values[i].scalar_type()) || family.kind != Kind::exact));
  if (step.n_outs == 0 && inexact)  // a write: every value that shares the memory
    for (size_t i = 0; i < s.values.size(); ++i)
      if (shares_storage(s.values[i], s.at(operands[0]))) s.inexact[i] = true;
  s.program.steps.push_back(std::move(step));
}

void choose_results(State& s) {
  const auto n_inputs = s.program.inputs.size();
  std::vector<bool> used(s.values.size(), false);
  for (const Step& step : s.program.steps)
    for (const Arg& arg : step.args)
      if (const auto* r = std::get_if<Ref>(&arg))
        if (r->value >= 0) used[static_cast<size_t>(r->value)] = true;
  for (size_t i = s.values.size(); i-- > n_inputs && s.program.results.size() < 6;)
    if (!used[i] || s.random.chance(0.15)) s.program.results.push_back(static_cast<int>(i));
  if (s.random.chance(0.1))
    s.program.results.push_back(static_cast<int>(s.random.integer(0, static_cast<int64_t>(n_inputs) - 1)));
}

}  // namespace

bool well_conditioned(const Program& p) {
  try {
    const Outcome clean = run_eager(p, Variant::capture);
    run_eager(p, Variant::other);
    for (uint64_t seed : {1u, 2u}) {
      const Outcome noisy = run_eager(p, Variant::capture, {4, seed});
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
    s.program.inputs = random_inputs(s.random);
    s.values = make_inputs(s.program, Variant::capture);
    s.inexact.assign(s.values.size(), false);
    const int64_t wanted = s.random.integer(3, 9);
    for (int tries = 0; tries < 60 && static_cast<int64_t>(s.program.steps.size()) < wanted; ++tries) try_step(s);
    choose_results(s);
    if (s.program.steps.size() < 2 || s.program.results.empty()) continue;
    s.program.backward = s.random.chance(0.6);
    if (s.program.backward && !well_conditioned(s.program)) s.program.backward = false;
    if (well_conditioned(s.program)) return s.program;
  }
}

}  // namespace precast::fuzz
