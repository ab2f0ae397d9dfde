// Runs passes over the text of a graph.
#pragma once
#include <string>
#include <string_view>

#include "ir/print.h"
#include "ir/verify.h"
#include "passes/passes.h"

namespace precast::passes {

inline std::string core(std::string_view text, const ir::Choices& choices = {}) {
  ir::Graph g = ir::parse(text);
  to_core(g, choices);
  ir::verify(g, "to_core");
  return ir::print(g);
}

}  // namespace precast::passes
