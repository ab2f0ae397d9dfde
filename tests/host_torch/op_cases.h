// The lines of core_ops.txt and of core_ops/*.txt: an op with operands to try, and what eager makes of them.
#pragma once
#include <ATen/ATen.h>

#include <optional>
#include <string>
#include <vector>

#include "ir/graph.h"

namespace precast::host_torch {

struct Case {
  std::string line, body;  // body: operands as types
  std::string dtype;       // what T stands for, or the first operand's
  bool host = false, any_zero = false;
  double within = 0;  // an absolute difference that is allowed besides the usual one
};
/// PRECAST_OPS=pool in the environment: only lines that match it, to look at one op.
std::vector<Case> read_cases();

/// The same with operands that lie otherwise in memory, where the line does not say how: dimensions in the other order,
/// every second element, a first dimension that is expanded. Eager may refuse such a case.
std::vector<Case> in_other_layouts(const Case&);

/// The case as a recorded graph, its operands, and what eager makes of them.
struct Recorded {
  ir::Graph graph;
  std::vector<at::Tensor> inputs, expected;
};
/// Seed 1 gives plain numbers, others special ones too.
Recorded record(const Case&, unsigned seed);
/// Nothing where eager refuses the operands.
std::optional<Recorded> try_record(const Case&, unsigned seed);

/// Empty if equal; otherwise what differs.
std::string difference(const at::Tensor& want, const at::Tensor& got, const Case&);

}  // namespace precast::host_torch
