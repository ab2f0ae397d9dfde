// How long something takes; two functions side by side.
#pragma once
#include <chrono>
#include <functional>

namespace precast::demo {

using Clock = std::chrono::steady_clock;
inline double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

struct Times {
  double first_us, second_us;
};
/// Medians of interleaved calls; a second or so at most.
Times time_calls(const std::function<void()>& first, const std::function<void()>& second);

}  // namespace precast::demo
