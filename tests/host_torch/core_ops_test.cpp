// Each line of core_ops.txt: the op in eager against its core graph run node by node.
#include <ATen/core/LegacyTypeDispatch.h>
#include <doctest/doctest.h>

#include "emit/lower.h"
#include "host_torch/graph_executor.h"
#include "ir/print.h"
#include "ir/verify.h"
#include "op_cases.h"
#include "passes/passes.h"

using namespace precast;
using namespace precast::host_torch;

namespace {

// Compares eager and core graph; returns which ops stay with the host, and why.
std::string check(const Case& c, const Recorded& r) {
  ir::Graph core = r.graph;
  passes::to_core(core);
  ir::verify(core, "to_core");
  INFO(ir::print(r.graph), ir::print(core));
  const std::vector<at::Tensor> got = GraphExecutor(core).run(r.inputs);
  REQUIRE(got.size() == r.expected.size());
  for (size_t i = 0; i < got.size(); ++i) {
    const std::string fault = difference(r.expected[i], got[i], c);
    CHECK_MESSAGE(fault.empty(), fault);
  }
  std::string kept;
  for (const ir::Node& n : core.nodes)
    if (std::string why = passes::why_kept(core, n); !why.empty()) kept += n.op + ": " + why + "\n";
  for (const emit::HostOp& op : emit::lower(core).host_ops) kept += op.op + " has no kernel: " + op.why + "\n";
  return kept;
}

}  // namespace

TEST_CASE("core graphs compute what the ops compute") {
  c10::InferenceMode no_autograd;
  int checked = 0;
  for (const Case& c : read_cases()) {
    for (unsigned seed : {1, 2, 3}) {
      CAPTURE(c.body);
      CAPTURE(seed);
      const std::string kept = check(c, record(c, seed));
      CHECK_MESSAGE(kept.empty() == !c.host, kept);
      ++checked;
    }
  }
  if (!std::getenv("PRECAST_OPS")) CHECK(checked > 2000);
}

TEST_CASE("core graphs compute what the ops compute, of operands in other layouts") {
  c10::InferenceMode no_autograd;
  int checked = 0;
  for (const Case& line : read_cases()) {
    for (const Case& c : in_other_layouts(line)) {
      CAPTURE(c.body);
      const std::optional<Recorded> r = try_record(c, 2);
      if (!r) continue;
      check(c, *r);
      ++checked;
    }
  }
  if (!std::getenv("PRECAST_OPS")) CHECK(checked > 2000);
}
