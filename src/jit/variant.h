// One way in which a function has been compiled: for which calls, what became of it, and how often it ran.
#pragma once
#include <atomic>
#include <future>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "jit/guards.h"
#include "jit/model.h"
#include "jit/program.h"

namespace precast::jit {

using ProgramPtr = std::shared_ptr<const Program>;

/// What a call brings, looked at once.
struct Seen {
  const detail::Arguments& arguments;
  std::span<const std::byte> closure;
  Ambient ambient;
  Tensors tensors;   // all sources
  size_t bound = 0;  // of them, parameters and buffers
  ModelPtr model;
};

struct Variant {
  Variant(const Seen&, const OpenDims&);

  Guards guards;
  std::vector<char> requires_grad;                // of parameters and buffers
  std::vector<trace::FoundGradient> found_grads;  // of them, those that fn has asked for
  ModelPtr model;                                 // as it was
  std::optional<MemberBytes> members;
  OpenDims open;
  std::string made_because;                // of what guard
  std::string eager;                       // why calls with these guards run eagerly; empty: they are compiled
  std::shared_future<ProgramPtr> program;  // not valid: no call could be recorded
  std::vector<std::string> conditions;
  bool reads_reals = false;  // a condition is a real number: few calls have the same
  std::atomic<int64_t> hits = 0;
  std::atomic<bool> runs_eagerly = false;  // `eager` is set, for good
  /// Nothing has been compared with eager so far. Shared with the thread that compiles.
  std::shared_ptr<std::atomic<bool>> unchecked = std::make_shared<std::atomic<bool>>(false);
  std::mutex checking;  // held by the call that compares

  bool holds(const Seen&) const;
  /// "argument 0: expected f32[2,3], found f32[2,4]"; empty where they hold.
  std::string first_failure(const Seen&, size_t* held = nullptr) const;
  void give_up(std::string why);
  bool is_ready() const { return program.wait_for(std::chrono::seconds(0)) == std::future_status::ready; }
  /// Throws PrecompileError where the call's model is of another structure.
  void check_model(const Program&, const Seen&);
  /// What became of it, a line each.
  std::string in_words() const;

 private:
  std::vector<ModelPtr> fitting_;  // models that fit
  std::mutex fitting_mutex_;
  std::atomic<const Model*> fits_ = nullptr;  // the last of them that came
};
using VariantPtr = std::shared_ptr<Variant>;

/// What lowering made of it, a line each.
std::string in_words(const Program&);

/// "1 call", "2 calls"
std::string count(size_t n, const std::string& what);

}  // namespace precast::jit
