// The .grad slots of parameters during a call. Each gets a stand-in that holds what the caller's
// gradient holds, but that the graph does not know: only adding to it or overwriting it is allowed.
// So accumulation and replacement (zero_grad inside fn) can be told apart.
#pragma once
#include <memory>
#include <vector>

#include "trace/gradient_watch.h"
#include "trace/inputs.h"

namespace precast::trace {

class Gradients {
 public:
  struct Slot {
    int source = 0;
    at::Tensor tensor;              // the parameter
    at::Tensor callers;             // its .grad before the call; may be undefined
    at::Tensor stand_in;            // in the slot during the call; undefined where no gradient can come
    StorageState* state = nullptr;  // the stand-in's
    int64_t version = 0;            // of the stand-in at the start
    bool touched() const { return state && state->value != ir::kNoValue; }
    bool emptied() const { return state && state->emptied; }
    /// By what was not recorded, too.
    bool written() const { return touched() || (state && version_now() != version); }
    int64_t version_now() const { return stand_in.is_inference() ? 0 : stand_in._version(); }
    /// Whether this .grad is the stand-in's memory as it was: the very tensor, or what detach() makes of it.
    bool is_in_place(const at::Tensor& now) const;
    int shares_with = -1;  // an input that lies in the memory of `callers`
  };

  Gradients(const Inputs&, StorageTable&);
  ~Gradients() { restore(); }
  Gradients(const Gradients&) = delete;
  Gradients& operator=(const Gradients&) = delete;

  const std::vector<Slot>& slots() const { return slots_; }
  /// Refuses gradients of buffers and user tensors, which have no place in the artifact.
  void check_others() const;
  /// Until the watch dies, fn gets the true answer where it asks for a gradient that is not there: its stand-in goes.
  std::unique_ptr<const GradientWatch> watch();
  /// The recording has failed, and the call goes on with the caller's own gradients; what fn holds of the stand-ins is
  /// on their memory from now on.
  void give_back();
  /// After the op that was refused: slots that nothing has touched are empty if they were.
  void give_up();
  /// Gives the caller's own .grad exactly what eager would have.
  void commit();
  /// Puts every .grad back as it was.
  void restore();

 private:
  std::vector<Slot> slots_;
  std::vector<std::pair<const Source*, at::Tensor>> others_;  // buffers and user tensors with their .grad
  bool done_ = false, given_up_ = false;
};

}  // namespace precast::trace
