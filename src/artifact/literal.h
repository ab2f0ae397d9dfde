// Raw string literals in the text of an artifact: any bytes go in, the same bytes are read back.
#pragma once
#include <optional>
#include <string>
#include <string_view>

namespace precast::artifact {

/// A sequence of literals that a C++ compiler joins to exactly `bytes`; readable where the bytes are.
std::string raw_literal(std::string_view bytes);
/// Reads what raw_literal() wrote at the start of `text`; nothing if it is not that.
std::optional<std::string> read_raw_literal(std::string_view text);

}  // namespace precast::artifact
