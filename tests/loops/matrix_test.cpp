// Matrix products with what is fused into them.
#include "check.h"

using compiled::check;
using compiled::Program;

TEST_CASE("products and their epilogues") {
  std::vector<Program> all = {
      {"linear relu", R"(graph(%0: f32[9,20], %1: f32[33,20], %2: f32[33]) {
         %3: f32[20,33]{1,20} = prim::view(base=%1, offset=0)
         %4: f32[9,33] = aten::mm(self=%0, mat2=%3)
         %5: f32[9,33] = aten::add.Tensor(self=%4, other=%2, alpha=1)
         %6: f32[9,33] = aten::relu(self=%5)
         return (%6)
       })"},
      {"linear on three dims, mask kept", R"(graph(%0: f32[2,6,20], %1: f32[40,20], %2: f32[40], %3: f32[2,6,40]) {
         %4: f32[12,20] = prim::view(base=%0, offset=0)
         %5: f32[20,40]{1,20} = prim::view(base=%1, offset=0)
         %6: f32[12,40] = aten::mm(self=%4, mat2=%5)
         %7: f32[2,6,40] = prim::view(base=%6, offset=0)
         %8: f32[2,6,40] = aten::add.Tensor(self=%7, other=%2, alpha=1)
         %9: f32[2,6,40] = aten::sigmoid(self=%8)
         %10: f32[2,6,40] = aten::add.Tensor(self=%9, other=%3, alpha=1)
         %11: bool[2,6,40] = aten::gt.Scalar(self=%9, other=0.5)
         return (%10, %11, %9)
       })"},
      {"attention", R"(graph(%0: f32[2,4,7,8], %1: f32[2,4,7,8], %2: f32[2,4,7,8]) {
         %3: f32[8,7,8] = prim::view(base=%0, offset=0)
         %4: f32[8,8,7]{56,1,8} = prim::view(base=%1, offset=0)
         %5: f32[8,7,7] = aten::bmm(self=%3, mat2=%4)
         %6: f32[8,7,7] = aten::mul.Scalar(self=%5, other=0.35355339059327373)
         %7: f32[8,7,1] = aten::amax(self=%6, dim=[2], keepdim=true)
         %8: f32[8,7,7] = aten::sub.Tensor(self=%6, other=%7, alpha=1)
         %9: f32[8,7,7] = aten::exp(self=%8)
         %10: f32[8,7,1] = aten::sum.dim_IntList(self=%9, dim=[2], keepdim=true, dtype=None)
         %11: f32[8,7,7] = aten::div.Tensor(self=%9, other=%10)
         %12: f32[8,7,8] = prim::view(base=%2, offset=0)
         %13: f32[8,7,8] = aten::bmm(self=%11, mat2=%12)
         %14: f32[2,7,4,8]{224,8,56,1} = prim::view(base=%13, offset=0)
         %15: f32[2,7,4,8] = aten::clone(self=%14, memory_format=None)
         return (%15)
       })"},
      {"one row, one column, no depth",
       R"(graph(%0: f32[1,12], %1: f32[12,5], %2: f32[5,1], %3: f32[4,0], %4: f32[0,3], %5: f32[3]) {
         %6: f32[1,5] = aten::mm(self=%0, mat2=%1)
         %7: f32[1,1] = aten::mm(self=%6, mat2=%2)
         %8: f32[4,3] = aten::mm(self=%3, mat2=%4)
         %9: f32[4,3] = aten::add.Tensor(self=%8, other=%5, alpha=1)
         return (%6, %7, %9)
       })"},
      {"f64, f16, bf16",
       R"(graph(%0: f64[5,6], %1: f64[6,7], %2: f16[5,6], %3: f16[6,7], %4: bf16[5,6], %5: bf16[6,7]) {
         %6: f64[5,7] = aten::mm(self=%0, mat2=%1)
         %7: f16[5,7] = aten::mm(self=%2, mat2=%3)
         %8: bf16[5,7] = aten::mm(self=%4, mat2=%5)
         %9: f16[5,7] = aten::relu(self=%7)
         return (%6, %7, %8, %9)
       })",
       2e-2, 2e-2},
      {"backward of a linear layer", R"(graph(%0: f32[17,12], %1: f32[17,9], %2: f32[9,12]) {
         %3: f32[17,12] = aten::mm(self=%1, mat2=%2)
         %4: f32[9,17]{1,9} = prim::view(base=%1, offset=0)
         %5: f32[9,12] = aten::mm(self=%4, mat2=%0)
         %6: f32[9] = aten::sum.dim_IntList(self=%1, dim=[0], keepdim=false, dtype=None)
         return (%3, %5, %6)
       })"},
      {"convolution with border, batch norm, relu, residual, and the next border",
       R"(graph(%0: f32[2,3,9,9], %1: f32[20,3,3,3], %2: f32[20], %3: f32[2,9,9,20]) {
         %4: f32[2,9,9,3]{243,9,1,81} = prim::view(base=%0, offset=0)
         %5: f32[2,11,11,3] = aten::constant_pad_nd(self=%4, pad=[0,0,1,1,1,1], value=0.0)
         %6: f32[2,9,9,3,3,3]{363,33,3,33,3,1} = prim::view(base=%5, offset=0)
         %7: f32[2,9,9,20] = aten::einsum(equation="nhwjkc,ocjk->nhwo", tensors=[%6, %1], path=None)
         %8: f32[2,9,9,20] = aten::mul.Tensor(self=%7, other=%2)
         %9: f32[2,9,9,20] = aten::add.Tensor(self=%8, other=%3, alpha=1)
         %10: f32[2,9,9,20] = aten::relu(self=%9)
         %11: f32[2,11,11,20] = aten::constant_pad_nd(self=%10, pad=[0,0,1,1,1,1], value=0.0)
         %12: f32[2,20,9,9] = prim::view(base=%10, offset=0)
         return (%11, %10)
       })"},
      {"rows side by side in the result, two columns, a batch in the middle",
       R"(graph(%0: f32[5,3,8,6], %1: f32[4,3,6,7]) {
         %2: f32[7,3,4,5,8] = aten::einsum(equation="abcd,ebdf->fbeac", tensors=[%0, %1], path=None)
         %3: f32[7,3,4,5,8] = aten::relu(self=%2)
         %4: f32[5,3,8,4,7] = aten::einsum(equation="abcd,ebdf->abcef", tensors=[%0, %1], path=None)
         return (%3, %4)
       })"},
      {"an operand turned around, and one widened",
       R"(graph(%0: f32[2,5,5,4], %1: f32[3,4,2,2], %2: bf16[4,9]) {
         %3: f32[3,4,2,2] = aten::flip(self=%1, dims=[2,3])
         %4: f32[2,4,4,2,2,4]{100,20,4,20,4,1} = prim::view(base=%0, offset=0)
         %5: f32[2,4,4,3] = aten::einsum(equation="nhwjkc,ocjk->nhwo", tensors=[%4, %3], path=None)
         %6: f32[4,9] = aten::_to_copy(self=%2, dtype=f32, layout=None, device=None, pin_memory=None, non_blocking=false, memory_format=None)
         %7: f32[2,5,5,9] = aten::einsum(equation="nhwc,co->nhwo", tensors=[%0, %6], path=None)
         return (%5, %7)
       })"},
      {"sums over an operand alone, diagonals and dots stay with the host",
       R"(graph(%0: f32[4,4], %1: f32[4,4]) {
         %2: f32[4] = aten::einsum(equation="ij,kj->i", tensors=[%0, %1], path=None)
         return (%2)
       })",
       1e-4,
       1e-4,
       {},
       1},
  };
  for (Program& p : all) p.relative = std::max(p.relative, 1e-4), p.absolute = std::max(p.absolute, 1e-4);
  check(all);
}

TEST_CASE("what depends on parameters only is prepared once") {
  compiled::Batch batch;
  const int i = batch.add(R"(graph(%0: f32[40,24], %1: f32[33,24] "w", %2: f32[33] "b") {
    %3: f32[24,33]{1,24} = prim::view(base=%1, offset=0)
    %4: f32[40,33] = aten::mm(self=%0, mat2=%3)
    %5: f32[33] = aten::exp(self=%2)
    %6: f32[33] = aten::sum.dim_IntList(self=%1, dim=[1], keepdim=false, dtype=None)
    %7: f32[33] = aten::mul.Tensor(self=%5, other=%6)
    %8: f32[40,33] = aten::add.Tensor(self=%4, other=%7, alpha=1)
    %9: f32[20,24] = prim::view(base=%0, offset=0)
    %10: f32[20,33] = aten::mm(self=%9, mat2=%3)
    return (%8, %10)
  })",
                          {.constant_inputs = {false, true, true}});
  batch.compile();
  CHECK(batch.emitted(i).prepared_bytes > 33 * 24 * 4);
  CHECK(batch.emitted(i).prepared_bytes < 2 * 64 * 24 * 4);  // both products read one packed matrix
  auto inputs = compiled::random_inputs(batch.graph(i), {}, 5);
  const auto expected = reference::Interpreter(batch.graph(i), inputs).outputs();
  const auto r = batch.run(i, inputs, 1, true);
  REQUIRE(r.code == 0);
  for (size_t k = 0; k < 2; ++k) CHECK(compiled::disagreement(r.outputs[k], expected[k], 1e-4, 1e-4) <= 1);
}

TEST_CASE("a matrix that several products read is packed once a run") {
  compiled::Batch batch;
  const int i = batch.add(R"(graph(%0: f32[40,24], %1: f32[96,24], %2: f32[96]) {
    %3: f32[96,24] = aten::exp(self=%1)
    %4: f32[24,96]{1,24} = prim::view(base=%3, offset=0)
    %5: f32[20,24] = prim::view(base=%0, offset=0)
    %6: f32[20,96] = aten::mm(self=%5, mat2=%4)
    %7: f32[20,96] = aten::relu(self=%6)
    %8: f32[20,24] = prim::view(base=%7, offset=0)
    %9: f32[20,96] = aten::mm(self=%8, mat2=%4)
    %10: f32[20,96] = aten::add.Tensor(self=%9, other=%2, alpha=1)
    return (%7, %10)
  })");
  batch.compile();
  int packs = 0;
  for (const auto& k : batch.emitted(i).kernels) packs += k.what == "packs a matrix";
  CHECK(packs == 1);
  CHECK(batch.emitted(i).prepared_bytes == 0);
  const auto inputs = compiled::random_inputs(batch.graph(i), {}, 5);
  const auto expected = reference::Interpreter(batch.graph(i), inputs).outputs();
  for (const int pieces : {1, 3}) {
    const auto r = batch.run(i, inputs, pieces);
    REQUIRE(r.code == 0);
    for (size_t k = 0; k < 2; ++k) CHECK(compiled::disagreement(r.outputs[k], expected[k], 1e-4, 1e-4) <= 1);
  }
}
