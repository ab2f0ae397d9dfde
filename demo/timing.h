// How long two functions take, side by side.
#pragma once
#include <functional>

namespace precast::demo {

struct Times {
  double first_us, second_us;
};
/// Medians of interleaved calls; a second or so at most.
Times time_calls(const std::function<void()>& first, const std::function<void()>& second);

}  // namespace precast::demo
