// What the libFuzzer targets share: input may be accepted, or refused with one of precast's errors. Anything else is a
// finding.
#pragma once
#include <cstddef>
#include <cstdint>
#include <stdexcept>
#include <string>

#include "precast/error.h"
#include "util/errors.h"

template <class Parse>
int refused_or_accepted(const uint8_t* data, size_t size, const Parse& parse) {
  try {
    parse(std::string(reinterpret_cast<const char*>(data), size));
  } catch (const precast::PrecompileError&) {
  } catch (const std::invalid_argument&) {
  }
  return 0;
}
