// What lowering hands to the artifact: C++ text and the numbers the host needs to run it.
#pragma once
#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include "ir/graph.h"

namespace precast::emit {

/// A node that no rule lowers, as a graph of its own: run by the host through the dispatcher.
struct HostOp {
  std::string op;   // "aten::convolution"
  std::string why;  // "no lowering rule", "random", "data-dependent size", ...
  ir::Graph graph;
};

struct KernelInfo {
  std::string name;             // "k3_gemm_relu"
  std::string what;             // ops fused into it, for people
  double flops = 0, bytes = 0;  // per call, for the roofline
};

/// The text is compiled once per ISA section, in a namespace of its own, with these macros defined:
///   PRECAST_ISA 0 baseline, 2 AVX2 + FMA, 3 AVX-512;  PRECAST_VECTOR_BYTES 16, 32, 64
/// and after precast/artifact_abi.h (precast_frame). `run` defines
///   int precast_run(precast_frame*)      all kernels but the prepared part; 0 or a PRECAST_* code
///   int precast_prepare(precast_frame*)  what depends on params and buffers only
/// `in` follows Graph::inputs, `out` Graph::outputs. Parts may be separate translation units: kernels are plain
/// functions (not static, names unique over all parts), and `run` starts with declarations of those it calls.
/// The namespaces give internal linkage or hidden visibility. Helpers in `preamble` are `static inline`.
/// Where the graph has symbols, `sizes` of the frame are their values, in the order of Graph::symbols.
/// The language is C++14 with GNU extensions, which is clang 14's default.
struct Emitted {
  std::string preamble;            // vector types and maths, once per ISA section
  std::vector<std::string> parts;  // kernels, to be compiled in parallel; balanced
  std::string run;                 // precast_run and precast_prepare, calling the kernels
  int64_t arena_bytes = 0, prepared_bytes = 0;
  std::vector<ir::Size> arena_slots;  // bytes of more arena behind, each rounded up to 64
  std::vector<HostOp> host_ops;
  std::vector<KernelInfo> kernels;
  std::set<std::string> routines;      // of the preamble that kernels call
  int lowered_ops = 0, total_ops = 0;  // of the recorded graph
};

}  // namespace precast::emit
