// Several processes that capture the same thing together: one captures and lowers, the others receive the pair.
#pragma once
#include <chrono>
#include <functional>
#include <string>

namespace precast {

/// Who this process is among them, and how they reach each other: any store of keys that all of them see
/// (precast/one_rank.h makes this of a c10d::Store). Rank 0 captures.
struct Ranks {
  int rank = 0;
  int size = 1;
  /// How long to wait for the others' arguments, and for rank 0's capture and lowering.
  std::chrono::milliseconds timeout = std::chrono::minutes(5);
  /// Where the store keeps it; captures of one key are told apart by their order in the process.
  std::string key = "precast";
  std::function<void(const std::string& key, const std::string& value)> set{};
  /// Waits until the key is there. Throws any std::exception when it is not in time.
  std::function<std::string(const std::string& key, std::chrono::milliseconds)> get{};
};

}  // namespace precast
