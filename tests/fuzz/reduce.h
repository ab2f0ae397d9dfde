// A smaller version of a program: which steps and results are left. It prints and parses, so that another process can
// try it, and a person can replay it.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "program.h"

namespace precast::fuzz {

struct Reduction {
  uint64_t seed = 0;
  std::vector<bool> steps;    // kept
  std::vector<bool> results;  // kept
  bool backward = false;
};

/// Everything kept.
Reduction whole(const Program&);
/// "1234" is all of program 1234, "1234:1101:01:b" a part of it.
std::string print(const Reduction&);
/// Generates the program and takes the part. Throws std::invalid_argument for text that names none.
Program parse_program(const std::string& text);

/// The part of `p`, renumbered; nothing when a kept step or result needs one that is not kept.
std::optional<Program> apply(const Program& p, const Reduction&);

/// Tries to leave out steps and results one by one, as long as `fails` says that the rest still fails.
template <class Fails>
Reduction shrink(const Program& p, Fails&& fails) {
  Reduction best = whole(p);
  const auto attempt = [&](auto&& change) {
    Reduction smaller = best;
    change(smaller);
    if (!apply(p, smaller) || !fails(smaller)) return;
    best = smaller;
  };
  if (p.backward) attempt([](Reduction& r) { r.backward = false; });
  for (bool again = true; again;) {
    const std::string before = print(best);
    for (size_t i = 0; i < best.results.size(); ++i)
      if (best.results[i]) attempt([&](Reduction& r) { r.results[i] = false; });
    for (size_t i = best.steps.size(); i-- > 0;)
      if (best.steps[i]) attempt([&](Reduction& r) { r.steps[i] = false; });
    again = print(best) != before;
  }
  return best;
}

}  // namespace precast::fuzz
