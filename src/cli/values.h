// What options may be given; a wrong value is wrong usage, told in a few words.
#pragma once
#include <CLI/CLI.hpp>
#include <cstdlib>
#include <filesystem>
#include <string>

namespace precast::cli {

inline CLI::Validator only_if(bool (*good)(const std::string&), const char* otherwise) {
  return CLI::Validator([=](std::string& text) { return good(text) ? std::string() : std::string(otherwise); }, "");
}

/// A file or a folder.
inline const CLI::Validator kNamed =
    only_if([](const std::string& text) { return !text.empty(); }, "a name is missing");

/// A file that is to be made, or the beginning of its name.
inline const CLI::Validator kNewFile = only_if(
    [](const std::string& text) {
      const auto name = std::filesystem::path(text).filename();
      return !name.empty() && name != "." && name != "..";
    },
    "a file's name is missing (a folder is no file)");

inline const CLI::Validator kFromOne =
    only_if([](const std::string& text) { return std::atoll(text.c_str()) >= 1; }, "must be a whole number from 1");

inline const CLI::Validator kNotNegative =
    only_if([](const std::string& text) { return std::strtod(text.c_str(), nullptr) >= 0; }, "must be a number from 0");

}  // namespace precast::cli
