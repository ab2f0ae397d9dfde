#include <sstream>

#include "precast/options.h"

namespace precast {

namespace {

std::map<std::string, int> count_types(const std::vector<PrecompileSummary::Slot>& slots) {
  std::map<std::string, int> counts;
  for (const auto& slot : slots) ++counts[slot.first];
  return counts;
}

void append(std::ostream& out, const char* what, const std::vector<std::string>& names) {
  constexpr size_t kShown = 5;
  if (names.empty()) return;
  out << "; " << names.size() << ' ' << what << " (";
  for (size_t i = 0; i < std::min(names.size(), kShown); ++i) out << (i ? ", " : "") << names[i];
  if (names.size() > kShown) out << ", +" << names.size() - kShown << " more";
  out << ')';
}

}  // namespace

bool PrecompileSummary::complete() const {
  return bypassed.empty() && truncated.empty() && uncovered_frames.empty() && capture_errors.empty() &&
         guarded_codes > 0 && backend_graphs > 0;
}

std::map<std::string, int> PrecompileSummary::dropped_guard_types() const { return count_types(dropped_guards); }
std::map<std::string, int> PrecompileSummary::kept_guard_types() const { return count_types(kept_guards); }

std::string to_string(const PrecompileSummary& s) {
  std::ostringstream out;
  out << "precompile capture: " << (s.truncated.empty() ? "" : ">=") << s.frames << " frames, " << s.resume_functions
      << " resume functions, " << s.guarded_codes << " guarded codes, " << s.backend_graphs << " backend graphs";
  append(out, "bypassed", s.bypassed);
  append(out, "truncated", s.truncated);
  append(out, "uncovered", s.uncovered_frames);
  append(out, "will not generalize", s.wont_generalize);
  if (!s.dropped_guards.empty()) {
    out << "; dropped guards:";
    for (const auto& [type, count] : s.dropped_guard_types()) out << ' ' << type << " x" << count;
    out << " (" << s.kept_guards.size() << " kept)";
  }
  if (!s.capture_errors.empty())
    out << "; error: " << s.capture_errors.front().substr(0, s.capture_errors.front().find('\n'));
  return out.str();
}

}  // namespace precast
