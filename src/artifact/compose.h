// The text of an artifact, model.cpp: metadata, graph, kernels, driver; and reading it back without executing it.
// The text is deterministic: the same input gives the same bytes.
#pragma once
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "artifact/metadata.h"

namespace precast::artifact {

struct ComposeOptions {
  std::string symbol = "precast_model";                   // the one exported function: a C identifier
  std::vector<std::string> isa = {"native", "baseline"};  // "avx512", "avx2", "baseline", "native"
};

/// `emitted` is null for backend="eager". Throws std::invalid_argument for an option that is wrong.
std::string compose(const Signature&, const ir::Graph& recorded, const emit::Emitted* emitted, const ComposeOptions&);

/// What the text says of itself.
struct Text {
  Metadata metadata;
  std::string graph;  // text of the recorded graph
};
/// Throws PrecompileError when the text is no precast artifact; `name` is used in the message.
Text read_artifact_text(std::string_view code, std::string_view name);

/// Values of PRECAST_PART that this processor needs, the driver (0) first; empty when the text is small enough
/// to be compiled as a whole.
std::vector<int> parts_to_compile(const Metadata&);

}  // namespace precast::artifact
