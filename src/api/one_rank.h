// compile_on_one_rank: what the ranks tell each other through their store.
#pragma once
#include <string>
#include <vector>

#include "artifact/build.h"
#include "precast/ranks.h"

namespace precast::api {

/// One capture of all ranks. Every rank says what it was called with, and all of them refuse when these differ. Then
/// rank 0 captures and delivers the pair, or the reason why there is none.
class OneRank {
 public:
  explicit OneRank(Ranks);

  bool captures() const { return ranks_.rank == 0; }
  /// Throws PrecompileError naming the rank that has not come in time, or that was called with something else.
  void agree(const std::vector<std::string>& arguments);
  void deliver(const artifact::PairBytes&);
  void deliver_failure(const std::string& reason);
  /// Throws PrecompileError when rank 0 failed, or has not delivered in time.
  artifact::PairBytes receive();

 private:
  std::string get(const std::string& key, const std::string& what) const;

  Ranks ranks_;
  std::string prefix_;
};

}  // namespace precast::api
