// Whether what was computed is what eager computes: within the bounds of its dtype, or as close to float64 as eager is.
#pragma once
#include <ATen/core/Tensor.h>

#include <functional>
#include <string>
#include <utility>
#include <vector>

namespace precast::demo {

using Named = std::vector<std::pair<std::string, at::Tensor>>;

/// Where many layers amplify rounding, eager differs from itself by more than the bounds, with another number of
/// threads for one: which rectifiers open in one computation only is luck. `exact` is the value in float64, and
/// `allowed` twice what eager is off by in its worst tensor, as a fraction of the norm.
struct Spread {
  at::Tensor exact;
  double allowed = 0;
};

/// Runs `f` with another number of LibTorch's threads.
void with_other_threads(const std::function<void()>& f);

struct Comparison {
  std::string why;        // the first tensor that differs, and how; empty while all are equal
  double difference = 0;  // largest |a - b| so far

  bool equal() const { return why.empty(); }
  void fail(const std::string& reason) {
    if (why.empty()) why = reason;
  }

  void compare(const std::string& name, const at::Tensor& eager, const at::Tensor& ours, const Spread& = {});
  void compare(const std::string& name, const std::vector<at::Tensor>& eager, const std::vector<at::Tensor>& ours);
  void compare(const Named& eager, const Named& ours);
  /// `other` is eager with another number of threads, `exact` eager in float64.
  void compare(const Named& eager, const Named& ours, const Named& other, const Named& exact);
};

}  // namespace precast::demo
