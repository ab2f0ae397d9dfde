// A host for tests: records failures, allocates, and computes graphs with a function.
#pragma once
#include <cstdlib>
#include <deque>
#include <functional>
#include <string>
#include <vector>

#include "precast/artifact_abi.h"

struct FakeHost {
  precast_host host{};
  std::string message;
  int allocations = 0, fail_allocation = -1;
  std::function<int(int index, void* const* in, void** out)> op;
  std::vector<precast_i64> symbols;  // of the last op, so many as there are

  std::deque<std::vector<char>> blocks;

  FakeHost() {
    host.abi_version = PRECAST_ABI_VERSION;
    host.struct_size = sizeof(precast_host);
    host.context = this;
    host.num_threads = 1;
    host.fail = [](void* c, int, const char* m) { static_cast<FakeHost*>(c)->message = m; };
    host.allocate = [](void* c, precast_tensor* t) {
      auto& self = *static_cast<FakeHost*>(c);
      if (self.allocations++ == self.fail_allocation) return 1;
      size_t n = 16;
      for (int d = 0; d < t->ndim; ++d) n *= static_cast<size_t>(t->sizes[d]) + 1;
      t->data = self.blocks.emplace_back(n).data();
      return 0;
    };
    host.parallel_for = [](void*, precast_i64 n, precast_i64, void (*fn)(void*, precast_i64, precast_i64), void* arg) {
      fn(arg, 0, n);
    };
    host.host_op = [](void* c, int index, const precast_i64* symbols, void* const* in, void** out) {
      auto& self = *static_cast<FakeHost*>(c);
      std::copy_n(symbols, self.symbols.size(), self.symbols.begin());
      return self.op ? self.op(index, in, out) : 1;
    };
  }
  FakeHost(const FakeHost&) = delete;
};
