#include "artifact/literal.h"

#include "artifact/tables.h"

namespace precast::artifact {
namespace {

constexpr std::string_view kOpen = "R\"text(", kClose = ")text\"";

// Bytes that cannot stand in a raw literal as they are: control characters and carriage returns may be changed by
// the compiler's input phase, and a '#' that begins a line looks like a directive in a skipped group.
bool is_plain(std::string_view bytes, size_t i) {
  const auto c = static_cast<unsigned char>(bytes[i]);
  if (c == '#') {
    size_t k = i;
    while (k > 0 && (bytes[k - 1] == ' ' || bytes[k - 1] == '\t')) --k;
    return k > 0 && bytes[k - 1] != '\n';
  }
  if (bytes.substr(i, kClose.size()) == kClose) return false;
  return c == '\n' || c == '\t' || (c >= 0x20 && c < 0x7f);
}

}  // namespace

std::string raw_literal(std::string_view bytes) {
  std::string text;
  for (size_t i = 0; i < bytes.size() || text.empty();) {
    size_t end = i;
    while (end < bytes.size() && is_plain(bytes, end)) ++end;
    if (end > i || bytes.empty())
      text +=
          (text.empty() ? "" : "\n") + std::string(kOpen) + std::string(bytes.substr(i, end - i)) + std::string(kClose);
    i = end;
    while (end < bytes.size() && !is_plain(bytes, end)) ++end;
    if (end > i) text += (text.empty() ? "" : "\n") + quote(bytes.substr(i, end - i));
    i = end;
  }
  return text;
}

std::optional<std::string> read_raw_literal(std::string_view text) {
  std::string bytes;
  for (bool any = false;; any = true) {
    while (!text.empty() && text[0] == '\n') text.remove_prefix(1);
    if (text.starts_with(kOpen)) {
      text.remove_prefix(kOpen.size());
      const size_t end = text.find(kClose);
      if (end == text.npos) return std::nullopt;
      bytes += text.substr(0, end);
      text.remove_prefix(end + kClose.size());
    } else if (text.starts_with("\"")) {
      text.remove_prefix(1);
      while (!text.empty() && text[0] != '"') {
        if (text[0] != '\\') {
          bytes += text[0];
          text.remove_prefix(1);
        } else if (text.size() >= 4 && text[1] >= '0' && text[1] <= '7') {
          bytes += static_cast<char>((text[1] - '0') * 64 + (text[2] - '0') * 8 + (text[3] - '0'));
          text.remove_prefix(4);
        } else {
          if (text.size() < 2) return std::nullopt;
          bytes += text[1];
          text.remove_prefix(2);
        }
      }
      if (text.empty()) return std::nullopt;
      text.remove_prefix(1);
    } else {
      return any ? std::optional(bytes) : std::nullopt;
    }
  }
}

}  // namespace precast::artifact
