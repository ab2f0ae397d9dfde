#include "jit/log.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <mutex>
#include <string>
#include <vector>

#include "util/warn.h"

namespace precast::jit {

namespace {

constexpr std::string_view kTopics[] = {"recompiles", "guards", "dynamic", "graph", "code", "fusion", "perf_hints"};

std::vector<std::string> asked_topics() {
  const char* const asked = std::getenv("PRECAST_LOGS");
  std::vector<std::string> topics;
  for (std::string_view rest = asked ? asked : ""; !rest.empty();) {
    const size_t comma = std::min(rest.find(','), rest.size());
    topics.emplace_back(rest.substr(0, comma));
    rest.remove_prefix(std::min(comma + 1, rest.size()));
  }
  return topics;
}

void check_once() {
  static std::once_flag checked;
  std::call_once(checked, [] {
    std::string list;
    for (const std::string_view t : kTopics) list += (list.empty() ? "" : ", ") + std::string(t);
    for (const std::string& t : asked_topics())
      if (!t.empty() && std::ranges::find(kTopics, t) == std::end(kTopics))
        warn("compile: PRECAST_LOGS names '" + t + "', which is no topic; there are " + list);
  });
}

}  // namespace

bool logs(std::string_view topic) {
  const std::vector<std::string> asked = asked_topics();
  if (!asked.empty()) check_once();
  return std::ranges::find(asked, topic) != asked.end();
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
