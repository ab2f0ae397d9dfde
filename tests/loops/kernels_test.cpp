// Whole graphs: lowered, compiled, run, compared with the reference interpreter.
#include <doctest/doctest.h>

#include "compiled.h"

using compiled::Batch;

namespace {

struct Program {
  const char* name;
  std::string text;
  double relative = 1e-5, absolute = 1e-6;
  std::map<int, int64_t> below{};  // input -> its integers are in [0, below)
};

void check(const std::vector<Program>& programs, compiled::Options options = {}) {
  Batch batch(options);
  for (const Program& p : programs) {
    INFO(p.name);
    batch.add(p.text);
  }
  batch.compile();
  for (int i = 0; i < static_cast<int>(programs.size()); ++i) {
    const Program& p = programs[static_cast<size_t>(i)];
    CAPTURE(p.name);
    const auto& g = batch.graph(i);
    std::vector<reference::Tensor> inputs;
    for (size_t k = 0; k < g.inputs.size(); ++k)
      inputs.push_back(compiled::random_tensor(g.type(g.inputs[k]), static_cast<uint32_t>(100 * i + static_cast<int>(k)),
                                               p.below.contains(static_cast<int>(k)) ? p.below.at(static_cast<int>(k)) : 0));
    const auto expected = reference::Interpreter(g, inputs).outputs();
    for (const int pieces : {1, 3}) {
      const auto r = batch.run(i, inputs, pieces);
      REQUIRE_MESSAGE(r.code == 0, r.message);
      for (size_t k = 0; k < expected.size(); ++k) {
        CAPTURE(k);
        CHECK(compiled::disagreement(r.outputs[k], expected[k], p.relative, p.absolute) <= 1);
      }
    }
  }
}

}  // namespace

TEST_CASE("pointwise, reductions and views") {
  check({
      {"add", R"(graph(%0: f32[5,7], %1: f32[7]) {
         %2: f32[5,7] = aten::add.Tensor(self=%0, other=%1, alpha=1)
         return (%2)
       })"},
      {"softmax", R"(graph(%0: f32[6,37]) {
         %1: f32[6,1] = aten::amax(self=%0, dim=[1], keepdim=true)
         %2: f32[6,37] = aten::sub.Tensor(self=%0, other=%1, alpha=1)
         %3: f32[6,37] = aten::exp(self=%2)
         %4: f32[6,1] = aten::sum.dim_IntList(self=%3, dim=[1], keepdim=true, dtype=None)
         %5: f32[6,37] = aten::div.Tensor(self=%3, other=%4)
         return (%5)
       })"},
      {"column sum", R"(graph(%0: f32[33,20]) {
         %1: f32[20] = aten::sum.dim_IntList(self=%0, dim=[0], keepdim=false, dtype=None)
         return (%1)
       })"},
      {"transposed view", R"(graph(%0: f32[6,37]) {
         %1: f32[6,37] = aten::exp(self=%0)
         %2: f32[37,6]{1,37} = prim::view(base=%1, offset=0)
         %3: f32[37,6] = aten::clone(self=%2, memory_format=None)
         return (%3, %1)
       })"},
  });
}
