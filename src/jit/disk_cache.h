// Compiled forms kept on disk, named by the hash of all that decides them (text, compiler, flags of this version,
// target), so that a second process that compiles the same thing starts no compiler. The folder is private: what is in
// it is executed. Several processes may use it at once.
//   PRECAST_CACHE_DIR   the folder; "" switches the cache off. By custom $XDG_CACHE_HOME/precast or ~/.cache/precast
//   PRECAST_CACHE_MB    how large it may grow (1024): the entries used longest ago go first
#pragma once
#include <cstddef>
#include <functional>
#include <map>
#include <span>
#include <string>
#include <vector>

namespace precast::jit {

using Bytes = std::vector<std::byte>;

struct Cached {
  Bytes bytes;
  std::string miss;  // why there was none to read; empty: a hit
};
/// The entry `key` (hexadecimal), made by `make` where there is none. One process makes it, others wait for it. A
/// damaged entry is a miss; a folder of somebody else's is not used, with a warning.
Cached cached(const std::string& key, const std::function<Bytes()>& make);

/// Everything that `cached` has given in this process.
std::map<std::string, Bytes> used_entries();
/// Adds entries, as they are; those that are there stay. How many are new.
int add_entries(const std::map<std::string, Bytes>&);

}  // namespace precast::jit
