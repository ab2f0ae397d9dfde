// Records a small program and compares: the call with eager, the graph on the same and on new inputs
// with eager on them. Outputs, inputs, parameters, buffers, gradients, strides, aliasing, random state.
#pragma once
#include <torch/torch.h>

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "trace/recorder.h"

namespace precast::trace::testing {

using torch::Tensor;
using Tensors = std::vector<Tensor>;

/// What a program works on: module parameters and buffers, and user tensors.
struct State {
  Tensors inputs;
  std::shared_ptr<torch::nn::Module> module;
  std::shared_ptr<void> extra;  // whatever else the program needs, made from the same seed
  template <class T>
  T& as() const {
    return *std::static_pointer_cast<T>(extra);
  }
};

struct Program {
  std::string name;
  std::function<State()> make;  // from the default generator, which the harness seeds
  std::function<Tensors(State&)> fn;
  bool exact = true;  // the replay must give the same bits
};

/// A program on plain tensors of the given shapes.
Program on_tensors(std::string name, std::vector<std::vector<int64_t>> shapes,
                   std::function<Tensors(const Tensors&)> fn);
/// A module made anew for each state; user tensors come from `inputs`.
template <class Module>
Program on_module(std::string name, std::function<Module()> make, std::function<Tensors()> inputs,
                  std::function<Tensors(Module&, const Tensors&)> fn) {
  return {std::move(name),
          [make, inputs] {
            auto holder = std::make_shared<Module>(make());
            return State{inputs(), holder->ptr(), holder};
          },
          [fn](State& s) { return fn(s.as<Module>(), s.inputs); }};
}

Sources sources_of(const State&);
State state_from(const Program&, uint64_t seed);
Recording record(const Program&, State&, const Options& = {});

/// Everything checked; differences are reported through doctest with the program's name.
void check(const Program&);
void check_all(const std::vector<Program>&);

/// A program with open sizes: recorded where they are `n`, and compared with eager where they are something else.
struct OpenProgram {
  std::string name;
  std::function<State(int64_t n)> make;  // from the default generator
  std::function<void(const State&)> mark;
  std::function<Tensors(State&)> fn;
  bool exact = false;
  std::vector<int64_t> sizes = {0, 1, 2, 5, 7, 100};
  int64_t example = 4;
};
/// The recording for the sizes that this state's inputs have.
Recording at_sizes_of(const Recording&, const State&);
void check_all(const std::vector<OpenProgram>&);

/// The recording's message when it is refused; empty when it is not. Checks that nothing has changed.
std::string refusal(const Program&, const Options& = {});

}  // namespace precast::trace::testing
