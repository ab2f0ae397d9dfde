// Which ops draw random numbers.
#pragma once
#include <ATen/core/dispatch/Dispatcher.h>

#include <algorithm>

namespace precast::host_torch {

inline bool is_random(const c10::OperatorHandle& op) {
  return op.hasTag(at::Tag::nondeterministic_seeded) || std::ranges::any_of(op.schema().arguments(), [](auto& a) {
           return a.type()->kind() == c10::TypeKind::GeneratorType;
         });
}

}  // namespace precast::host_torch
