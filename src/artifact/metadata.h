// Everything model.cpp says about itself, as JSON: a literal in the text that is parsed, never executed.
// Field names are those of torch.compiler.precompile (MODULE_POSITIONS, PARAM_NAMES, IN_SPEC, ...) plus our own.
#pragma once
#include <string>
#include <string_view>
#include <vector>

#include "artifact/signature.h"
#include "emit/emitted.h"

namespace precast::artifact {

inline constexpr int kFormatVersion = 1;

struct HostOpText {
  std::string op, why;
  std::string graph;  // text of a graph of one node
};

struct Metadata {
  Signature signature;
  std::string symbol = "precast_model";
  std::vector<std::string> isa;   // sections of the text, best first; empty without kernels
  int parts = 0;                  // of the kernels: what compiles in parallel
  std::vector<ir::Type> outputs;  // graph outputs
  std::vector<HostOpText> host_ops;
  std::vector<emit::KernelInfo> kernels;
  int64_t arena_bytes = 0, prepared_bytes = 0;
  int lowered_ops = 0, total_ops = 0;  // of the recorded graph
};

/// `emitted` is null for backend="eager".
Metadata describe(const Signature&, const ir::Graph& recorded, const emit::Emitted* emitted);

std::string to_json(const Metadata&);  // pretty, deterministic, ASCII
/// Throws PrecompileError naming the field that is missing or malformed.
Metadata from_json(std::string_view);

}  // namespace precast::artifact
