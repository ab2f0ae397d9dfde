// Composite ops that read their operands' values on the host, to check or convert them. Recorded as they are, what they
// saw would become a condition of every later call, or the read itself a refusal; so they run in another way that
// reads nothing and gives the same.
#pragma once
#include <ATen/core/dispatch/Dispatcher.h>

namespace precast::trace {

/// Takes these ops over above autograd, once a process; where nothing is recorded they run as ever.
void register_host_readers();
/// Replaces the arguments on the stack by the result; false when `op` is none of them.
bool run_without_reading(const c10::OperatorHandle& op, torch::jit::Stack&);

}  // namespace precast::trace
