// A program over ATen ops as data: a list of steps that can be run, shrunk, and printed as C++.
// Every step is a call through the dispatcher with the op's schema, so an op needs no code here.
#pragma once
#include <ATen/core/Tensor.h>

#include <cstdint>
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

/// Values are numbered: the inputs first, then the tensors each step returns (a list counts one by one). A step that
/// writes its first operand (name ends in '_') returns none.
struct Step {
  std::string op;  // "aten::add.Tensor"
  std::vector<Arg> args;
  int n_outs = 1;
  bool inexact = false;  // eager's last bits are not the only right ones
};

enum class Layout { contiguous, transposed, sliced };
enum class Role { user, parameter, buffer };
enum class Variant {
  capture,
  other,
  nasty
};  // which values: those of the capture, others, or NaN, inf, zeros, bad indices

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

struct Program {
  std::vector<Input> inputs;
  std::vector<Step> steps;
  std::vector<int> results;  // values returned
  bool backward = false;     // of the sum of the floating point results
  uint64_t seed = 0;
};

/// The program's inputs as fresh tensors; parameters require grad when they can.
std::vector<at::Tensor> make_inputs(const Program&, Variant);

/// Relative noise put on the result of every inexact step: shows how much its last bits matter at the end.
struct Noise {
  double epsilons = 0;
  uint64_t seed = 0;
};

/// Runs steps and backward. Returns all values; throws what ATen throws.
std::vector<at::Tensor> run_steps(const Program&, std::vector<at::Tensor> inputs, const Noise& = {});
std::vector<at::Tensor> pick_results(const Program&, const std::vector<at::Tensor>& values);

/// Whether a step writes its first operand.
bool writes(const Step&);
/// One step on the values so far; appends what it returns and sets n_outs.
void run_step(Step&, std::vector<at::Tensor>& values);

/// How many values a program has after its first `n_steps` steps.
int count_values(const Program&, size_t n_steps);

/// The program as C++: inputs, steps, and a main() that captures it, calls the loaded artifact and prints differences.
std::string print_cpp(const Program&, Variant, const std::string& backend, const std::string& reason);

/// One step a line, for people: "v5 = aten::add.Tensor(v1, v3)".
std::string print_steps(const Program&);

}  // namespace precast::fuzz
