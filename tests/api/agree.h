// Runs a program in eager, captures it, loads the pair and calls it, through the public interface and in both
// backends: results, effects, gradients, layouts, object identities and random numbers must be eager's.
#pragma once
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "api/support.h"

namespace precast::testing {

using at::Tensor;
using Tensors = std::vector<Tensor>;

/// What a program works on; made anew for each run from a seeded generator.
struct World {
  std::shared_ptr<torch::nn::Module> module = std::make_shared<torch::nn::Module>();
  Tensors in;
  template <class M>
  M& as() const {
    return *std::static_pointer_cast<M>(module);
  }
};

struct Program {
  std::string name;
  std::function<World()> make;
  std::function<Tensors(torch::nn::Module&, const Tensors&)> fn;
  bool exact = true;                    // the eager backend gives the same bits
  bool kernels = true;                  // through the compiler too
  bool halves = false;                  // computes in a half type in between: kernels may round a value the other way
  std::function<World()> other_make{};  // of the second run, if not `make`
};

/// On tensors alone.
Program on(std::string name, std::function<Tensors()> in, std::function<Tensors(const Tensors&)> fn);
/// On a module made by `make` (a holder).
template <class Holder, class Make, class Fn>
Program with(std::string name, Make make, std::function<Tensors()> in, Fn fn) {
  using M = typename Holder::ContainedType;
  return {std::move(name),
          [make, in] {
            Holder holder = make();
            return World{holder.ptr(), in()};
          },
          [fn](torch::nn::Module& m, const Tensors& x) -> Tensors { return fn(static_cast<M&>(m), x); }};
}

/// Checks that capture and artifact do what eager does; reports through doctest.
void agree(const Program&);
void agree_all(const std::vector<Program>&);

/// The message with which a capture is refused; checks that nothing has changed.
std::string refused(const Program&);
/// Captures, then calls the artifact on `other`: the message of its refusal, which changed nothing.
std::string call_refused(const Program&, const char* backend, const std::function<World()>& other);

}  // namespace precast::testing
