// What compile() may be told: tables of options, modes and backends; the settings of the process.
#pragma once
#include <string>

#include "precast/compile.h"

namespace precast::jit {

/// What the options of one compile() come to.
struct Settings {
  bool fullgraph = false, disable = false, async = false;
  std::optional<bool> dynamic;
  int verify_every = 0;
  std::string backend;                        // "inductor", "aot_eager", a registered name, "function"
  BackendFunction function;                   // of a backend that is none of ours
  std::map<std::string, OptionValue> values;  // all options
  std::string key;                            // equal texts are equal settings

  bool flag(const char* option) const { return std::get<bool>(values.at(option)); }
};
/// Throws std::invalid_argument: an unknown option (near names are listed), value, mode or backend.
Settings settle(const CompileOptions&);

enum class StanceKind { normal, force_eager, eager_on_recompile, fail_on_recompile };
StanceKind stance();

}  // namespace precast::jit
