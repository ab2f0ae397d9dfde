#include "ir/verify.h"
#include "passes/passes.h"

namespace precast::passes {
namespace {

struct Pass {
  const char* name;
  void (*run)(ir::Graph&);
  bool ir::Choices::* wanted = nullptr;  // always
};
constexpr Pass kPipeline[] = {
    {"decompose", decompose},
    {"simplify", simplify},
    {"share_equal_nodes", share_equal_nodes},
    {"forward_writes", forward_writes},
    {"drop_dead_nodes", drop_dead_nodes},
    {"sum_at_once", sum_at_once},
    {"drop_dead_nodes", drop_dead_nodes},
    {"multiply_at_once", multiply_at_once, &ir::Choices::joint_products},
    {"simplify", simplify},
    {"forward_writes", forward_writes},
    {"relayout", [](ir::Graph& g) { relayout(g); }, &ir::Choices::free_layouts},
    {"relayout, padded", [](ir::Graph& g) { relayout(g, true); }, &ir::Choices::padded_rows},
    {"simplify again", simplify},
    {"share_equal_nodes", share_equal_nodes},
    {"drop_dead_nodes", drop_dead_nodes},
    {"renumber", ir::renumber},
};

#ifdef NDEBUG
constexpr bool kVerify = false;
#else
constexpr bool kVerify = true;
#endif

}  // namespace

/// A pass that asks for a size that only a call knows is left out.
void run(const Pass& p, ir::Graph& g) {
  if (g.symbols.empty()) return p.run(g);
  const ir::Graph before = g;
  try {
    p.run(g);
  } catch (const ir::Undecided&) {
    g = before;
  }
}

void to_core(ir::Graph& g, const ir::Choices& choices, const SeePass& seen) {
  for (const Pass& p : kPipeline) {
    if (p.wanted && !(choices.*p.wanted)) continue;
    run(p, g);
    if (seen) seen(p.name, g);
    if (kVerify) ir::verify(g, p.name);
  }
}

}  // namespace precast::passes
