#include "artifact/isa.h"

#include <stdexcept>
#if defined(__x86_64__)
#include <cpuid.h>
#endif

namespace precast::artifact {
namespace {

#if defined(__x86_64__)
bool has(std::string_view feature) {
  // The builtin wants literals.
  if (feature == "avx2") return __builtin_cpu_supports("avx2");
  if (feature == "fma") return __builtin_cpu_supports("fma");
  if (feature == "avx512f") return __builtin_cpu_supports("avx512f");
  if (feature == "avx512bw") return __builtin_cpu_supports("avx512bw");
  if (feature == "avx512dq") return __builtin_cpu_supports("avx512dq");
  if (feature == "avx512vl") return __builtin_cpu_supports("avx512vl");
  unsigned a = 0, b = 0, c = 0, d = 0;
  if (feature == "f16c")
    return __get_cpuid(1, &a, &b, &c, &d) != 0 && (c & bit_F16C) != 0;  // clang 14 has no name for it
  return false;
}
#else
bool has(std::string_view) { return false; }
#endif

}  // namespace

const std::vector<Isa>& all_isas() {
  static const auto& isas = *new std::vector<Isa>{
      {"avx512",
       "avx512f,avx512bw,avx512dq,avx512vl,avx2,fma,f16c",
       {"avx512f", "avx512bw", "avx512dq", "avx512vl", "avx2", "fma", "f16c"},
       3,
       64},
      {"avx2", "avx2,fma,f16c", {"avx2", "fma", "f16c"}, 2, 32},
      {"baseline", "", {}, 0, 16},
  };
  return isas;
}

bool cpu_runs(std::string_view isa_name) {
  for (const Isa& isa : all_isas()) {
    if (isa_name != isa.name) continue;
    bool all = true;
    for (const char* feature : isa.features) all = all && has(feature);
    return all;
  }
  return false;
}

std::vector<std::string> resolve_isas(const std::vector<std::string>& names) {
  std::vector<bool> wanted(all_isas().size());
  for (const std::string& name : names) {
    bool known = false;
    for (size_t i = 0; i < wanted.size() && !known; ++i) {
      known = name == all_isas()[i].name || (name == "native" && cpu_runs(all_isas()[i].name));
      if (known) wanted[i] = true;
    }
    if (!known) {
      std::string list = "native";
      for (const Isa& isa : all_isas()) list += std::string(", ") + isa.name;
      throw std::invalid_argument("unknown instruction set '" + name + "'; choose from " + list);
    }
  }
  std::vector<std::string> resolved;
  for (size_t i = 0; i < wanted.size(); ++i)
    if (wanted[i]) resolved.emplace_back(all_isas()[i].name);
  if (resolved.empty()) throw std::invalid_argument("no instruction set is given; {\"native\", \"baseline\"} is usual");
  return resolved;
}

std::string target_name() {
#if defined(__x86_64__)
  return "x86_64-linux";
#elif defined(__aarch64__)
  return "aarch64-linux";
#else
  return "other-linux";
#endif
}

}  // namespace precast::artifact
