// The registry of checks, in words: the clause each one guards (docs/programming-model.md) and the test that goes red
// without it. A check without a row does not compile.
#pragma once
#include <span>

namespace precast::contract {

struct Check {
  int number;           // of Check in util/checks.h, or of precast_check in the driver
  const char* name;     // as there
  const char* clause;   // a heading of docs/programming-model.md
  const char* refuses;  // what
  const char* program;  // the test program, without "test_"
  const char* test;     // its test case
};

std::span<const Check> checks();         // Check
std::span<const Check> driver_checks();  // precast_check

}  // namespace precast::contract
