// precast info: what an artifact computes, how, and what it needs. Reads both files and executes nothing.
#include <CLI/CLI.hpp>
#include <filesystem>
#include <iostream>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>

#include "artifact/isa.h"
#include "cli/commands.h"
#include "cli/report.h"
#include "cli/sizes.h"
#include "cli/table.h"
#include "cli/values.h"
#include "ir/print.h"
#include "precast/error.h"

namespace precast::cli {
namespace {

using Json = nlohmann::ordered_json;
using Rows = std::vector<std::vector<std::string>>;

constexpr const char* kAbout =
    "Shows what an artifact computes and what it needs: arguments, results and effects; how many ops were recorded "
    "and\n"
    "how many became kernels; which run in LibTorch, why, and what to change; what was fused into each kernel; "
    "memory,\n"
    "instruction sets, and whether cache and text belong together. Executes nothing of either file.";

constexpr const char* kExample =
    "Example:\n"
    "  precast info model.cpp               takes model.cache too, if it is there\n"
    "  precast info model.cpp --graph       the recorded graph as text\n"
    "  precast info model.cpp --json        the same for programs\n"
    "\n"
    "Next: precast check MODEL.pt OUT.cpp OUT.cache    compare with the model\n"
    "      precast run OUT.cpp OUT.cache --weights W.safetensors --input x.npy -o results";

struct Options {
  std::string artifact, cache;
  bool json = false, graph = false;
};

struct Group {  // host ops of one name and reason
  artifact::HostOpText op;
  int count = 0;
};
std::vector<Group> group_host_ops(const artifact::Metadata& m) {
  std::vector<Group> groups;
  for (const artifact::HostOpText& op : m.host_ops) {
    auto same =
        std::find_if(groups.begin(), groups.end(), [&](auto& g) { return g.op.op == op.op && g.op.why == op.why; });
    if (same == groups.end()) same = groups.insert(same, {op, 0});
    ++same->count;
  }
  std::stable_sort(groups.begin(), groups.end(), [](auto& a, auto& b) { return a.count > b.count; });
  return groups;
}

struct Tensors {
  int64_t count = 0, values = 0, bytes = 0;
};
Tensors total(const std::vector<artifact::TensorMeta>& tensors) {
  Tensors t;
  for (const auto& tensor : tensors) {
    ++t.count;
    t.values += tensor.type.numel();
    t.bytes += tensor.type.numel() * ir::itemsize(tensor.type.dtype);
  }
  return t;
}

std::vector<std::string> effects(const artifact::Signature& s) {
  std::vector<std::string> lines;
  for (const auto& w : s.writes) lines.push_back("writes " + source_text(s, w.source));
  for (const auto& g : s.grads)
    lines.push_back((g.accumulate ? "adds to the gradient of " : "replaces the gradient of ") +
                    source_text(s, g.source));
  for (int source : s.zeroed_grads) lines.push_back("fills the gradient of " + source_text(s, source) + " with zeros");
  for (int source : s.cleared_grads) lines.push_back("clears the gradient of " + source_text(s, source));
  return lines;
}

std::string scientific(double x) {
  if (x < 1000) return std::to_string(static_cast<int64_t>(x));
  static const char* const kUnits[] = {"", " k", " M", " G", " T"};
  size_t unit = 0;
  for (; x >= 999.5 && unit + 1 < std::size(kUnits); ++unit) x /= 1000;
  char text[32];
  std::snprintf(text, sizeof text, "%.3g%s", x, kUnits[unit]);
  return text;
}

std::string join(const std::vector<std::string>& parts) {
  std::string text;
  for (const auto& part : parts) text += (text.empty() ? "" : " ") + part;
  return text;
}

void print_call(const Pair& pair) {
  const artifact::Metadata& m = pair.text.metadata;
  const artifact::Signature& s = m.signature;
  Rows rows;
  const Tensors params = total(s.params), buffers = total(s.buffers);
  if (!s.module_positions.empty())
    rows.push_back({plural(static_cast<int64_t>(s.module_positions.size()), "module"),
                    plural(params.count, "parameter") + " (" + grouped(params.values) + " values, " +
                        bytes(params.bytes) + "), " + plural(buffers.count, "buffer") + " (" + bytes(buffers.bytes) +
                        ")"});
  for (const auto& leaf : s.leaves)
    rows.push_back({leaf.where, leaf.kind == artifact::UserLeaf::Kind::tensor ? ir::to_string(leaf.tensor.type)
                                                                              : "must be " + input_text(leaf)});
  const std::vector<std::string> places = result_places(s);
  for (size_t i = 0; i < s.results.size(); ++i) rows.push_back({places.at(i), result_text(s, m.outputs, s.results[i])});
  if (s.results.empty()) rows.push_back({"results", "none"});
  for (const ir::Symbol& symbol : m.symbols)
    rows.push_back({ir::name(symbol), bounds_text(symbol) + ", " + std::to_string(symbol.hint) + " at capture"});
  const auto lines = effects(s);
  constexpr size_t kShown = 12;
  for (size_t i = 0; i < std::min(lines.size(), kShown); ++i) rows.push_back({"effect", lines[i]});
  if (lines.size() > kShown)
    rows.push_back({"effect", "... and " + std::to_string(lines.size() - kShown) + " more (--json lists all)"});
  for (const auto& c : s.conditions) rows.push_back({"condition", c});
  std::cout << "\ncall\n" << table(rows);
}

void print_ops(const Pair& pair) {
  const artifact::Metadata& m = pair.text.metadata;
  std::map<std::string, int> on_host;
  for (const auto& op : m.host_ops) ++on_host[op.op];
  Rows rows;
  for (const auto& [op, count] : op_counts(pair.graph))
    rows.push_back({op, std::to_string(count), on_host[op] ? "in LibTorch" : ""});
  std::cout << "\nrecorded ops: " << m.total_ops << "\n" << table(rows, {1});
}

void print_kernels(const artifact::Metadata& m) {
  if (m.kernels.empty()) return;
  Rows rows = {{"kernel", "flop", "memory", "fused into it"}};
  double flops = 0, moved = 0;
  for (const auto& k : m.kernels) {
    rows.push_back({k.name, scientific(k.flops), bytes(static_cast<int64_t>(k.bytes)), k.what});
    flops += k.flops;
    moved += k.bytes;
  }
  if (m.kernels.size() > 1) rows.push_back({"all", scientific(flops), bytes(static_cast<int64_t>(moved))});
  std::cout << "\nkernels: " << m.kernels.size() << "\n" << table(rows, {1, 2});
}

void print_host_ops(const artifact::Metadata& m) {
  if (m.host_ops.empty()) return;
  std::cout << "\nhost ops: " << m.host_ops.size() << ", run by LibTorch\n";
  for (const Group& g : group_host_ops(m))
    std::cout << "  " << g.op.op << (g.count > 1 ? " (" + std::to_string(g.count) + " times)" : "")
              << "\n    why: " << g.op.why << "\n    to change it: " << advice(g.op) << "\n";
}

/// "12 KiB", or "12 KiB + 64*u0 B" where it depends on sizes.
std::string working_memory(const artifact::Metadata& m) {
  std::string text = bytes(m.arena_bytes);
  if (!m.arena_slots.empty()) {
    try {
      ir::Size sum = 0;
      for (const ir::Size& slot : m.arena_slots) sum += slot;
      text += " + " + ir::to_string(sum) + " B";
    } catch (const ir::Undecided&) {
      text += ", more with the sizes,";
    }
  }
  return text;
}

void print_files(const Pair& pair) {
  const artifact::Metadata& m = pair.text.metadata;
  Rows rows;
  rows.push_back({"text", pair.artifact_path + ", " + bytes(pair.code_bytes) + ", exports " + m.symbol +
                              "(), recorded with LibTorch " + m.signature.torch_version});
  if (m.signature.backend != "eager") {
    std::vector<std::string> here;
    for (const auto& isa : m.isa)
      if (artifact::cpu_runs(isa)) here.push_back(isa);
    rows.push_back({"sections", join(m.isa) + "; this CPU takes " + (here.empty() ? "none" : here[0])});
    rows.push_back({"memory", working_memory(m) + " of working memory per call in flight, " + bytes(m.prepared_bytes) +
                                  " prepared from weights"});
  }
  if (pair.cache) {
    std::string holds = bytes(pair.cache_bytes);
    if (pair.cache->cache)
      for (const auto& v : pair.cache->cache->variants)
        holds += "; " + v.target + " " + join(v.isa) + ", by " + v.toolchain;
    rows.push_back({"cache", pair.cache_path + ", " + holds});
    if (pair.cache->problem)
      rows.push_back({"", pair.cache->problem->field + ": expected " + pair.cache->problem->expected + ", found " +
                              pair.cache->problem->found});
  } else {
    rows.push_back({"cache", "none given, and none beside the text"});
  }
  std::cout << "\nfiles\n" << table(rows);
}

Json tensor_json(const artifact::TensorMeta& t) {
  return {{"name", t.name}, {"type", ir::to_string(t.type)}, {"requires_grad", t.requires_grad}};
}

Json to_json(const Pair& pair) {
  const artifact::Metadata& m = pair.text.metadata;
  const artifact::Signature& s = m.signature;
  Json j;
  j["verdict"] = verdict(pair);
  j["backend"] = s.backend;
  j["tracer"] = s.tracer;
  j["symbol"] = m.symbol;
  j["torch_version"] = s.torch_version;
  j["needs_torch"] = needs_torch(m);
  j["in_spec"] = s.in_spec ? Json(*s.in_spec) : Json();
  j["out_spec"] = s.out_spec;
  j["parameters"] = j["buffers"] = j["arguments"] = j["results"] = Json::array();
  for (const auto& t : s.params) j["parameters"].push_back(tensor_json(t));
  for (const auto& t : s.buffers) j["buffers"].push_back(tensor_json(t));
  for (const auto& leaf : s.leaves)
    j["arguments"].push_back({{"where", leaf.where},
                              {"tensor", leaf.kind == artifact::UserLeaf::Kind::tensor},
                              {"input", leaf.kind == artifact::UserLeaf::Kind::tensor ? ir::to_string(leaf.tensor.type)
                                                                                      : input_text(leaf)}});
  const std::vector<std::string> places = result_places(s);
  for (size_t i = 0; i < s.results.size(); ++i)
    j["results"].push_back({{"where", places.at(i)}, {"value", result_text(s, m.outputs, s.results[i])}});
  j["effects"] = effects(s);
  j["conditions"] = s.conditions;
  j["total_ops"] = m.total_ops;
  j["lowered_ops"] = m.lowered_ops;
  j["ops"] = Json::object();
  for (const auto& [op, count] : op_counts(pair.graph)) j["ops"][op] = count;
  j["kernels"] = j["host_ops"] = Json::array();
  for (const auto& k : m.kernels)
    j["kernels"].push_back({{"name", k.name}, {"what", k.what}, {"flops", k.flops}, {"bytes", k.bytes}});
  for (const Group& g : group_host_ops(m))
    j["host_ops"].push_back({{"op", g.op.op}, {"count", g.count}, {"why", g.op.why}, {"advice", advice(g.op)}});
  j["isa"] = m.isa;
  j["arena_bytes"] = m.arena_bytes;
  j["arena_slots"] = j["symbols"] = Json::array();
  for (const ir::Size& slot : m.arena_slots) j["arena_slots"].push_back(ir::to_string(slot));
  for (const ir::Symbol& symbol : m.symbols)
    j["symbols"].push_back({{"name", ir::name(symbol)},
                            {"min", symbol.min},
                            {"max", symbol.max == ir::Symbol::kUnbounded ? Json() : Json(symbol.max)},
                            {"hint", symbol.hint}});
  j["prepared_bytes"] = m.prepared_bytes;
  j["code_hash"] = pair.code_hash;
  j["cache"] = nullptr;
  if (pair.cache) {
    Json cache = {{"path", pair.cache_path},
                  {"bytes", pair.cache_bytes},
                  {"belongs", pair.cache->cache && !pair.cache->foreign},
                  {"usable_here", !pair.cache->problem},
                  {"variants", Json::array()}};
    if (pair.cache->cache)
      for (const auto& v : pair.cache->cache->variants)
        cache["variants"].push_back({{"target", v.target}, {"isa", v.isa}, {"toolchain", v.toolchain}});
    if (const auto& p = pair.cache->problem)
      cache["problem"] = {{"field", p->field}, {"expected", p->expected}, {"found", p->found}};
    j["cache"] = cache;
  }
  return j;
}

std::string cache_beside(const std::string& artifact_path) {
  const auto beside = std::filesystem::path(artifact_path).replace_extension(".cache");
  std::error_code ignored;
  return std::filesystem::exists(beside, ignored) ? beside.string() : "";
}

void run(const Options& o) {
  const Pair pair = read_pair(o.artifact, o.cache.empty() ? cache_beside(o.artifact) : o.cache);
  if (o.graph) {
    std::cout << ir::print(pair.graph);
  } else if (o.json) {
    std::cout << to_json(pair).dump(2) << "\n";
  } else {
    std::cout << verdict(pair) << "\n";
    print_call(pair);
    print_ops(pair);
    print_kernels(pair.text.metadata);
    print_host_ops(pair.text.metadata);
    print_files(pair);
  }
}

}  // namespace

void add_info(CLI::App& program) {
  auto o = std::make_shared<Options>();
  CLI::App* command = program.add_subcommand("info", "show what an artifact computes, how, and what it needs");
  command->description(command->get_description() + "\n\n" + kAbout + "\n");
  command->footer(kExample);
  command->add_option("artifact", o->artifact, "text of the artifact")->required()->type_name("OUT.cpp")->check(kNamed);
  command->add_option("cache", o->cache, "its cache (default: OUT.cache, if it is there)")
      ->type_name("OUT.cache")
      ->check(kNamed);
  auto* json = command->add_flag("--json", o->json, "print JSON");
  command->add_flag("--graph", o->graph, "print the recorded graph instead")->excludes(json);
  command->callback([o] { run(*o); });
}

}  // namespace precast::cli
