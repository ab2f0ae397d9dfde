// The text of precast_run and precast_prepare: calls of kernels and of host ops, in order. Rounds of equal calls become
// a loop.
#pragma once
#include <string>
#include <vector>

#include "ir/size.h"

namespace precast::emit {

/// `memory`, or its entry `slot` where that is not negative, and bytes from there on.
struct Address {
  std::string memory;  // "f->in", "f->arena + at0"
  int slot = -1;
  ir::Size offset{};
};

struct Call {
  int function = -1;  // equal numbers are one kernel; -1: a host op
  std::string name;   // of the kernel
  std::vector<Address> pointers;
  bool can_fail = false, reads_sizes = false;
  int host_op = -1;
  std::vector<int> host_results;  // slots
};

/// The statements. They use the frame `f`, its `host`, and `fault` where a call can fail.
std::string run_text(const std::vector<Call>&);

/// Defines precast_report(host, fault): the message of a kernel that failed.
std::string_view report_text();

}  // namespace precast::emit
