// The internal kind of error; the public kinds are in include/precast/error.h.
// An InternalError is a fault of precast itself: it says where and asks for a report.
#pragma once
#include <stdexcept>
#include <string>

#include "precast/error.h"

namespace precast {

struct InternalError : std::logic_error {
  explicit InternalError(const std::string& what);
};

/// A function that the user gave for a backend broke its contract.
struct BackendError : PrecompileError {
  using PrecompileError::PrecompileError;
};

/// Throws InternalError("file:line: message ... please report").
[[noreturn]] void internal_error(const char* file, int line, const std::string& message);

}  // namespace precast

#define PRECAST_CHECK(cond, message)                                       \
  do {                                                                     \
    if (!(cond)) ::precast::internal_error(__FILE__, __LINE__, (message)); \
  } while (0)
