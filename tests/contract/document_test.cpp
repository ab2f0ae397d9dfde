// docs/programming-model.md names each check, its clause and its test. Refresh its table with
//   PRECAST_REFRESH=1 bin/test_contract
#include <doctest/doctest.h>

#include <cctype>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <set>
#include <sstream>
#include <string>

#include "contract/checks.h"

namespace {

using precast::contract::Check;

const std::string kDocument = std::string(PRECAST_SOURCES) + "/docs/programming-model.md";
const std::string kBegin = "<!-- table -->\n", kEnd = "<!-- end of table -->";

std::string read(const std::string& path) {
  std::ifstream file(path);
  REQUIRE_MESSAGE(file, path);
  std::stringstream all;
  all << file.rdbuf();
  return all.str();
}

std::string lower(std::string text) {
  for (char& c : text) c = static_cast<char>(std::tolower(c));
  return text;
}

std::string table() {
  std::string rows = "| clause | refused | check | test |\n| --- | --- | --- | --- |\n";
  std::string document = read(kDocument);
  std::istringstream lines(document);
  for (std::string line; std::getline(lines, line);) {
    if (!line.starts_with("## ")) continue;
    const std::string clause = line.substr(3);
    for (const auto& [list, prefix] :
         {std::pair{precast::contract::checks(), ""}, std::pair{precast::contract::driver_checks(), "driver: "}})
      for (const Check& c : list)
        if (clause == c.clause)
          rows += "| " + clause + " | " + c.refuses + " | `" + prefix + lower(c.name) + "` | " + c.program + ": " +
                  c.test + " |\n";
  }
  return rows;
}

}  // namespace

TEST_CASE("each check stands in the document, under a clause that is there") {
  std::string document = read(kDocument);
  for (const auto& list : {precast::contract::checks(), precast::contract::driver_checks()})
    for (const Check& c : list)
      CHECK_MESSAGE(document.find("\n## " + std::string(c.clause) + "\n") != document.npos, c.name << ": " << c.clause);
  const size_t begin = document.find(kBegin), end = document.find(kEnd);
  REQUIRE(begin != document.npos);
  REQUIRE(end != document.npos);
  const size_t from = begin + kBegin.size();
  const bool same = document.substr(from, end - from) == table();
  if (!same && std::getenv("PRECAST_REFRESH")) {
    document.replace(from, end - from, table());
    std::ofstream(kDocument) << document;
    return;
  }
  CHECK_MESSAGE(same, "the table of docs/programming-model.md is stale: PRECAST_REFRESH=1 bin/test_contract");
}

TEST_CASE("the tests that guard the checks are there") {
  std::map<std::string, std::string> sources;
  for (const auto& list : {precast::contract::checks(), precast::contract::driver_checks()})
    for (const Check& c : list) {
      std::string& text = sources[c.program];
      if (text.empty())
        for (const auto& file :
             std::filesystem::directory_iterator(std::string(PRECAST_SOURCES) + "/tests/" + c.program))
          if (file.path().extension() == ".cpp") text += read(file.path());
      CHECK_MESSAGE(text.find("TEST_CASE(\"" + std::string(c.test) + "\"") != text.npos, c.program << ": " << c.test);
    }
}
