// Errors that precast throws at its users. Wrong options are std::invalid_argument.
#pragma once
#include <stdexcept>

namespace precast {

/// Capture, lowering, load or a call broke the contract; the message names the thing, what was
/// expected, what was found, and what to do. Nothing has been written or changed when it is thrown.
struct PrecompileError : std::runtime_error {
  using std::runtime_error::runtime_error;
};

/// Asked for something that is planned and not there yet.
struct NotImplementedError : PrecompileError {
  using PrecompileError::PrecompileError;
};

}  // namespace precast
