// A loaded artifact: its text checked, its compiled form mapped, ready to be called from any thread.
// Knows nothing of LibTorch; a host (precast_host) gives it tensors, threads and host ops.
#pragma once
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "artifact/compose.h"
#include "precast/artifact_abi.h"

namespace precast::runtime {

/// How the graph is run: kernels of the shared object, or the graph text through host_op(context, -1, ...).
enum class Mode { compiled, graph };

struct LoadOptions {
  bool host_runs_graphs = true;  // false: without kernels there is nothing to run, so load() fails (standalone)
  bool use_cache = true;         // false: compile from the text
  bool announce = true;          // that loading runs what was loaded; false: this process made it
};

class Artifact {
 public:
  ~Artifact();
  Artifact(const Artifact&) = delete;
  Artifact& operator=(const Artifact&) = delete;

  const artifact::Signature& signature() const { return text().metadata.signature; }
  const artifact::Metadata& metadata() const { return text().metadata; }
  const artifact::Text& text() const;
  Mode mode() const;
  /// The section that runs on this CPU ("avx2"), or "graph".
  const char* isa() const;
  /// The calling convention as tables.
  const precast_spec& spec() const;
  int64_t arena_bytes() const;
  int64_t prepared_bytes() const;  // for prepare(); 0 when there is nothing to prepare

  /// The three functions of the ABI. Each returns a PRECAST_* code; the reason went to host->fail.
  int check_modules(const precast_host&, const precast_named* entries, int n_entries, int* slot_of) const;
  /// Uses call.bound only. `prepared` has prepared_bytes(), 64-byte aligned; put it in call.prepared afterwards.
  int prepare(const precast_host&, precast_call&, char* prepared) const;
  /// Takes an arena from the pool for the length of the call; call.arena is set here.
  int call(const precast_host&, precast_call&) const;

 private:
  friend struct Loader;
  struct State;
  explicit Artifact(std::unique_ptr<State>);
  std::unique_ptr<State> state_;
};

using ArtifactPtr = std::shared_ptr<const Artifact>;

/// Throws PrecompileError: missing file, text that is no artifact, a readable current cache of another text, backend or
/// tracer. An unusable cache is one warning, then the text is compiled; without a compiler the graph is interpreted.
ArtifactPtr load(const std::filesystem::path& artifact_path, const std::filesystem::path& cache_path,
                 const LoadOptions& = {});
ArtifactPtr load_from_memory(std::string code, std::span<const std::byte> cache, const LoadOptions& = {});
/// An artifact linked into the program: its entry is the exported symbol.
ArtifactPtr link(precast_entry entry);

}  // namespace precast::runtime
