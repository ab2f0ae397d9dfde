// Runs passes over the text of a graph.
#pragma once
#include <string>
#include <string_view>

#include "ir/print.h"
#include "ir/verify.h"
#include "passes/passes.h"

namespace precast::passes {

inline std::string core(std::string_view text) {
  ir::Graph g = ir::parse(text);
  to_core(g);
  ir::verify(g, "to_core");
  return ir::print(g);
}

inline std::string after(void (*pass)(ir::Graph&), std::string_view text) {
  ir::Graph g = ir::parse(text);
  pass(g);
  ir::renumber(g);
  ir::verify(g, "the pass under test");
  return ir::print(g);
}

}  // namespace precast::passes
