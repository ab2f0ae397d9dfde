// What an exception says, without LibTorch's stack of calls.
#pragma once
#include <c10/util/Exception.h>

#include <string>

namespace precast::host_torch {

inline std::string error_text(const std::exception& e) {
  const auto* torch = dynamic_cast<const c10::Error*>(&e);
  return torch ? torch->what_without_backtrace() : e.what();
}

}  // namespace precast::host_torch
