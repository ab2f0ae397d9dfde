#include "util/warn.h"

#include <cstdio>
#include <mutex>
#include <utility>

namespace precast {
namespace {

std::mutex mutex;
WarningSink& sink() {
  static WarningSink instance;
  return instance;
}

}  // namespace

void warn(std::string_view message) {
  WarningSink current;
  {
    std::lock_guard lock(mutex);
    current = sink();
  }
  if (current) return current(message);
  std::fprintf(stderr, "precast: %.*s\n", static_cast<int>(message.size()), message.data());
}

WarningSink set_warning_sink(WarningSink replacement) {
  std::lock_guard lock(mutex);
  return std::exchange(sink(), std::move(replacement));
}

}  // namespace precast
