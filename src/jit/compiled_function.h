// The variants of one callable: which of them serves a call, when another one is made, and what became of all.
#pragma once
#include <atomic>
#include <memory>
#include <mutex>
#include <shared_mutex>
#include <string>
#include <vector>

#include "jit/options.h"
#include "jit/variant.h"
#include "precast/detail/compile_core.h"

namespace precast::detail {

class CompiledFunction {
 public:
  CompiledFunction(std::string name, jit::Settings);

  bool call(const Arguments&, std::span<const std::byte> closure, const EagerCall&, CompiledResult&);
  std::string explain() const;
  void reset();
  /// Until all that is being compiled is done.
  void wait() const;
  /// A call whose arguments have no form here.
  void call_unseen(const EagerCall&, const std::string& why);

 private:
  static constexpr size_t kRealConditions = 4;  // variants that differ in a real number which was read
  using Seen = jit::Seen;
  using VariantPtr = jit::VariantPtr;

  VariantPtr look(Seen&);
  VariantPtr find(const Seen&, std::span<const VariantPtr> refused) const;
  VariantPtr search(const Seen&, std::span<const VariantPtr> refused) const;  // with the lock of the list
  bool run(const VariantPtr&, const Seen&, const EagerCall&, CompiledResult&, std::string& refusal);
  bool verify(jit::Variant&, const Seen&, const EagerCall&, const jit::Program&);
  void record(const Seen&, const EagerCall&, const std::string& refusal);
  static jit::Again again(const VariantPtr&, const Seen&, const EagerCall&);
  void give_up_on_reals(const Seen&, const EagerCall&);
  void note_likely(const VariantPtr&);
  void tell_eager(const std::string& why, const std::string& between = ": ");
  class OwnChanges;
  void run_eagerly(const EagerCall&);
  void run_eagerly(const Seen&, const EagerCall&);
  bool is_new(const Seen&);
  jit::OpenDims dims_to_open(const Seen&) const;

  const std::string name_;
  const jit::Settings settings_;
  jit::Models models_;
  mutable std::shared_mutex mutex_;  // of the list, and of the models
  std::mutex recording_;             // one at a time
  std::vector<VariantPtr> variants_;
  std::atomic<size_t> likely_ = 0;  // the variant that served where an earlier one's condition failed
  std::vector<jit::Guards> met_;    // of calls that ran once, before anything was recorded (async)
  bool checks_later_ = true;        // a recording may be checked when it is compiled (async)
  std::string specialized_;         // why sizes cannot be dynamic, once that is known
  std::string limit_;               // what other calls were told when there were too many variants
  std::atomic<int64_t> eager_calls_ = 0;
  std::atomic<bool> warned_ = false;
};

}  // namespace precast::detail
