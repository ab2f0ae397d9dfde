// make mutate: switches each check of the contract off, one at a time, and runs the test that guards it, which must go
// red. Needs a build with PRECAST_MUTATION.
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <string>

#include "contract/checks.h"
#include "util/process.h"

namespace {

using precast::contract::Check;

bool passes(const Check& c) {
  static const auto folder = std::filesystem::canonical("/proc/self/exe").parent_path();
  std::string name = c.test;
  for (char& letter : name)
    if (letter == ',') letter = '?';  // a comma ends a filter
  return precast::run_process({folder / (std::string("test_") + c.program), "--test-case=" + name}).exit_code == 0;
}

int survivors = 0, done = 0;

void try_without(const char* kind, const Check& c, size_t of) {
  ::setenv("PRECAST_MUTATE", (kind + std::to_string(c.number)).c_str(), 1);
  const bool survived = passes(c);
  ::unsetenv("PRECAST_MUTATE");
  survivors += survived;
  std::printf("%3d/%zu %-8s %-26s %-8s %s\n", ++done, of, survived ? "SURVIVED" : "red", c.name, c.program, c.test);
  std::fflush(stdout);
}

}  // namespace

int main() {
  // Artifacts are compiled with the switch, too.
  const char* compiler = std::getenv("CXX");
  ::setenv("CXX", (std::string(compiler ? compiler : "g++") + " -DPRECAST_MUTATION").c_str(), 1);
  const auto checks = precast::contract::checks(), driver = precast::contract::driver_checks();
  std::map<std::string, const Check*> tests;
  for (const auto& list : {checks, driver})
    for (const Check& c : list) tests.emplace(std::string(c.program) + c.test, &c);
  for (const auto& [name, c] : tests)
    if (!passes(*c)) {
      std::fprintf(stderr, "mutate: test_%s \"%s\" fails with all checks on\n", c->program, c->test);
      return 1;
    }
  std::printf("%zu tests are green with all checks on\n", tests.size());
  for (const Check& c : checks) try_without("check ", c, checks.size() + driver.size());
  for (const Check& c : driver) try_without("driver ", c, checks.size() + driver.size());
  std::printf("%d of %d checks are guarded by a test\n", done - survivors, done);
  return survivors != 0;
}
