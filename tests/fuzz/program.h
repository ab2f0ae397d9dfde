// A program over ATen ops as data: a list of steps that can be run, shrunk, and printed as C++.
// Every step is a call through the dispatcher with the op's schema, so an op needs no code here.
#pragma once
#include <ATen/core/Tensor.h>

#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

namespace precast::fuzz {

struct Ref {
  int value = -1;  // index into the values of the program; -1 is None
  bool operator==(const Ref&) const = default;
};
/// monostate is None.
using Arg = std::variant<std::monostate, Ref, std::vector<Ref>, bool, int64_t, double, std::vector<int64_t>,
                         at::ScalarType, std::string>;

/// Values are numbered: the inputs first, then the tensors each step returns (a list counts one by one). A step in
/// place or into out= returns none.
struct Step {
  std::string op;  // "aten::add.Tensor"
  std::vector<Arg> args;
  int n_outs = 1;
  bool inexact = false;  // eager's last bits are not the only right ones
};

enum class Layout { contiguous, transposed, sliced, expanded, channels_last };
enum class Role { user, parameter, buffer };
/// Which values: those of the capture, others, or ones with a NaN, infinity, zero, huge number or bad index each.
/// The tame ones are the nasty ones with indices and integers that are harmless.
enum class Variant { capture, other, nasty, tame, tame_too };

/// Values follow a formula of element number and seed, so that a program prints without its data.
struct Input {
  at::ScalarType dtype = at::kFloat;
  std::vector<int64_t> sizes;
  Layout layout = Layout::contiguous;
  Role role = Role::user;
  int64_t index_below = 0;  // > 0: an integer tensor that indexes a dimension of this size
  int alias_of = -1;        // a view of an earlier input: its first row's worth of memory
  uint64_t seed = 0;
};

/// A dim of an input that is marked before the capture; those of one group have one size.
struct OpenDim {
  size_t input = 0;
  int64_t dim = 0;
  int group = 0;
  bool shape_id = false;  // said in the mark; else the recording has to find out
};

struct Program {
  std::vector<Input> inputs;
  std::vector<OpenDim> open;  // for a capture of this program alone
  std::vector<Step> steps;
  std::vector<int> results;   // values returned
  bool backward = false;      // of the sum of the floating point results
  std::vector<bool> inexact;  // per value: eager's last bits are not the only right ones
  uint64_t seed = 0;
  std::string why_not;  // there are no steps: what stood in the way
};

/// The program's inputs as fresh tensors; parameters require grad when they can.
std::vector<at::Tensor> make_inputs(const Program&, Variant);
/// The same with a variant of its own for each.
std::vector<at::Tensor> make_inputs(const Program&, const std::vector<Variant>&);

/// Relative noise put on what every inexact step returns or writes: shows how much its last bits matter at the end.
/// Where eager has two ways to compute the same and they disagree, the other one is taken.
struct Noise {
  double epsilons = 0;
  uint64_t seed = 0;
};

/// Another tensor in the place of an input, for one step only.
struct Swap {
  size_t step = 0, input = 0;
  at::Tensor tensor;
};

/// Runs steps and backward. Returns all values; throws what ATen throws.
std::vector<at::Tensor> run_steps(const Program&, std::vector<at::Tensor> inputs, const Noise& = {}, const Swap& = {});
/// The step that throws, if one does.
std::optional<size_t> throwing_step(const Program&, std::vector<at::Tensor> inputs);
std::vector<at::Tensor> pick_results(const Program&, const std::vector<at::Tensor>& values);

/// Whether a step is in place or into out=, and returns nothing.
bool writes(const Step&);
/// The operands that a step writes; running statistics are among them.
std::vector<Ref> written(const Step&);
std::vector<Ref> operands(const Step&);
/// One step on the values so far; appends what it returns and sets n_outs.
void run_step(Step&, std::vector<at::Tensor>& values);

/// How many values a program has after its first `n_steps` steps.
int count_values(const Program&, size_t n_steps);

/// The program as C++: inputs, steps, and a main() that captures it, calls the loaded artifact and prints differences.
/// With open sizes, if given: captured with marks, called at these.
std::string print_cpp(const Program&, Variant, const std::string& backend, const std::string& reason,
                      const std::vector<int64_t>& open_sizes = {});

/// One step a line, for people: "v5 = aten::add.Tensor(v1, v3)".
std::string print_steps(const Program&);

}  // namespace precast::fuzz
