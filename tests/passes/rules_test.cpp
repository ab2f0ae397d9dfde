// The normal form, by example: what goes in, what comes out. Values are proven in tests/host_torch/core_ops_test.cpp.
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

TEST_CASE("batch norm in training keeps the layout and updates its statistics") {
  CHECK(core(R"(graph(%0: f32[2,3,4,4]{48,1,12,3}, %1: f32[3], %2: f32[3], %3: f32[3], %4: f32[3]) {
  %5: f32[2,3,4,4]{48,1,12,3}, %6: f32[3], %7: f32[3] = aten::native_batch_norm(input=%0, weight=%1, bias=%2, running_mean=%3 -> %8: f32[3], running_var=%4 -> %9: f32[3], training=true, momentum=0.1, eps=1e-05)
  return (%5, %8, %9)
})") == R"(graph(%0: f32[2,3,4,4]{48,1,12,3}, %1: f32[3], %2: f32[3], %3: f32[3], %4: f32[3]) {
  %5: f64[2,3,4,4]{48,1,12,3} = aten::_to_copy(self=%0, dtype=f64, layout=None, device=None, pin_memory=None, non_blocking=false, memory_format=None)
  %6: f64[1,3,1,1] = aten::sum.dim_IntList(self=%5, dim=[0, 2, 3], keepdim=true, dtype=None)
  %7: f64[1,3,1,1] = aten::div.Scalar(self=%6, other=32.0)
  %8: f64[2,3,4,4]{48,1,12,3} = aten::sub.Tensor(self=%5, other=%7, alpha=1)
  %9: f64[2,3,4,4]{48,1,12,3} = aten::mul.Tensor(self=%8, other=%8)
  %10: f64[1,3,1,1] = aten::sum.dim_IntList(self=%9, dim=[0, 2, 3], keepdim=true, dtype=None)
  %11: f64[1,3,1,1] = aten::div.Scalar(self=%10, other=32.0)
  %12: f64[1,3,1,1] = aten::add.Scalar(self=%11, other=1e-05, alpha=1)
  %13: f64[1,3,1,1] = aten::sqrt(self=%12)
  %14: f64[1,3,1,1] = aten::reciprocal(self=%13)
  %15: f32[1,3,1,1] = aten::_to_copy(self=%14, dtype=f32, layout=None, device=None, pin_memory=None, non_blocking=false, memory_format=None)
  %16: f32[1,3,1,1] = prim::view(base=%1, offset=0)
  %17: f32[1,3,1,1] = aten::mul.Tensor(self=%15, other=%16)
  %18: f32[2,3,4,4]{48,1,12,3} = aten::mul.Tensor(self=%0, other=%17)
  %19: f32[1,3,1,1] = prim::view(base=%2, offset=0)
  %20: f32[1,3,1,1] = aten::_to_copy(self=%7, dtype=f32, layout=None, device=None, pin_memory=None, non_blocking=false, memory_format=None)
  %21: f32[1,3,1,1] = aten::mul.Tensor(self=%20, other=%17)
  %22: f32[1,3,1,1] = aten::sub.Tensor(self=%19, other=%21, alpha=1)
  %23: f32[2,3,4,4]{48,1,12,3} = aten::add.Tensor(self=%18, other=%22, alpha=1)
  %24: f64[3] = prim::view(base=%7, offset=0)
  %25: f64[3] = aten::mul.Scalar(self=%24, other=0.1)
  %26: f64[3] = aten::_to_copy(self=%3, dtype=f64, layout=None, device=None, pin_memory=None, non_blocking=false, memory_format=None)
  %27: f64[3] = aten::mul.Scalar(self=%26, other=0.9)
  %28: f64[3] = aten::add.Tensor(self=%25, other=%27, alpha=1)
  %29: f32[3] = aten::_to_copy(self=%28, dtype=f32, layout=None, device=None, pin_memory=None, non_blocking=false, memory_format=None)
  %30: f64[1,3,1,1] = aten::div.Scalar(self=%10, other=31.0)
  %31: f64[3] = prim::view(base=%30, offset=0)
  %32: f64[3] = aten::mul.Scalar(self=%31, other=0.1)
  %33: f64[3] = aten::_to_copy(self=%4, dtype=f64, layout=None, device=None, pin_memory=None, non_blocking=false, memory_format=None)
  %34: f64[3] = aten::mul.Scalar(self=%33, other=0.9)
  %35: f64[3] = aten::add.Tensor(self=%32, other=%34, alpha=1)
  %36: f32[3] = aten::_to_copy(self=%35, dtype=f32, layout=None, device=None, pin_memory=None, non_blocking=false, memory_format=None)
  return (%23, %29, %36)
}
)");
}

TEST_CASE("writes through views become scatters of what was computed") {
  CHECK(core(R"(graph(%0: f32[4,8]) {
  %1: f32[8] = prim::view(base=%0, offset=32)
  _ = aten::mul_.Tensor(self=%1 -> %2: f32[8], other=2.5)
  %3: f32[4,8] = prim::scatter(base=%0, src=%2, offset=32, sizes=[8], strides=[1])
  %4: f32[4]{8} = prim::view(base=%3, offset=4)
  _ = aten::fill_.Scalar(self=%4 -> %5: f32[4]{8}, value=7)
  %6: f32[4,8] = prim::scatter(base=%3, src=%5, offset=4, sizes=[4], strides=[8])
  return (%6)
})") == R"(graph(%0: f32[4,8]) {
  %1: f32[8] = prim::view(base=%0, offset=32)
  %2: f32[8] = aten::mul.Scalar(self=%1, other=2.5)
  %3: f32[4,8] = prim::scatter(base=%0, src=%2, offset=32, sizes=[8], strides=[1])
  %4: f32[4] = aten::full(size=[4], fill_value=7.0, dtype=f32, layout=None, device=cpu, pin_memory=None)
  %5: f32[4,8] = prim::scatter(base=%3, src=%4, offset=4, sizes=[4], strides=[8])
  return (%5)
}
)");
}

TEST_CASE("half types compute compound ops in f32 and round once") {
  CHECK(core(R"(graph(%0: bf16[8]) {
  %1: bf16[8] = aten::silu(self=%0)
  %2: bf16[8] = aten::add.Tensor(self=%1, other=0.1, alpha=1)
  %3: bf16[8] = aten::mul.Tensor(self=%2, other=0.1)
  return (%3)
})") == R"(graph(%0: bf16[8]) {
  %1: f32[8] = aten::_to_copy(self=%0, dtype=f32, layout=None, device=None, pin_memory=None, non_blocking=false, memory_format=None)
  %2: f32[8] = aten::neg(self=%1)
  %3: f32[8] = aten::exp(self=%2)
  %4: f32[8] = aten::add.Scalar(self=%3, other=1.0, alpha=1)
  %5: f32[8] = aten::div.Tensor(self=%1, other=%4)
  %6: bf16[8] = aten::_to_copy(self=%5, dtype=bf16, layout=None, device=None, pin_memory=None, non_blocking=false, memory_format=None)
  %7: bf16[8] = aten::add.Scalar(self=%6, other=0.10009765625, alpha=1)
  %8: f32[8] = aten::_to_copy(self=%7, dtype=f32, layout=None, device=None, pin_memory=None, non_blocking=false, memory_format=None)
  %9: f32[8] = aten::mul.Scalar(self=%8, other=0.1)
  %10: bf16[8] = aten::_to_copy(self=%9, dtype=bf16, layout=None, device=None, pin_memory=None, non_blocking=false, memory_format=None)
  return (%10)
}
)");
}

TEST_CASE("promotion is spelled out") {
  CHECK(core(R"(graph(%0: i64[3], %1: f64[], %2: f32[3]) {
  %3: f32[3] = aten::add.Tensor(self=%2, other=%1, alpha=1)
  %4: f64[3] = aten::mul.Tensor(self=%0, other=%1)
  %5: bool[3] = aten::lt.Tensor(self=%0, other=%2)
  return (%3, %4, %5)
})") == R"(graph(%0: i64[3], %1: f64[], %2: f32[3]) {
  %3: f32[] = aten::_to_copy(self=%1, dtype=f32, layout=None, device=None, pin_memory=None, non_blocking=false, memory_format=None)
  %4: f32[3] = aten::add.Tensor(self=%2, other=%3, alpha=1)
  %5: f64[3] = aten::_to_copy(self=%0, dtype=f64, layout=None, device=None, pin_memory=None, non_blocking=false, memory_format=None)
  %6: f64[3] = aten::mul.Tensor(self=%5, other=%1)
  %7: f32[3] = aten::_to_copy(self=%0, dtype=f32, layout=None, device=None, pin_memory=None, non_blocking=false, memory_format=None)
  %8: bool[3] = aten::lt.Tensor(self=%7, other=%2)
  return (%4, %6, %8)
}
)");
}

TEST_CASE("what no rule does exactly stays, with a reason") {
  struct Kept {
    const char *text, *why;
  };
  for (auto [text, why] :
       {Kept{"graph(%0: f32[2]) { %1: f32[2] = aten::bernoulli.p(self=%0, p=0.5, generator=None) return (%1) }",
             "no lowering rule"},
        Kept{"graph(%0: c64[2]) { %1: c64[2] = aten::logaddexp(self=%0, other=%0) return (%1) }", "complex numbers"},
        Kept{"graph(%0: f32[]) { [2.5] = aten::_local_scalar_dense(self=%0) return () }", "its result is a number"},
        Kept{"graph(%0: f32[3], %1: bool[3]) { %2: f32[2] = aten::index.Tensor(self=%0, indices=[%1]) return (%2) }",
             "data-dependent size"},
        Kept{"graph(%0: f32[2]) { %1: f32[2] = aten::add.Scalar(self=%0, other=1e50, alpha=1) return (%1) }",
             "a number does not fit the dtype"},
        Kept{"graph(%0: f32[2]) { %1: f64[2] = aten::exp(self=%0) return (%1) }", "the rule gives f32[2] for f64[2]"},
        Kept{"graph(%0: f32[4]) { _ = aten::add_.Tensor(self=%0, other=%0, alpha=1) shared(%0 -> %1: f32[4], self @ "
             "0: f32[2], other @ 4: f32[2]) return (%1) }",
             "operands share memory and one of them is written"}}) {
    precast::ir::Graph g = precast::ir::parse(text);
    std::string before = print(g);
    CHECK(why_kept(g, g.nodes[0]) == why);
    to_core(g);
    CHECK(print(g) == before);
  }
  precast::ir::Graph g = precast::ir::parse("graph(%0: f32[2]) { %1: f32[2] = aten::exp(self=%0) return (%1) }");
  CHECK(why_kept(g, g.nodes[0]) == "");
}

TEST_CASE("an op in place on memory that it also reads is its twin, if it writes apart from what it reads") {
  const std::string graph = R"(graph(%0: f32[2,8]) {
  %1: f32[2,2]{8,1} = prim::view(base=%0, offset=0)
  %2: f32[2,2]{8,1} = prim::view(base=%0, offset=16)
  _ = aten::copy_(self=%1, src=%2, non_blocking=false) shared(%0 -> %3: f32[2,8], self @ 0: f32[2,2]{8,1}, src @ OFFSET: f32[2,2]{8,1})
  return (%3)
})";
  auto with = [&](const char* offset) {
    std::string text = graph;
    text.replace(text.find("OFFSET"), 6, offset);
    return core(text);
  };
  CHECK(with("16") == R"(graph(%0: f32[2,8]) {
  %1: f32[2,2]{8,1} = prim::view(base=%0, offset=16)
  %2: f32[2,8] = prim::scatter(base=%0, src=%1, offset=0, sizes=[2, 2], strides=[8, 1])
  return (%2)
}
)");
  CHECK(with("4").find("aten::copy_") != std::string::npos);
}
