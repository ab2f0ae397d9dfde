// precast capture: a TorchScript file and its inputs to a pair of files.
#include <CLI/CLI.hpp>
#include <cstdio>
#include <iostream>
#include <memory>
#include <stdexcept>

#include "cli/commands.h"
#include "cli/inputs.h"
#include "cli/plugin.h"
#include "cli/report.h"
#include "cli/target.h"
#include "cli/values.h"

namespace precast::cli {
namespace {

constexpr const char* kAbout =
    "Runs MODEL.pt once on the given inputs, records every operation, checks the recording by replaying it, and\n"
    "compiles it. Writes OUT.cpp (readable source) and OUT.cache (its compiled form). Weights stay outside.";

constexpr const char* kExample =
    "\n\nExample:\n"
    "  precast capture model.pt --input 'f32[1,3,224,224]' -o resnet\n"
    "  precast capture model.pt --input 'f32[4,3,224,224]' --open 0:0:1..64 -o resnet    any batch of 1 to 64\n"
    "  precast capture vad.jit --submodule _model --input 'f32[1,576]' --input 'f32[2,1,128]:zeros' -o vad\n"
    "\n"
    "The inputs fix number, dtype and sizes of the arguments; their values do not matter unless the model branches on\n"
    "them. --open leaves a size open: one pair serves every value of it.\n"
    "\n"
    "Next: precast info OUT.cpp                        what was compiled, what was not, and why\n"
    "      precast check MODEL.pt OUT.cpp OUT.cache    compare with the model on fresh inputs\n"
    "In C++: precast::load({\"OUT.cpp\", \"OUT.cache\"}) and call it with the model.";

struct Options {
  Target target;
  std::vector<std::string> inputs, open_sizes, isa = {"native", "baseline"};
  std::string out, backend = "inductor", symbol = "precast_model";
  uint64_t seed = 0;
  bool no_verify = false;
};

/// "0:1", "0:1:2..64": input, dim, bounds.
precast_open_size open_size(const std::string& text) {
  precast_open_size open{0, 0, 0, -1};
  int end = 0;
  const auto whole = [&](int fields, int wanted) {
    return fields == wanted && text.size() == static_cast<size_t>(end);
  };
  long long min = 0, max = -1;
  if (!whole(std::sscanf(text.c_str(), "%d:%d%n", &open.input, &open.dim, &end), 2) &&
      !whole(std::sscanf(text.c_str(), "%d:%d:%lld..%lld%n", &open.input, &open.dim, &min, &max, &end), 4) &&
      !whole(std::sscanf(text.c_str(), "%d:%d:%lld..%n", &open.input, &open.dim, &min, &end), 3))
    throw std::invalid_argument("--open " + text + ": expected INPUT:DIM or INPUT:DIM:MIN..MAX, as in 0:0:1..64");
  open.min = min, open.max = max;
  return open;
}

void run(const Options& o) {
  const auto inputs = parse_inputs(o.inputs, o.seed);
  const auto leaves = to_leaves(inputs);
  std::string base = o.out;
  for (const std::string_view ending : {".cpp", ".cache"})
    if (base.ends_with(ending)) base.resize(base.size() - ending.size());
  const std::string artifact = base + ".cpp", cache = base + ".cache";
  std::vector<const char*> isa;
  for (const std::string& name : o.isa) isa.push_back(name.c_str());

  precast_capture_request request{};
  request.callable = o.target.callable();
  request.inputs = leaves.data();
  request.n_inputs = static_cast<precast_i32>(leaves.size());
  std::vector<precast_open_size> open_sizes;
  for (const std::string& text : o.open_sizes) open_sizes.push_back(open_size(text));
  request.open_sizes = open_sizes.data();
  request.n_open_sizes = static_cast<precast_i32>(open_sizes.size());
  request.backend = o.backend.c_str();
  request.symbol = o.symbol.c_str();
  request.isa = isa.data();
  request.n_isa = static_cast<precast_i32>(isa.size());
  request.verify = !o.no_verify;
  request.artifact_path = artifact.c_str();
  request.cache_path = cache.c_str();
  const precast_plugin& plugin = torch_plugin("capturing a model");
  check_plugin(plugin, plugin.capture(&request));

  const Pair pair = read_pair(artifact, cache);
  std::cout << "wrote " << artifact << " and " << cache << "\n"
            << verdict(pair) << "\nnext: precast info " << artifact << "\n";
}

}  // namespace

void add_capture(CLI::App& program) {
  auto o = std::make_shared<Options>();
  CLI::App* command = program.add_subcommand("capture", "record a TorchScript model and compile it to a pair of files");
  command->description(command->get_description() + "\n\n" + kAbout + "\n");
  command->footer(kInputHelp + std::string(kExample));
  o->target.add_options(*command, true);
  command->add_option("--input", o->inputs, "one argument of the method (repeat); see below")
      ->type_name("INPUT")
      ->allow_extra_args(false);
  command->add_option("--open", o->open_sizes, "a size of an input that is left open (repeat): input, dim and bounds")
      ->type_name("I:D[:A..B]")
      ->allow_extra_args(false);
  command->add_option("-o,--out", o->out, "name of the pair: OUT.cpp and OUT.cache")
      ->required()
      ->type_name("OUT")
      ->check(kNewFile);
  command
      ->add_option("--backend", o->backend,
                   "inductor: compile kernels (default); eager: keep the graph, run it op by op")
      ->type_name("NAME");
  command
      ->add_option("--isa", o->isa,
                   "instruction sets to compile for: native, avx512, avx2, baseline (default: native baseline)")
      ->type_name("NAMES")
      ->delimiter(',')
      ->allow_extra_args(false);
  command->add_option("--symbol", o->symbol, "name of the exported function (default: precast_model)")
      ->type_name("NAME");
  command->add_option("--seed", o->seed, "seed of the generated inputs (default: 0)")->type_name("N");
  command->add_flag("--no-verify", o->no_verify, "do not replay the recording before writing");
  command->callback([o] { run(*o); });
}

}  // namespace precast::cli
