#include "artifact/literal.h"

#include <doctest/doctest.h>

#include <string>

#include "../scratch.h"
#include "artifact/tables.h"
#include "util/process.h"

using namespace precast::artifact;

namespace {

const std::string nasty[] = {
    "",
    "plain",
    "\n#endif\n  # else\n#\n",
    ")text\"",
    ")text\")text\"",
    "R\"text(",
    "a\r\nb\rc",
    std::string("nul \0 end", 9),
    "\x01\x7f\x80\xff utf8 caf\xC3\xA9",
    "?"
    "?=?"
    "?/\n",
    "\\n \\u0041 \\\n",
    "/* // \" ' ",
    "\"",
    "tab\tend",
    "123\x01"
    "23",
};

}  // namespace

TEST_CASE("raw literals hold any bytes and are read back") {
  for (const std::string& bytes : nasty) {
    CAPTURE(bytes);
    const std::string literal = raw_literal(bytes);
    CHECK(read_raw_literal(literal + ";\n") == bytes);
    for (size_t n = 0; n < literal.size(); ++n)
      CHECK(read_raw_literal(literal.substr(0, n)).value_or("") != bytes + "x");
  }
  std::string all;
  for (int c = 0; c < 256; ++c) all += static_cast<char>(c);
  CHECK(read_raw_literal(raw_literal(all)) == all);
  CHECK(!read_raw_literal("static"));
  CHECK(!read_raw_literal("R\"text(never closed"));
}

TEST_CASE("compilers read raw literals as the same bytes, in skipped groups too") {
  const Scratch scratch;
  std::string text = "#if 0\n";
  for (const std::string& bytes : nasty) text += raw_literal(bytes) + "\n";
  text += "#else\n";
  for (const std::string& bytes : nasty) {
    text += "static_assert(sizeof(" + raw_literal(bytes) + ") == " + std::to_string(bytes.size() + 1) + ");\n";
    for (size_t i = 0; i < bytes.size(); ++i)
      text += "static_assert((" + raw_literal(bytes) + ")[" + std::to_string(i) + "] == static_cast<char>(" +
              std::to_string(static_cast<int>(bytes[i])) + "));\n";
  }
  scratch.write("a.cpp", text + "#endif\n");
  for (const char* compiler : {"g++", "clang++"}) {
    if (precast::find_program(compiler).empty()) continue;
    const auto result = precast::run_process(
        {compiler, "-std=c++17", "-Wall", "-Wextra", "-Werror", "-fsyntax-only", (scratch.path / "a.cpp").string()});
    CAPTURE(result.output);
    CHECK(result.exit_code == 0);
  }
}
