#include "runtime/threads.h"

#include <doctest/doctest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <thread>
#include <vector>

using namespace precast::runtime;

namespace {

// How often each index was visited.
std::vector<int> visits(precast_i64 count, precast_i64 grain) {
  std::vector<std::atomic<int>> seen(static_cast<size_t>(count));
  parallel_for(
      count, grain,
      [](void* arg, precast_i64 begin, precast_i64 end) {
        auto& all = *static_cast<std::vector<std::atomic<int>>*>(arg);
        for (precast_i64 i = begin; i < end; ++i) ++all[static_cast<size_t>(i)];
      },
      &seen);
  return {seen.begin(), seen.end()};
}

}  // namespace

TEST_CASE("each index is visited once, whatever count and grain") {
  for (const precast_i64 count : {0, 1, 2, 3, 7, 64, 1000})
    for (const precast_i64 grain : {0, 1, 2, 100, 5000})
      CHECK(visits(count, grain) == std::vector<int>(static_cast<size_t>(count), 1));
}

TEST_CASE("a piece is not smaller than the grain, and nested or concurrent loops finish") {
  parallel_for(100, 60, [](void*, precast_i64 begin, precast_i64 end) { CHECK(end - begin >= 50); }, nullptr);
  std::atomic<int> sum{0};
  parallel_for(
      8, 1,
      [](void* arg, precast_i64 begin, precast_i64 end) {
        for (precast_i64 i = begin; i < end; ++i)
          parallel_for(
              10, 1,
              [](void* inner, precast_i64 b, precast_i64 e) {
                *static_cast<std::atomic<int>*>(inner) += static_cast<int>(e - b);
              },
              arg);
      },
      &sum);
  CHECK(sum == 80);

  std::vector<std::thread> callers;
  std::atomic<int> wrong{0};
  for (int t = 0; t < 3; ++t)
    callers.emplace_back([&] {
      for (int i = 0; i < 200; ++i) wrong += visits(50, 1) != std::vector<int>(50, 1);
    });
  for (auto& c : callers) c.join();
  CHECK(wrong == 0);
}

TEST_CASE("threads that went to sleep wake up") {
  for (int i = 0; i < 5; ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
    CHECK(visits(100, 1) == std::vector<int>(100, 1));
  }
}

TEST_CASE("a forked child makes its own threads") {
  visits(100, 1);
  const pid_t child = ::fork();
  if (child == 0) ::_exit(visits(100, 1) == std::vector<int>(100, 1) ? 7 : 1);
  int status = 0;
  ::waitpid(child, &status, 0);
  CHECK(WEXITSTATUS(status) == 7);
}
