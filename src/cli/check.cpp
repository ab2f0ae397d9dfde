// precast check: an artifact against the model it came from.
#include <CLI/CLI.hpp>
#include <cmath>
#include <cstdio>
#include <iostream>
#include <memory>

#include "artifact/compose.h"
#include "cli/commands.h"
#include "cli/inputs.h"
#include "cli/plugin.h"
#include "cli/report.h"
#include "cli/sizes.h"
#include "cli/table.h"
#include "cli/target.h"
#include "cli/values.h"
#include "precast/error.h"

namespace precast::cli {
namespace {

constexpr const char* kAbout =
    "Runs MODEL.pt and the pair on the same inputs, in this process, which is not the one that captured it, and "
    "compares\n"
    "every output, and every input and buffer that the call may write.";

constexpr const char* kExample =
    "\n\nExample:\n"
    "  precast check model.pt out.cpp out.cache\n"
    "  precast check vad.jit vad.cpp vad.cache --submodule _model --seed 7 --rounds 10\n"
    "\n"
    "Without --input, inputs are made from the artifact's metadata: normal numbers for floats, zeros for integers and\n"
    "bools; sizes that may vary are those of the capture, then others. Give --submodule, --method and --train as at\n"
    "capture.\n"
    "\n"
    "Next: precast run OUT.cpp OUT.cache --weights W.safetensors --input x.npy -o results";

struct Options {
  Target target;
  std::string artifact, cache;
  std::vector<std::string> inputs;
  uint64_t seed = 1;
  int rounds = 3;
  double relative = 1e-4, absolute = 1e-5;
};

// Inputs as the artifact's metadata describes them, as text for parse_inputs.
std::vector<std::string> expected_inputs(const artifact::Metadata& m, int round) {
  std::vector<std::string> texts;
  for (artifact::UserLeaf leaf : m.signature.leaves) {
    leaf.tensor.type = at_sizes(leaf.tensor.type, sizes_of_round(m, round));
    texts.push_back(input_text(leaf));
  }
  return texts;
}

std::string joined(const std::vector<std::string>& texts) {
  std::string all;
  for (const std::string& text : texts) all += (all.empty() ? "" : ", ") + text;
  return all.empty() ? "none" : all;
}

std::string number(double x) {
  char text[32];
  std::snprintf(text, sizeof text, "%.3g", x);
  return text;
}

struct Row {
  std::string what, type, why;
  double difference = 0;
  bool equal = true;
};

void merge(std::vector<Row>& rows, size_t& at, const precast_check_row& r) {
  if (at == rows.size()) rows.push_back({r.what, r.type, "", 0, true});
  Row& row = rows[at++];
  row.difference = std::max(row.difference, r.difference);
  if (!r.equal && row.equal) row.why = r.why;
  row.equal &= r.equal != 0;
}

void run(const Options& o) {
  const Pair pair = read_pair(o.artifact, o.cache);
  const precast_plugin& plugin = torch_plugin("comparing with eager");
  std::vector<Row> rows;
  for (int round = 0; round < o.rounds; ++round) {
    const auto texts = o.inputs.empty() ? expected_inputs(pair.text.metadata, round) : o.inputs;
    const auto inputs = parse_inputs(texts, o.seed + 1000u * static_cast<unsigned>(round));
    const auto leaves = to_leaves(inputs);
    precast_check_request request{};
    request.callable = o.target.callable();
    request.inputs = leaves.data();
    request.n_inputs = static_cast<precast_i32>(leaves.size());
    request.artifact_path = o.artifact.c_str();
    request.cache_path = o.cache.c_str();
    request.relative = o.relative;
    request.absolute = o.absolute;
    struct Context {
      std::vector<Row>& rows;
      size_t at = 0;
    } context{rows};
    const int code = plugin.check(
        &request,
        [](void* c, const precast_check_row* row) {
          auto& context = *static_cast<Context*>(c);
          merge(context.rows, context.at, *row);
        },
        &context);
    if (code == 1 && o.inputs.empty())
      throw PrecompileError(plugin.last_error() + std::string("\nThe inputs were made from the metadata (") +
                            joined(texts) + "); --input gives others, such as those of the capture.");
    check_plugin(plugin, code);
  }
  std::vector<std::vector<std::string>> lines = {{"compared", "type", "largest difference", ""}};
  int wrong = 0;
  for (const Row& row : rows) {
    lines.push_back({row.what, row.type, number(row.difference), row.equal ? "ok" : "DIFFERS: " + row.why});
    wrong += !row.equal;
  }
  std::cout << table(lines, {2}, "");
  const std::string rounds = plural(o.rounds, "round") + " of inputs (seed " + std::to_string(o.seed) + ")";
  if (wrong)
    throw PrecompileError(std::to_string(wrong) + " of " + std::to_string(rows.size()) +
                          " compared tensors differ from eager over " + rounds);
  std::cout << "equal to eager over " << rounds << ": relative " << number(o.relative) << ", absolute "
            << number(o.absolute) << "\n";
}

}  // namespace

void add_check(CLI::App& program) {
  auto o = std::make_shared<Options>();
  CLI::App* command = program.add_subcommand("check", "compare an artifact with the model it came from");
  command->description(command->get_description() + "\n\n" + kAbout + "\n");
  command->footer(kInputHelp + std::string(kExample));
  o->target.add_options(*command, true);
  command->add_option("artifact", o->artifact, "text of the artifact")->required()->type_name("OUT.cpp")->check(kNamed);
  command->add_option("cache", o->cache, "its cache")->required()->type_name("OUT.cache")->check(kNamed);
  command->add_option("--input", o->inputs, "one argument of the method (repeat); see below")
      ->type_name("INPUT")
      ->allow_extra_args(false);
  command->add_option("--seed", o->seed, "seed of the generated inputs (default: 1)")->type_name("N");
  command->add_option("--rounds", o->rounds, "how many sets of inputs (default: 3)")->type_name("N")->check(kFromOne);
  command->add_option("--relative", o->relative, "relative tolerance of floats (default: 1e-4)")
      ->type_name("X")
      ->check(kNotNegative);
  command->add_option("--absolute", o->absolute, "absolute tolerance of floats (default: 1e-5)")
      ->type_name("X")
      ->check(kNotNegative);
  command->callback([o] { run(*o); });
}

}  // namespace precast::cli
