#include "util/checks.h"

#include <cstdlib>
#include <cstring>

#include "precast/error.h"

namespace precast {

#ifdef PRECAST_MUTATION

namespace {
/// PRECAST_MUTATE is "check 12" or "driver 3"; -1 if another kind is off.
int switched_off(const char* kind) {
  const char* text = std::getenv("PRECAST_MUTATE");
  const size_t n = std::strlen(kind);
  return text && std::strncmp(text, kind, n) == 0 ? std::atoi(text + n) : -1;
}
}  // namespace

bool is_on(Check c) {
  static const int off = switched_off("check ");
  return static_cast<int>(c) != off;
}

extern "C" __attribute__((visibility("default"))) int precast_check_is_on(int check) {
  static const int off = switched_off("driver ");
  return check != off;
}

#else
bool is_on(Check) { return true; }
#endif

void refuse(Check c, const std::string& message) {
  if (is_on(c)) throw PrecompileError(message);
}

}  // namespace precast
