// What a pair of files says of itself, read without executing anything; shared by info, capture, check and run.
#pragma once
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "artifact/cache.h"
#include "artifact/compose.h"
#include "ir/graph.h"

namespace precast::cli {

struct CacheReport {
  std::optional<artifact::Cache> cache;           // when it can be read
  std::optional<artifact::CacheProblem> problem;  // why it is of no use to this text: the first field that differs
  bool foreign = false;                           // readable, but of another text: load() refuses the pair
  bool runs_here = false;                         // holds a section that this CPU runs
};

struct Pair {
  std::string artifact_path, cache_path;
  artifact::Text text;
  ir::Graph graph;        // as recorded
  std::string code_hash;  // sha256 of the text
  int64_t code_bytes = 0, cache_bytes = 0;
  std::optional<CacheReport> cache;  // nothing when no cache was given
};

/// `cache_path` may be empty. Throws PrecompileError: a file that cannot be read, a text that is no artifact.
Pair read_pair(const std::string& artifact_path, const std::string& cache_path);

/// The pair in one sentence: how much was lowered, what it needs to run, whether the cache belongs to it.
std::string verdict(const Pair&);

/// Whether the artifact can run without LibTorch.
bool needs_torch(const artifact::Metadata&);

/// Recorded ops by name with their count, most frequent first; views (prim::view) are not among them.
std::vector<std::pair<std::string, int>> op_counts(const ir::Graph&);

/// An expected argument in the language of --input: "f32[1,576]", "16000".
std::string input_text(const artifact::UserLeaf&);

/// A result, or a condition, in words: "f32[1,10]", "view of argument 0", "3".
std::string result_text(const artifact::Signature&, const std::vector<ir::Type>& outputs, const artifact::Result&);

/// Where each result stands in what the call returns: "result['logits']", "result[0]", "result".
std::vector<std::string> result_places(const artifact::Signature&);

/// "parameter 'fc.weight'", "buffer 'bn.running_mean'", "argument 1".
std::string source_text(const artifact::Signature&, int source);

/// Why a host op was not lowered in words for people, and what to do about it.
std::string advice(const artifact::HostOpText&);

}  // namespace precast::cli
