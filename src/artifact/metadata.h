// Everything model.cpp says about itself, as JSON: a literal in the text that is parsed, never executed.
// Field names are those of torch.compiler.precompile (MODULE_POSITIONS, PARAM_NAMES, IN_SPEC, ...) plus our own.
#pragma once
#include <functional>
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
  std::vector<std::string> isa;     // sections of the text, best first; empty without kernels
  int parts = 0;                    // of the kernels: what compiles in parallel
  std::vector<ir::Symbol> symbols;  // of the graph, in its order
  ir::Dims constraints;             // must not be negative
  std::vector<ir::Type> outputs;    // graph outputs
  std::vector<HostOpText> host_ops;
  std::vector<emit::KernelInfo> kernels;
  int64_t arena_bytes = 0, prepared_bytes = 0;
  ir::Dims arena_slots;                // bytes of more arena behind, each rounded up to 64
  int lowered_ops = 0, total_ops = 0;  // of the recorded graph
};

/// `emitted` is null for backend="eager".
Metadata describe(const Signature&, const ir::Graph& recorded, const emit::Emitted* emitted);

/// What the symbols are in a call: `values` has one for each, in their order, and outlives the function.
std::function<int64_t(const ir::Symbol&)> values_of(const Metadata&, const long long* values);

std::string to_json(const Metadata&);  // pretty, deterministic, ASCII
/// Throws PrecompileError naming the field that is missing or malformed.
Metadata from_json(std::string_view);

}  // namespace precast::artifact
