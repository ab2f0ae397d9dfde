#include <doctest/doctest.h>
#include <iostream>
#include "support.h"
using namespace precast::passes;
TEST_CASE("x") {
  for (const char* t : {
R"(graph(%0: f32[4,8], %1: f32[16,8], %2: f32[16]) {
  %3: f32[8,16]{1,8} = prim::view(base=%1, offset=0)
  %4: f32[4,16] = aten::addmm(self=%2, mat1=%0, mat2=%3, beta=1, alpha=1)
  _ = aten::relu_(self=%4 -> %5: f32[4,16])
  %6: f32[4,16] = aten::_log_softmax(self=%5, dim=1, half_to_float=false)
  %7: f32[] = aten::sum(self=%6, dtype=None)
  return (%7)
})",
R"(graph(%0: f32[2,3,4,4]{48,1,12,3}, %1: f32[3], %2: f32[3], %3: f32[3], %4: f32[3], %9: i64[]) {
  %5: f32[2,3,4,4]{48,1,12,3}, %6: f32[3], %7: f32[3] = aten::native_batch_norm(input=%0, weight=%1, bias=%2, running_mean=%3 -> %10: f32[3], running_var=%4 -> %11: f32[3], training=true, momentum=0.1, eps=1e-05)
  _ = aten::add_.Tensor(self=%9 -> %12: i64[], other=1, alpha=1)
  return (%5, %10, %11, %12)
})",
R"(graph(%0: f32[4,8]) {
  %1: f32[8] = prim::view(base=%0, offset=32)
  _ = aten::mul_.Tensor(self=%1 -> %2: f32[8], other=2.5)
  %3: f32[4,8] = prim::scatter(base=%0, src=%2, offset=32, sizes=[8], strides=[1])
  %4: f32[4]{8} = prim::view(base=%3, offset=4)
  _ = aten::fill_.Scalar(self=%4 -> %5: f32[4]{8}, value=7)
  %6: f32[4,8] = prim::scatter(base=%3, src=%5, offset=4, sizes=[4], strides=[8])
  %7: f32[2] = aten::add.Tensor(self=%0, other=%0, alpha=1)
  return (%6)
})"}) std::cout << core(t) << "\n";
}
