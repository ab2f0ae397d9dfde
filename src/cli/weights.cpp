// precast weights: a TorchScript file's tensors as .safetensors.
#include <CLI/CLI.hpp>
#include <iostream>
#include <memory>

#include "cli/commands.h"
#include "cli/plugin.h"
#include "cli/table.h"
#include "cli/target.h"
#include "cli/values.h"

namespace precast::cli {
namespace {

constexpr const char* kAbout =
    "Writes the parameters, buffers and constants of MODEL.pt to a .safetensors file, by the names that artifacts "
    "use.\n"
    "`precast run` and programs without LibTorch read it; so do the safetensors libraries of other languages.";

constexpr const char* kExample =
    "Example:\n"
    "  precast weights model.pt -o model.safetensors\n"
    "  precast weights vad.jit --submodule _model -o vad.safetensors\n"
    "\n"
    "Give the same --submodule as to `precast capture`: names are relative to it.\n"
    "\n"
    "Next: precast run OUT.cpp OUT.cache --weights W.safetensors --input x.npy -o results";

struct Options {
  Target target;
  std::string out;
};

void run(const Options& o) {
  const precast_plugin& plugin = torch_plugin("reading a TorchScript file");
  const precast_callable callable = o.target.callable();
  precast_i32 n = 0;
  check_plugin(plugin, plugin.weights(&callable, o.out.c_str(), &n));
  std::cout << "wrote " << o.out << ": " << plural(n, "tensor") << "\n";
}

}  // namespace

void add_weights(CLI::App& program) {
  auto o = std::make_shared<Options>();
  CLI::App* command = program.add_subcommand("weights", "save a TorchScript model's weights as .safetensors");
  command->description(command->get_description() + "\n\n" + kAbout + "\n");
  command->footer(kExample);
  o->target.add_options(*command, false);
  command->add_option("-o,--out", o->out, "file to write")->required()->type_name("W.safetensors")->check(kNewFile);
  command->callback([o] { run(*o); });
}

}  // namespace precast::cli
