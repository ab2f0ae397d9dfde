// Instruction sets that kernels are compiled for, best first, and which of them this CPU runs.
#pragma once
#include <string>
#include <string_view>
#include <vector>

namespace precast::artifact {

struct Isa {
  const char* name;                   // "avx512", "avx2", "baseline"
  const char* target;                 // of the target attribute; empty for the baseline
  std::vector<const char*> features;  // names for __builtin_cpu_supports
  int level, vector_bytes;            // PRECAST_ISA, PRECAST_VECTOR_BYTES in the text
};

const std::vector<Isa>& all_isas();
bool cpu_runs(std::string_view isa_name);
/// "native" becomes the best this CPU runs; sorted best first, duplicates dropped; a name that is
/// unknown is a std::invalid_argument that lists the names.
std::vector<std::string> resolve_isas(const std::vector<std::string>& names);
/// What compiled code must match to be loaded at all: "x86_64-linux".
std::string target_name();

}  // namespace precast::artifact
