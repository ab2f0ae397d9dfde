// precast build: the text of an artifact to a shared object.
#include <CLI/CLI.hpp>
#include <iostream>
#include <memory>

#include "artifact/compose.h"
#include "artifact/toolchain.h"
#include "cli/commands.h"
#include "cli/values.h"
#include "io/file.h"
#include "precast/error.h"

namespace precast::cli {
namespace {

constexpr const char* kAbout =
    "Compiles OUT.cpp to a shared object. The text includes no header and needs no library, so this is the same as\n"
    "`g++ -O2 -shared -fPIC OUT.cpp -o OUT.so`, but compiles its parts in parallel and checks that it is an artifact.";

constexpr const char* kExample =
    "Example:\n"
    "  precast build model.cpp -o model.so\n"
    "  CXX=clang++ precast build model.cpp -o model.so\n"
    "\n"
    "The compiler is $CXX, else c++, g++ or clang++ in PATH.\n"
    "\n"
    "Next: link model.so into a program, or dlopen it; its one function is the artifact's symbol (precast_model), its\n"
    "types are in <precast/artifact_abi.h>, and <precast/runtime.h> (precast_link) runs it.\n"
    "With CMake: precast_add_artifact(target model.cpp).";

struct Options {
  std::string artifact, out;
  std::vector<std::string> flags;
};

void run(const Options& o) {
  const io::MappedFile file = io::map_file(o.artifact);
  const std::string_view code(reinterpret_cast<const char*>(file.bytes.data()), file.bytes.size());
  const artifact::Text text = artifact::read_artifact_text(code, o.artifact);
  if (text.metadata.signature.backend == "eager")
    throw PrecompileError(o.artifact +
                          " was captured with backend \"eager\": it holds a graph and no kernels to compile; "
                          "capture it with --backend inductor");
  const std::vector<std::byte> object = artifact::compile_artifact(code, o.flags, o.artifact);
  io::write_file(o.out, {object});
  std::cout << "wrote " << o.out << ": exports " << text.metadata.symbol << "()\n";
}

}  // namespace

void add_build(CLI::App& program) {
  auto o = std::make_shared<Options>();
  CLI::App* command = program.add_subcommand("build", "compile an artifact's text to a shared object");
  command->description(command->get_description() + "\n\n" + kAbout + "\n");
  command->footer(kExample);
  command->add_option("artifact", o->artifact, "text of the artifact")->required()->type_name("OUT.cpp")->check(kNamed);
  command->add_option("-o,--out", o->out, "shared object to write")->required()->type_name("OUT.so")->check(kNewFile);
  command->add_option("--flag", o->flags, "pass this flag to the compiler (repeat): --flag=-g")
      ->type_name("FLAG")
      ->allow_extra_args(false);
  command->callback([o] { run(*o); });
}

}  // namespace precast::cli
