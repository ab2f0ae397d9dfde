#include "artifact/compose.h"

#include <doctest/doctest.h>

#include <stdexcept>

#include "../scratch.h"
#include "artifact/isa.h"
#include "artifact/toolchain.h"
#include "ir/print.h"
#include "precast/error.h"
#include "sample.h"
#include "util/process.h"

using namespace precast;
using namespace precast::artifact;

namespace {

const std::vector<std::string> every_isa = {"avx512", "avx2", "baseline"};

std::string composed(ComposeOptions options = {}) {
  const Sample s = sample();
  return compose(s.signature, s.graph, &s.emitted, options);
}

int count(const std::string& text, const std::string& word) {
  int n = 0;
  for (size_t at = text.find(word); at != text.npos; at = text.find(word, at + 1)) ++n;
  return n;
}

// Compiles from the root folder with a relative path, as people do.
ProcessResult compile(const char* compiler, const Scratch& scratch, std::vector<std::string> flags) {
  std::vector<std::string> command = {"env", "-C", "/", compiler, "-O1", "-Wall", "-Wextra", "-Werror", "-fPIC"};
  command.insert(command.end(), flags.begin(), flags.end());
  command.push_back((scratch.path / "model.cpp").relative_path().string());
  return run_process(command);
}

}  // namespace

TEST_CASE("the same input gives the same text, and the text reads back") {
  const std::string code = composed();
  CHECK(code == composed());
  const Text text = read_artifact_text(code, "model.cpp");
  CHECK(text.metadata.signature.params[0].name == "weight");
  CHECK(text.metadata.isa.back() == "baseline");
  CHECK(text.graph == ir::print(sample().graph));
  CHECK(ir::print(ir::parse(text.graph)) == text.graph);
}

TEST_CASE("kernels stand once in the text, whatever the number of instruction sets") {
  ComposeOptions options;
  options.isa = every_isa;
  const std::string code = composed(options);
  CHECK(count(code, "y[i] = a[i] + 1;") == 1);
  CHECK(count(code, "#include PRECAST_THIS_FILE") == 3);
  CHECK(count(code, "#include") == 3);
}

TEST_CASE("wrong options are refused") {
  ComposeOptions options;
  for (const char* symbol : {"", "1a", "a-b", "a b", "a::b"}) {
    options.symbol = symbol;
    CHECK_THROWS_WITH_AS(composed(options), doctest::Contains("symbol must be a C identifier"), std::invalid_argument);
  }
  options.symbol = "ok";
  options.isa = {"avx3"};
  CHECK_THROWS_WITH_AS(composed(options), "unknown instruction set 'avx3'; choose from native, avx512, avx2, baseline",
                       std::invalid_argument);
  options.isa = {};
  CHECK_THROWS_AS(composed(options), std::invalid_argument);
}

TEST_CASE("a symbol that something else has taken is refused, others compile") {
  ComposeOptions options;
  for (const char* symbol : {"int", "main", "co_await", "memcpy", "malloc", "expf", "__x", "_Exit", "PRECAST_PART",
                             "precast_spec", "precast_load", "precast_runnable", "precast_section_avx2"}) {
    CAPTURE(symbol);
    options.symbol = symbol;
    CHECK_THROWS_WITH_AS(composed(options), doctest::Contains("choose another, such as 'precast_model'"),
                         std::invalid_argument);
  }
  for (const char* symbol : {"precast_digits", "precast_model", "model", "_x", "kernel", "call", "f32"}) {
    CAPTURE(symbol);
    options.symbol = symbol;
    CHECK_NOTHROW(compile_artifact(composed(options)));
  }
}

TEST_CASE("native is the best this processor runs, and the order is best first") {
  CHECK(resolve_isas({"baseline", "avx512"}) == std::vector<std::string>{"avx512", "baseline"});
  const auto native = resolve_isas({"native"});
  REQUIRE(native.size() == 1);
  CHECK(cpu_runs(native[0]));
  CHECK(resolve_isas({"native", "baseline"}).back() == "baseline");
  CHECK(cpu_runs("baseline"));
  CHECK(!cpu_runs("avx9000"));
}

TEST_CASE("text that is no artifact is refused by name") {
  for (const std::string& text :
       {std::string(), std::string("int main() {}"), composed().substr(0, 200), composed().substr(1)})
    CHECK_THROWS_WITH_AS(read_artifact_text(text, "x.cpp"), doctest::Contains("x.cpp is not a precast artifact"),
                         PrecompileError);
  const std::string code = composed();
  const size_t end = code.find("Interface with the host");
  for (size_t n = 0; n < end; n += 13) {
    if (n > code.find("// ---- Interface") - 20) break;
    CAPTURE(n);
    CHECK_THROWS_AS(read_artifact_text(code.substr(0, n), "x.cpp"), PrecompileError);
  }
}

TEST_CASE("plain compilers build the text from another folder, whole and in parts, without a warning") {
  const Scratch scratch;
  ComposeOptions options;
  options.isa = every_isa;
  scratch.write("model.cpp", composed(options));
  for (const char* compiler : {"g++", "clang++"}) {
    if (find_program(compiler).empty()) continue;
    CAPTURE(compiler);
    const std::string shared = (scratch.path / "model.so").string();
    ProcessResult result = compile(compiler, scratch, {"-shared", "-o", shared});
    CAPTURE(result.output);
    CHECK(result.exit_code == 0);
    const auto symbols = run_process({"nm", "-D", "--defined-only", "--format=just-symbols", shared});
    CHECK(symbols.output == "precast_model\n");  // nothing else is visible

    std::vector<std::string> link = {compiler, "-shared", "-o", shared};
    for (int part = 0; part <= 6; ++part) {
      link.push_back((scratch.path / (std::to_string(part) + ".o")).string());
      result = compile(compiler, scratch, {"-DPRECAST_PART=" + std::to_string(part), "-c", "-o", link.back()});
      CAPTURE(result.output);
      CHECK(result.exit_code == 0);
    }
    result = run_process(link);
    CAPTURE(result.output);
    CHECK(result.exit_code == 0);
    CHECK(run_process({"nm", "-D", "--defined-only", "--format=just-symbols", shared}).output == "precast_model\n");
  }
}

TEST_CASE("an artifact without kernels is a program text as well") {
  const Scratch scratch;
  Sample s = sample();
  s.signature.backend = "eager";
  scratch.write("model.cpp", compose(s.signature, s.graph, nullptr, {}));
  const ProcessResult result = compile("g++", scratch, {"-shared", "-o", (scratch.path / "m.so").string()});
  CAPTURE(result.output);
  CHECK(result.exit_code == 0);
}

TEST_CASE("names with any bytes survive in the text") {
  const Scratch scratch;
  Sample s = sample();
  const std::string name = "a\"b\\c\n#endif\n)text\" \xFF";
  s.signature.params[0].name = s.signature.slots[0].name = name;
  s.graph.values[0].name = name;
  const std::string code = compose(s.signature, s.graph, &s.emitted, {});
  const Text text = read_artifact_text(code, "model.cpp");
  CHECK(text.metadata.signature.params[0].name == name);
  CHECK(text.graph == ir::print(s.graph));
  scratch.write("model.cpp", code);
  const ProcessResult result = compile("g++", scratch, {"-fsyntax-only"});
  CAPTURE(result.output);
  CHECK(result.exit_code == 0);
}

TEST_CASE("parts are for this processor, and small texts compile as a whole") {
  const Sample s = sample();
  Metadata m = describe(s.signature, s.graph, &s.emitted);
  m.isa = {"avx2", "baseline"};
  CHECK(parts_to_compile(m).empty());
  m.kernels.resize(20);
#if defined(__x86_64__)
  CHECK(parts_to_compile(m) == std::vector<int>{0, 1, 2, 3, 4});
  m.isa = {"avx2"};
  CHECK(parts_to_compile(m) == std::vector<int>{0, 1, 2});
#else
  CHECK(parts_to_compile(m) == std::vector<int>{0, 3, 4});
#endif
}
