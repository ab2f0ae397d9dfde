#include "ir/print.h"
#include "ir/verify.h"
#include "target.h"

using namespace precast;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  return refused_or_accepted(data, size, [](const std::string& text) {
    const ir::Graph g = ir::parse(text);
    try {
      ir::verify(g, "fuzzing");
    } catch (const InternalError&) {  // text of a graph that breaks a rule
      return;
    }
    const std::string printed = ir::print(g);
    if (ir::print(ir::parse(printed)) != printed) throw std::runtime_error("the printed text reads as another graph");
  });
}
