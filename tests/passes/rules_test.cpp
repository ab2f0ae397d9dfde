// The normal form, by example: what goes in, what comes out.
#include <doctest/doctest.h>

#include "passes/support.h"

using namespace precast::passes;

TEST_CASE("a linear layer with an in-place relu and a log-softmax") {
  CHECK(core(R"(graph(%0: f32[4,8], %1: f32[16,8], %2: f32[16]) {
  %3: f32[8,16]{1,8} = prim::view(base=%1, offset=0)
  %4: f32[4,16] = aten::addmm(self=%2, mat1=%0, mat2=%3, beta=1, alpha=1)
  _ = aten::relu_(self=%4 -> %5: f32[4,16])
  %6: f32[4,16] = aten::_log_softmax(self=%5, dim=1, half_to_float=false)
  return (%6)
})") == R"(graph(%0: f32[4,8], %1: f32[16,8], %2: f32[16]) {
  %3: f32[8,16]{1,8} = prim::view(base=%1, offset=0)
  %4: f32[4,16] = aten::mm(self=%0, mat2=%3)
  %5: f32[4,16] = aten::add.Tensor(self=%4, other=%2, alpha=1)
  %6: f32[4,16] = aten::relu(self=%5)
  %7: f32[4,1] = aten::amax(self=%6, dim=[1], keepdim=true)
  %8: f32[4,16] = aten::sub.Tensor(self=%6, other=%7, alpha=1)
  %9: f32[4,16] = aten::exp(self=%8)
  %10: f32[4,1] = aten::sum.dim_IntList(self=%9, dim=[1], keepdim=true, dtype=None)
  %11: f32[4,1] = aten::log(self=%10)
  %12: f32[4,16] = aten::sub.Tensor(self=%8, other=%11, alpha=1)
  return (%12)
}
)");
}
