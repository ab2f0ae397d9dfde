#include "cli/report.h"

#include <algorithm>
#include <cstdio>
#include <map>

#include "artifact/isa.h"
#include "artifact/spec.h"
#include "cli/table.h"
#include "io/file.h"
#include "ir/print.h"
#include "precast/error.h"
#include "util/sha256.h"

namespace precast::cli {
namespace {

CacheReport read_cache_of(const Pair& pair, std::span<const std::byte> bytes) {
  CacheReport report;
  auto read = artifact::read_cache(bytes);
  if (auto* problem = std::get_if<artifact::CacheProblem>(&read)) {
    report.problem = *problem;
    return report;
  }
  report.cache = std::get<artifact::Cache>(std::move(read));
  const artifact::Signature& signature = pair.text.metadata.signature;
  const struct {
    const char* field;
    const std::string &expected, &found;
  } ties[] = {{"code_hash", pair.code_hash, report.cache->code_hash},
              {"backend", signature.backend, report.cache->backend},
              {"tracer", signature.tracer, report.cache->tracer}};
  for (const auto& tie : ties)
    if (tie.expected != tie.found) {
      report.problem = {tie.field, tie.expected, tie.found};
      report.foreign = true;
      return report;
    }
  if (signature.backend == "eager") return report;
  const std::string target = artifact::target_name();
  for (const artifact::CacheVariant& variant : report.cache->variants)
    if (variant.target == target)
      report.runs_here |=
          std::any_of(variant.isa.begin(), variant.isa.end(), [](auto& i) { return artifact::cpu_runs(i); });
  if (report.runs_here) return report;
  std::string found;
  for (const artifact::CacheVariant& variant : report.cache->variants)
    for (const std::string& isa : variant.isa) found += (found.empty() ? "" : ", ") + variant.target + " " + isa;
  report.problem = {"compiled form", "one that this machine (" + target + ") runs", found.empty() ? "none" : found};
  return report;
}

std::string percent(int part, int whole) {
  char text[16];
  std::snprintf(text, sizeof text, "%.0f %%", whole ? 100.0 * part / whole : 100.0);
  return text;
}

std::string cache_verdict(const Pair& pair) {
  if (!pair.cache) return "no cache was looked at";
  const CacheReport& cache = *pair.cache;
  if (cache.foreign)
    return "THE CACHE BELONGS TO ANOTHER TEXT (" + cache.problem->field + " differs): loading refuses this pair";
  if (cache.problem)
    return "the cache is of no use here (" + cache.problem->field + "): loading compiles the text, with a warning";
  return "the cache belongs to the text";
}

}  // namespace

Pair read_pair(const std::string& artifact_path, const std::string& cache_path) {
  Pair pair;
  pair.artifact_path = artifact_path;
  pair.cache_path = cache_path;
  const io::MappedFile file = io::map_file(artifact_path);
  const std::string_view code(reinterpret_cast<const char*>(file.bytes.data()), file.bytes.size());
  pair.text = artifact::read_artifact_text(code, artifact_path);
  pair.graph = ir::parse(pair.text.graph);
  pair.code_hash = sha256_hex(code);
  pair.code_bytes = static_cast<int64_t>(code.size());
  if (!cache_path.empty()) {
    const io::MappedFile cache = io::map_file(cache_path);
    pair.cache_bytes = static_cast<int64_t>(cache.bytes.size());
    pair.cache = read_cache_of(pair, cache.bytes);
  }
  return pair;
}

bool needs_torch(const artifact::Metadata& m) { return m.signature.backend == "eager" || !m.host_ops.empty(); }

std::string verdict(const Pair& pair) {
  const artifact::Metadata& m = pair.text.metadata;
  std::string text;
  if (m.signature.backend == "eager")
    text = "backend \"eager\": a graph of " + plural(m.total_ops, "op") + " run op by op by LibTorch";
  else if (m.host_ops.empty())
    text = "fully lowered: " + plural(m.total_ops, "op") + " in " +
           plural(static_cast<int64_t>(m.kernels.size()), "kernel") + "; runs without LibTorch";
  else
    text = percent(m.lowered_ops, m.total_ops) + " lowered: " + grouped(m.lowered_ops) + " of " +
           plural(m.total_ops, "op") + " in " + plural(static_cast<int64_t>(m.kernels.size()), "kernel") + ", " +
           plural(static_cast<int64_t>(m.host_ops.size()), "host op") + " run by LibTorch";
  return text + "; " + cache_verdict(pair);
}

std::vector<std::pair<std::string, int>> op_counts(const ir::Graph& graph) {
  std::map<std::string, int> count;
  for (const ir::Node& node : graph.nodes)
    if (node.op != "prim::view") ++count[node.op];
  std::vector<std::pair<std::string, int>> sorted(count.begin(), count.end());
  std::stable_sort(sorted.begin(), sorted.end(), [](auto& a, auto& b) { return a.second > b.second; });
  return sorted;
}

std::string input_text(const artifact::UserLeaf& leaf) {
  if (leaf.kind == artifact::UserLeaf::Kind::tensor) {
    ir::Type type = leaf.tensor.type;
    type.strides = ir::contiguous_strides(type.sizes);
    type.conj = type.neg = false;
    type.device = {};
    return ir::to_string(type);
  }
  if (const auto* b = std::get_if<bool>(&leaf.value)) return *b ? "true" : "false";
  if (const auto* i = std::get_if<int64_t>(&leaf.value)) return std::to_string(*i);
  if (const auto* d = std::get_if<double>(&leaf.value)) {
    char text[32];
    std::snprintf(text, sizeof text, "%.17g", *d);
    const std::string digits = text;
    return digits.find_first_of(".eni") == std::string::npos ? digits + ".0" : digits;
  }
  if (const auto* s = std::get_if<std::string>(&leaf.value)) return '"' + *s + '"';
  return "none";
}

std::string source_text(const artifact::Signature& s, int source) {
  auto i = static_cast<size_t>(source);
  if (i < s.params.size()) return "parameter '" + s.params[i].name + "'";
  i -= s.params.size();
  if (i < s.buffers.size()) return "buffer '" + s.buffers[i].name + "'";
  i -= s.buffers.size();
  for (const artifact::UserLeaf& leaf : s.leaves)
    if (leaf.kind == artifact::UserLeaf::Kind::tensor && i-- == 0) return leaf.where;
  return "source " + std::to_string(source);
}

std::vector<std::string> result_places(const artifact::Signature& s) {
  return artifact::leaf_places(artifact::parse_tree(s.out_spec), "result");
}

std::string result_text(const artifact::Signature& s, const std::vector<ir::Type>& outputs, const artifact::Result& r) {
  using Kind = artifact::Result::Kind;
  const auto output = [&](int i) {
    return i >= 0 && i < static_cast<int>(outputs.size()) ? ir::to_string(outputs[static_cast<size_t>(i)]) : "?";
  };
  switch (r.kind) {
    case Kind::none:
      return "none";
    case Kind::boolean:
    case Kind::integer:
    case Kind::real:
    case Kind::string: {
      artifact::UserLeaf leaf;
      leaf.kind = artifact::UserLeaf::Kind::integer;
      leaf.value = r.value;
      return input_text(leaf) + " (as recorded)";
    }
    case Kind::output:
      return output(r.index);
    case Kind::output_view:
      return ir::to_string(r.type) + ", a view of another result";
    case Kind::source:
      return source_text(s, r.index) + " itself";
    case Kind::source_view:
      return ir::to_string(r.type) + ", a view of " + source_text(s, r.index);
  }
  return "?";
}

std::string advice(const artifact::HostOpText& op) {
  static const struct {
    const char *in, *say;
  } kAdvice[] = {
      {"random", "draw the numbers outside and pass them in; if this is dropout, capture in eval mode"},
      {"depends on data", "keep the size fixed: where(mask, x, other) instead of x[mask]"},
      {"complex", "compute with real and imaginary parts as tensors of their own (view_as_real)"},
      {"conjugate", "call resolve_conj() or resolve_neg() before it"},
      {"device", "move the model and its inputs to the CPU before capturing"},
      {"integer matrix product", "cast to f32 or f64 for the product, if its values fit"},
      {"of bool", "cast the bool to an integer or a float first"},
      {"on bool", "cast the bool to an integer or a float first"},
      {"bool has", "cast the bool to an integer or a float first"},
      {"another dtype", "cast its operands to one dtype first"},
      {"different dtypes", "cast its operands to one dtype first"},
      {"has no kernels", "cast to f32 around it"},
      {"alpha", "multiply by alpha first"},
      {"0-dim", "give its operands at least one dimension (unsqueeze)"},
      {"writes its operand", "compute the new value and write it with copy_()"},
      {"no lowering rule", "nothing is wrong: it runs at eager's speed; docs/adding-an-op.md says how to lower it"},
  };
  for (const auto& a : kAdvice)
    if (op.why.find(a.in) != std::string::npos) return a.say;
  return "nothing is wrong: it only needs LibTorch at run time";
}

}  // namespace precast::cli
