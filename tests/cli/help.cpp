// The help texts, word for word, and wrong usage: exit code 2, one line that says what is wrong, and where help is.
#include <doctest/doctest.h>

#include <cstdlib>
#include <fstream>

#include "child.h"
#include "scratch.h"

namespace {

const std::vector<std::string> kCommands = {"capture", "info", "check", "weights", "run", "build"};

bool has(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

}  // namespace

TEST_CASE("help: the texts are those of help.txt") {
  std::string all = precast_program({"--help"}).out;
  for (const std::string& command : kCommands)
    all += "\n==== precast " + command + " --help\n" + precast_program({command, "--help"}).out;
  if (std::getenv("PRECAST_UPDATE_HELP")) std::ofstream(PRECAST_HELP_TEXT) << all;
  std::ifstream file(PRECAST_HELP_TEXT);
  const std::string expected{std::istreambuf_iterator<char>(file), {}};
  CHECK(all == expected);  // changed on purpose: run again with PRECAST_UPDATE_HELP=1
}

TEST_CASE("help: every subcommand shows an example and what to do next") {
  for (const std::string& command : kCommands) {
    CAPTURE(command);
    const Output o = precast_program({command, "--help"});
    CHECK(o.code == 0);
    CHECK(has(o.out.substr(o.out.find("Example:")), "\n  precast " + command + " "));
    CHECK(has(o.out, "Next: "));
    CHECK(o.err.empty());
  }
  CHECK(precast_program({"--version"}).out == "precast " PRECAST_VERSION "\n");
}

TEST_CASE("usage: what is wrong is said in a line, with exit code 2") {
  const struct {
    std::vector<std::string> args;
    std::string message;
  } cases[] = {
      {{}, "precast: A subcommand is required"},
      {{"compile"}, "precast: there is no subcommand 'compile'"},
      {{"capture"}, "precast capture: model is required"},
      {{"capture", "m.pt"}, "precast capture: --out is required"},
      {{"capture", "m.pt", "-o", "x", "--colour", "red"}, "precast capture: The following arguments were not expected"},
      {{"capture", "m.pt", "-o", "x", "--input", "float[3]"}, "precast capture: input 'float[3]': 'float' is no dtype"},
      {{"capture", "m.pt", "-o", "x", "--input", "f32[3]:rand"}, "'rand' is no fill for f32"},
      {{"info"}, "precast info: artifact is required"},
      {{"info", "x.cpp", "--json", "--graph"}, "excludes"},
      {{"check", "m.pt", "x.cpp"}, "precast check: cache is required"},
      {{"check", "m.pt", "x.cpp", "x.cache", "--rounds", "0"}, "--rounds"},
      {{"run", "x.cpp", "x.cache"}, "precast run: --out is required"},
      {{"build", "x.cpp"}, "precast build: --out is required"},
  };
  for (const auto& c : cases) {
    const Output o = precast_program(c.args);
    CAPTURE(o.err);
    CHECK(o.code == 2);
    CHECK(o.out.empty());
    CHECK(has(o.err, c.message));
  }
}
