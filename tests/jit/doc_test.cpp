// The example in docs/compile.md, taken from there when the build is configured.
#define main()      \
  compile_unused(); \
  void compile_main()
#include "compile_example.inc"
#undef main

#include <doctest/doctest.h>

#include <sstream>

TEST_CASE("the example of docs/compile.md runs, and its loop is compiled once") {
  std::ostringstream out;
  auto* const before = std::cout.rdbuf(out.rdbuf());
  compile_main();
  std::cout.rdbuf(before);
  CHECK(out.str().find("1 variant, 0 recompiles, 0 eager calls") != std::string::npos);
  CHECK(out.str().find("forward and backward") != std::string::npos);
}
