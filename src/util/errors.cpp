#include "util/errors.h"

namespace precast {

InternalError::InternalError(const std::string& what) : std::logic_error(what) {}

void internal_error(const char* file, int line, const std::string& message) {
  throw InternalError("precast internal error at " + std::string(file) + ":" + std::to_string(line) + ": " + message +
                      ". This is a fault of precast; please report it with the program that shows it.");
}

}  // namespace precast
