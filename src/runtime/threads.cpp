#include "runtime/threads.h"

#include <pthread.h>

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <cstdlib>
#include <mutex>
#include <thread>

namespace precast::runtime {
namespace {

using Body = void (*)(void*, precast_i64, precast_i64);

int threads_wanted() {
  if (const char* text = std::getenv("PRECAST_NUM_THREADS"))
    if (const int n = std::atoi(text); n > 0) return std::min(n, 1024);
  return static_cast<int>(std::max(1u, std::thread::hardware_concurrency()));
}

void pause() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#else
  std::this_thread::yield();
#endif
}

// Spins for some microseconds, since kernels follow each other closely; says whether the condition came true.
template <class Condition>
bool spin_until(const Condition& condition) {
  for (int i = 0; i < 2000; ++i) {
    if (condition()) return true;
    pause();
  }
  return false;
}

class Pool {
 public:
  explicit Pool(int n) {
    for (int i = 1; i < n; ++i) std::thread([this, i] { serve(i); }).detach();
    size_ = n;
  }

  int size() const { return size_; }

  void run(int pieces, precast_i64 count, Body fn, void* arg) {
    count_ = count, fn_ = fn, arg_ = arg, pieces_ = pieces;
    pending_.store(size_ - 1, std::memory_order_relaxed);
    {
      std::lock_guard lock(mutex_);
      generation_.fetch_add(1, std::memory_order_release);
    }
    wake_.notify_all();
    piece(0);
    const auto done = [this] { return pending_.load(std::memory_order_acquire) == 0; };
    if (spin_until(done)) return;
    std::unique_lock lock(mutex_);
    finished_.wait(lock, done);
  }

  std::mutex in_use;  // one job at a time

 private:
  void piece(int i) const {
    if (i >= pieces_) return;
    fn_(arg_, count_ * i / pieces_, count_ * (i + 1) / pieces_);
  }

  void serve(int index) {
    for (unsigned seen = 0;;) {
      const auto has_job = [&] { return generation_.load(std::memory_order_acquire) != seen; };
      if (!spin_until(has_job)) {
        std::unique_lock lock(mutex_);
        wake_.wait(lock, has_job);
      }
      ++seen;
      piece(index);
      if (pending_.fetch_sub(1, std::memory_order_acq_rel) == 1) {
        std::lock_guard lock(mutex_);
        finished_.notify_one();
      }
    }
  }

  int size_ = 1, pieces_ = 0;
  precast_i64 count_ = 0;
  Body fn_ = nullptr;
  void* arg_ = nullptr;
  std::atomic<unsigned> generation_{0};
  std::atomic<int> pending_{0};
  std::mutex mutex_;
  std::condition_variable wake_, finished_;
};

std::atomic<Pool*> the_pool{nullptr};
thread_local bool inside = false;

// Never destroyed: its threads sleep until the process ends. A forked child has none of them and makes its own.
Pool& pool() {
  if (Pool* made = the_pool.load(std::memory_order_acquire)) return *made;
  static std::mutex making;
  std::lock_guard lock(making);
  if (the_pool.load() == nullptr) {
    static const int registered = ::pthread_atfork(nullptr, nullptr, [] { the_pool.store(nullptr); });
    (void)registered;
    the_pool.store(new Pool(threads_wanted()), std::memory_order_release);
  }
  return *the_pool.load();
}

}  // namespace

int num_threads() { return pool().size(); }

void parallel_for(precast_i64 count, precast_i64 grain, Body fn, void* arg) {
  if (count <= 0) return;
  const precast_i64 most = (count + std::max<precast_i64>(grain, 1) - 1) / std::max<precast_i64>(grain, 1);
  if (most > 1 && !inside) {
    Pool& workers = pool();
    const int pieces = static_cast<int>(std::min<precast_i64>(most, workers.size()));
    std::unique_lock only(workers.in_use, std::try_to_lock);
    if (pieces > 1 && only.owns_lock()) {
      const auto flagged = [](void* job, precast_i64 begin, precast_i64 end) {
        const auto* body = static_cast<std::pair<Body, void*>*>(job);
        inside = true;
        body->first(body->second, begin, end);
        inside = false;
      };
      std::pair<Body, void*> job(fn, arg);
      return workers.run(pieces, count, flagged, &job);
    }
  }
  fn(arg, 0, count);
}

}  // namespace precast::runtime
