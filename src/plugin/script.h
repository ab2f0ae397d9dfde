// A method of a TorchScript file, and the way of arguments and results between it and precast's public core.
#pragma once
#include <torch/csrc/jit/api/module.h>

#include <deque>
#include <string>
#include <vector>

#include "plugin/plugin_abi.h"
#include "precast/detail/leaf.h"
#include "util/errors.h"

namespace precast::plugin {

class Script {
 public:
  /// Loads the file onto the CPU and finds submodule and method. Throws PrecompileError that says what there is
  /// instead.
  explicit Script(const precast_callable&);

  torch::jit::Module& module() { return module_; }
  /// An independent copy: its tensors are its own.
  torch::jit::Module copy() const;
  /// Runs the method on a module of this kind, without gradients and without TorchScript's optimizer.
  c10::IValue run(torch::jit::Module module, const std::vector<c10::IValue>& inputs) const;
  /// Checks number and types of the arguments and adds the method's defaults. Throws PrecompileError.
  std::vector<c10::IValue> complete(std::vector<c10::IValue> inputs) const;

 private:
  std::string file_, submodule_, method_;
  torch::jit::Module whole_, module_;
};

/// TorchScript's message without its stack of calls, which comes before the reason.
std::string model_failure(const std::string& message);

/// Runs `f`; an error that is the model's own becomes a PrecompileError that says so in a line.
template <class F>
auto in_model(F&& f) {
  try {
    return f();
  } catch (const PrecompileError&) {
    throw;
  } catch (const InternalError&) {
    throw;
  } catch (const std::exception& e) {
    throw PrecompileError(model_failure(e.what()));
  }
}

/// Tensors get memory of their own.
std::vector<c10::IValue> to_ivalues(const precast_leaf* leaves, int n);

/// A value of TorchScript as leaves and a structure string.
struct Flat {
  detail::Leaves leaves;
  std::string spec;
  std::deque<at::Tensor> tensors;  // what the leaves point to
  std::deque<std::string> strings;

  /// Throws PrecompileError for what is no tensor, number, string, list, tuple or string-keyed dict; `where` names it.
  void add(const c10::IValue&, const std::string& where);
};

/// Module 0 and its arguments, as the core of precast.h takes them; points into `flat`.
detail::Arguments arguments_of(const torch::jit::Module& module, const Flat& flat, int n_user);
Flat flatten_arguments(const std::vector<c10::IValue>& inputs);

}  // namespace precast::plugin
