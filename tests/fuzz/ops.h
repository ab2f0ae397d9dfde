// What the generator draws from: families of ops whose arguments are made alike. An op of a known family is one word.
// Each table is a file: ops_pointwise.cpp, ops_write.cpp, ops_view.cpp, ...
#pragma once
#include <algorithm>
#include <optional>

#include "program.h"
#include "random.h"

namespace precast::fuzz {

template <class Pred>
bool fits_with_another_dtype(Pred pred, const at::Tensor& t) {
  for (const at::ScalarType dtype : {at::kFloat, at::kLong, at::kBool, at::kComplexFloat}) {
    const at::Tensor as = at::empty_strided(t.sizes(), t.strides(), at::TensorOptions().dtype(dtype).device(at::kMeta));
    if (at::isFloatingType(dtype)) as.set_requires_grad(t.requires_grad());
    if (pred(as)) return true;
  }
  return false;
}

/// A program under construction, with the values it has so far (computed by eager).
struct State {
  Random random;
  Program program;
  std::vector<at::Tensor> values;
  std::vector<bool> inexact;  // per value: its last bits may differ between two right implementations

  /// A random value that satisfies `pred`, or None; later values are likelier. Inexact ones only if `allow_inexact`.
  template <class Pred>
  Ref pick(Pred pred) {
    std::vector<int> found;
    for (size_t i = 0; i < values.size(); ++i)
      if ((allow_inexact || !inexact[i]) && values[i].defined() &&
          (pred(values[i]) || (any_dtype && fits_with_another_dtype(pred, values[i]))))
        found.push_back(static_cast<int>(i));
    if (found.empty()) return {};
    if (random.chance(0.5))
      return {
          found[found.size() - 1 -
                static_cast<size_t>(random.integer(0, std::min<int64_t>(2, static_cast<int64_t>(found.size()) - 1)))]};
    return {random.choose(found)};
  }
  const at::Tensor& at(Ref r) const { return values[static_cast<size_t>(r.value)]; }
  bool allow_inexact = true;
  bool any_dtype = false;  // only the geometry of operands counts: eager has the last word
};

enum class Kind {
  exact,         // one right answer (rounded to nearest, or no rounding at all)
  inexact,       // order of summation, or a maths function: last bits may differ
  discontinuous  // exact, but jumps: takes exact operands only
};

/// Inputs made to fit certain ops, which are then drawn more often.
enum class Theme { none, matrix, batched, image, attention, rows, table, cell };

using Args = std::optional<std::vector<Arg>>;

struct Family {
  const char* name;
  Kind kind;
  int weight;
  std::vector<const char*> ops;
  /// Arguments for one of `ops`, or nothing when the values so far do not suit.
  Args (*make)(State&);
  Theme theme = Theme::none;
};

std::vector<Family> pointwise_families();
std::vector<Family> write_families();
std::vector<Family> view_families();
std::vector<Family> join_families();
std::vector<Family> reduction_families();
std::vector<Family> index_families();
std::vector<Family> matrix_families();
std::vector<Family> network_families();
std::vector<Family> complex_families();

const std::vector<Family>& families();

}  // namespace precast::fuzz
