#include "jit/log.h"

#include <cstdio>
#include <cstdlib>

namespace precast::jit {

bool logs(std::string_view topic) {
  const char* const asked = std::getenv("PRECAST_LOGS");
  for (std::string_view rest = asked ? asked : ""; !rest.empty();) {
    const size_t comma = std::min(rest.find(','), rest.size());
    if (rest.substr(0, comma) == topic) return true;
    rest.remove_prefix(std::min(comma + 1, rest.size()));
  }
  return false;
}

void log(std::string_view topic, std::string_view text) {
  if (!logs(topic)) return;
  for (std::string_view rest = text; !rest.empty();) {
    const size_t end = std::min(rest.find('\n'), rest.size());
    std::fprintf(stderr, "precast [%.*s] %.*s\n", static_cast<int>(topic.size()), topic.data(), static_cast<int>(end),
                 rest.data());
    rest.remove_prefix(std::min(end + 1, rest.size()));
  }
}

}  // namespace precast::jit
