// Artifacts for every size, through the public interface: from the text of graphs with symbols, so that nothing of the
// recorder counts here.
#include "api/from_text.h"

#include <atomic>
#include <thread>

using namespace precast;
using namespace precast::testing;

namespace {

const FromText kLinear = {.name = "linear and relu",
                          .graph = R"(symbols: u0 in [0, inf) hint 8
graph(%0: f32[16,24], %1: f32[16], %2: f32[u0,24]) {
  %3: f32[24,16]{1,24} = prim::view(base=%0, offset=0)
  %4: f32[u0,16] = aten::addmm(self=%1, mat1=%2, mat2=%3, beta=1, alpha=1)
  %5: f32[u0,16] = aten::relu(self=%4)
  %6: f32[u0,16] = aten::mul.Tensor(self=%5, other=%4)
  return (%5, %6)
})",
                          .params = {"weight", "bias"},
    .host_ops = 1};

}  // namespace

TEST_CASE("dynamic: one artifact at many sizes") { check(kLinear); }
