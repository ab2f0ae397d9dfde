// Plain text for people: aligned columns, grouped digits, sizes in bytes.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

namespace precast::cli {

/// Columns two spaces apart, each as wide as its widest cell; columns named in `right` (by index) are right-aligned.
/// Every line starts with `indent` and has no blanks at its end.
std::string table(const std::vector<std::vector<std::string>>& rows, const std::vector<size_t>& right = {},
                  const std::string& indent = "  ");

std::string grouped(int64_t number);                     // "1,234,567"
std::string bytes(int64_t number);                       // "512 B", "1.2 kB", "3.4 MB" (powers of 1000)
std::string plural(int64_t n, const std::string& noun);  // "1 op", "3 ops"

}  // namespace precast::cli
