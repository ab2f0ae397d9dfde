// Graphs with symbols: compiled once, run at many sizes, 0 and 1 among them, against the graph of those sizes.
#include "check_open.h"

using compiled::Batch;
using compiled::check_open;
using compiled::Dynamic;

TEST_CASE("dynamic: pointwise, broadcasts and views") {
  check_open({
      {"chain", R"(graph(%0: f32[u0,3], %1: f32[3], %2: f32[u0,1]) {
         %3: f32[u0,3] = aten::add.Tensor(self=%0, other=%1, alpha=1)
         %4: f32[u0,3] = aten::mul.Tensor(self=%3, other=%2)
         %5: f32[u0,3] = aten::tanh(self=%4)
         return (%5)
       })"},
      {"many dims", R"(graph(%0: f32[2,u0,5,u0], %1: f32[u0,1,u0]) {
         %2: f32[2,u0,5,u0] = aten::sub.Tensor(self=%0, other=%1, alpha=1)
         return (%2)
       })"},
      {"two symbols",
       R"(graph(%0: f32[u0,u1], %1: f32[u1]) {
         %2: f32[u0,u1] = aten::mul.Tensor(self=%0, other=%1)
         %3: f32[u1,u0]{1,u1} = prim::view(base=%2, offset=0)
         %4: f32[u1,u0] = aten::exp(self=%3)
         return (%4)
       })",
       {"u0 in [0, inf) hint 8", "u1 in [0, inf) hint 30"}},
      {"flattened and back",
       R"(graph(%0: f32[u0,3,u1]) {
         %1: f32[u0,3,u1] = aten::neg(self=%0)
         %2: f32[3*u0*u1] = prim::view(base=%1, offset=0)
         %3: f32[3*u0*u1] = aten::relu(self=%2)
         %4: f32[3*u0,u1] = prim::view(base=%3, offset=0)
         %5: f32[3*u0,u1] = aten::sigmoid(self=%4)
         return (%3, %5)
       })",
       {"u0 in [0, inf) hint 8", "u1 in [0, inf) hint 5"}},
      {"a row of each", R"(graph(%0: f32[u0,4,6]) {
         %1: f32[u0,4,6] = aten::neg(self=%0)
         %2: f32[u0,6]{24,1} = prim::view(base=%1, offset=48)
         %3: f32[u0,6] = aten::abs(self=%2)
         return (%3)
       })"},
      {"the last rows", R"(graph(%0: f32[u0+2,5]) {
         %1: f32[u0+2,5] = aten::neg(self=%0)
         %2: f32[2,5] = prim::view(base=%1, offset=20*u0)
         %3: f32[2,5] = aten::abs(self=%2)
         return (%3)
       })"},
      {"mask of positions", R"(graph(%0: f32[u0,u0]) {
         %1: i64[u0] = aten::arange.start_step(start=0, end=u0, step=1, dtype=i64, layout=None, device=cpu, pin_memory=None)
         %2: i64[1,u0] = prim::view(base=%1, offset=0)
         %3: i64[u0,1] = prim::view(base=%1, offset=0)
         %4: bool[u0,u0] = aten::le.Tensor(self=%2, other=%3)
         %5: f32[] = aten::full(size=int[], fill_value=0.0, dtype=f32, layout=None, device=cpu, pin_memory=None)
         %6: f32[u0,u0] = aten::where.self(condition=%4, self=%0, other=%5)
         return (%6, %4)
       })"},
      {"a size as a number", R"(graph(%0: f32[u0,3], %1: i64[3]) {
         %2: f32[u0,3] = aten::div.Scalar(self=%0, other=u0+1)
         %3: i64[3] = aten::add.Scalar(self=%1, other=2*u0, alpha=1)
         %4: f32[u0] = aten::full(size=[u0], fill_value=u0, dtype=f32, layout=None, device=cpu, pin_memory=None)
         return (%2, %3, %4)
       })"},
      {"half precision",
       R"(graph(%0: bf16[u0,9], %1: bf16[9]) {
         %2: bf16[u0,9] = aten::add.Tensor(self=%0, other=%1, alpha=1)
         %3: bf16[u0,9] = aten::div.Scalar(self=%2, other=u0+3)
         %4: f32[u0,9] = aten::_to_copy(self=%3, dtype=f32, layout=None, device=None, pin_memory=None, non_blocking=false, memory_format=None)
         return (%4)
       })",
       {"u0 in [0, inf) hint 8"},
       {},
       0,
       1e-2,
       1e-2},
      {"a window is overwritten", R"(graph(%0: f32[u0,6], %1: f32[u0,2]) {
         %2: f32[u0,6] = aten::exp(self=%0)
         %3: f32[u0,6] = prim::scatter(base=%2, src=%1, offset=8, sizes=[u0, 2], strides=[6, 1])
         return (%3)
       })"},
      {"values of another dtype in between", R"(graph(%0: f32[u0], %1: f64[u0]) {
         %2: f64[u0] = aten::_to_copy(self=%0, dtype=f64, layout=None, device=None, pin_memory=None, non_blocking=false, memory_format=None)
         %3: f64[u0] = aten::mul.Tensor(self=%2, other=%1)
         %4: f64[u0] = aten::sin(self=%3)
         return (%4, %2)
       })"},
      {"an op of the host",
       R"(graph(%0: f32[u0,3]) {
         %1: f32[u0,3] = aten::neg(self=%0)
         %2: f32[u0,3] = aten::roll(self=%1, shifts=[1], dims=[0])
         %3: f32[u0,3] = aten::exp(self=%2)
         return (%3)
       })",
       {"u0 in [0, inf) hint 8"},
       {},
       1},
  });
}

TEST_CASE("dynamic: reductions and scans") {
  check_open({
      {"softmax of dynamic rows",
       R"(graph(%0: f32[6,u0]) {
         %1: f32[6,u0] = aten::neg(self=%0)
         %2: f32[6,1] = aten::sum.dim_IntList(self=%1, dim=[1], keepdim=true, dtype=None)
         %3: f32[6,u0] = aten::sub.Tensor(self=%1, other=%2, alpha=1)
         %4: f32[6,u0] = aten::exp(self=%3)
         %5: f32[6,1] = aten::sum.dim_IntList(self=%4, dim=[1], keepdim=true, dtype=None)
         %6: f32[6,u0] = aten::div.Tensor(self=%4, other=%5)
         return (%6)
       })",
       {"u0 in [0, inf) hint 8"},
       {},
       0,
       1e-3,
       1e-3},
      {"softmax of so many rows", R"(graph(%0: f32[u0,37]) {
         %1: f32[u0,1] = aten::amax(self=%0, dim=[1], keepdim=true)
         %2: f32[u0,37] = aten::sub.Tensor(self=%0, other=%1, alpha=1)
         %3: f32[u0,37] = aten::exp(self=%2)
         %4: f32[u0,1] = aten::sum.dim_IntList(self=%3, dim=[1], keepdim=true, dtype=None)
         %5: f32[u0,37] = aten::div.Tensor(self=%3, other=%4)
         return (%5)
       })"},
      {"over the middle",
       R"(graph(%0: f32[u1,u0,21]) {
         %1: f32[u1,21] = aten::sum.dim_IntList(self=%0, dim=[1], keepdim=false, dtype=None)
         %2: bool[u1,1,21] = aten::any.dims(self=%0, dim=[1], keepdim=true)
         return (%1, %2)
       })",
       {"u0 in [0, inf) hint 8", "u1 in [0, inf) hint 30"}},
      {"down columns, and of all",
       R"(graph(%0: f32[u0,130]) {
         %1: f32[130] = aten::sum.dim_IntList(self=%0, dim=[0], keepdim=false, dtype=None)
         %2: f32[] = aten::sum.dim_IntList(self=%0, dim=int[], keepdim=false, dtype=None)
         %3: f32[] = aten::div.Scalar(self=%2, other=130*u0)
         return (%1, %2, %3)
       })",
       {"u0 in [0, inf) hint 600"}},
      {"layer norm",
       R"(graph(%0: f32[u0,u1,48], %1: f32[48]) {
         %3: f32[u0,u1,1] = aten::sum.dim_IntList(self=%0, dim=[2], keepdim=true, dtype=None)
         %4: f32[u0,u1,1] = aten::mul.Scalar(self=%3, other=0.020833333333333332)
         %5: f32[u0,u1,48] = aten::sub.Tensor(self=%0, other=%4, alpha=1)
         %6: f32[u0,u1,48] = aten::mul.Tensor(self=%5, other=%5)
         %7: f32[u0,u1,1] = aten::sum.dim_IntList(self=%6, dim=[2], keepdim=true, dtype=None)
         %8: f32[u0,u1,1] = aten::rsqrt(self=%7)
         %9: f32[u0,u1,48] = aten::mul.Tensor(self=%5, other=%8)
         %10: f32[u0,u1,48] = aten::mul.Tensor(self=%9, other=%1)
         return (%10, %8)
       })",
       {"u0 in [0, inf) hint 8", "u1 in [0, inf) hint 30"}},
      {"batch norm",
       R"(graph(%0: f32[u0,3,5,6], %1: f32[3]) {
         %2: f32[1,3,1,1] = aten::sum.dim_IntList(self=%0, dim=[0, 2, 3], keepdim=true, dtype=None)
         %3: f32[1,3,1,1] = aten::div.Scalar(self=%2, other=30*u0)
         %4: f32[u0,3,5,6] = aten::sub.Tensor(self=%0, other=%3, alpha=1)
         %5: f32[u0,3,5,6] = aten::mul.Tensor(self=%4, other=%4)
         %6: f32[1,3,1,1] = aten::sum.dim_IntList(self=%5, dim=[0, 2, 3], keepdim=true, dtype=None)
         %7: f32[1,3,1,1] = aten::add.Scalar(self=%6, other=1e-05, alpha=1)
         %8: f32[1,3,1,1] = aten::rsqrt(self=%7)
         %9: f32[u0,3,5,6] = aten::mul.Tensor(self=%4, other=%8)
         %10: f32[3,1,1] = prim::view(base=%1, offset=0)
         %11: f32[u0,3,5,6] = aten::mul.Tensor(self=%9, other=%10)
         return (%11, %3)
       })",
       {"u0 in [0, inf) hint 8"},
       {},
       0,
       1e-4,
       1e-4},
      {"running sums",
       R"(graph(%0: f32[u0,u1]) {
         %1: f32[u0,u1] = aten::cumsum(self=%0, dim=0, dtype=None)
         %2: f32[u0,u1] = aten::cumprod(self=%0, dim=1, dtype=None)
         return (%1, %2)
       })",
       {"u0 in [0, inf) hint 8", "u1 in [0, inf) hint 30"}},
  });
}

TEST_CASE("dynamic: the greatest of rows that are not empty") {
  check_open({{"arg of rows", R"(graph(%0: f32[u0,5], %1: f32[5,u0+1]) {
         %2: i64[u0] = aten::argmax(self=%0, dim=1, keepdim=false)
         %3: i64[5,1] = aten::argmin(self=%1, dim=1, keepdim=true)
         %4: f32[5] = aten::amax(self=%1, dim=[1], keepdim=false)
         return (%2, %3, %4)
       })"}});
}

TEST_CASE("dynamic: indices") {
  check_open({
      {"embedding and its backward",
       R"(graph(%0: f32[11,6], %1: i64[u0,3], %2: f32[u0,3,6]) {
         %3: f32[u0,3,6] = aten::embedding(weight=%0, indices=%1, padding_idx=-1, scale_grad_by_freq=false, sparse=false)
         %4: f32[11,6] = aten::embedding_dense_backward(grad_output=%2, indices=%1, num_weights=11, padding_idx=-1, scale_grad_by_freq=false)
         return (%3, %4)
       })",
       {"u0 in [0, inf) hint 8"},
       {{1, 11}}},
      {"gather and scatter",
       R"(graph(%0: f32[u0,5], %1: i64[u0,2], %2: f32[u0,2]) {
         %3: f32[u0,2] = aten::gather(self=%0, dim=1, index=%1, sparse_grad=false)
         %4: f32[u0,5] = aten::scatter.src(self=%0, dim=1, index=%1, src=%2)
         %5: f32[u0,5] = aten::scatter_add(self=%0, dim=1, index=%1, src=%2)
         return (%3, %4, %5)
       })",
       {"u0 in [0, inf) hint 8"},
       {{1, 5}}},
      {"advanced index",
       R"(graph(%0: f32[9,4,u0], %1: i64[u0], %2: i64[3,1]) {
         %3: f32[3,u0,u0] = aten::index.Tensor(self=%0, indices=[%2, %1])
         return (%3)
       })",
       {"u0 in [0, inf) hint 8"},
       {{1, 4}, {2, 9}}},
  });
}

TEST_CASE("dynamic: joins, borders, repeats") {
  check_open({
      {"cat",
       R"(graph(%0: f32[u0,3], %1: f32[u1,3], %2: f32[2,3]) {
         %3: f32[u0+u1+2,3] = aten::cat(tensors=[%0, %1, %2], dim=0)
         %4: f32[u0+u1+2,3] = aten::neg(self=%3)
         return (%4)
       })",
       {"u0 in [0, inf) hint 8", "u1 in [0, inf) hint 30"}},
      {"cat along the rows", R"(graph(%0: f32[2,u0], %1: f32[2,3]) {
         %2: f32[2,u0+3] = aten::cat(tensors=[%0, %1], dim=1)
         return (%2)
       })"},
      {"pad", R"(graph(%0: f32[u0,3,4]) {
         %1: f32[u0,5,4] = aten::constant_pad_nd(self=%0, pad=[0, 0, 1, 1], value=2.5)
         %2: f32[u0+3,3,4] = aten::constant_pad_nd(self=%0, pad=[0, 0, 0, 0, 1, 2], value=0.5)
         return (%1, %2)
       })"},
      {"flip", R"(graph(%0: f32[u0,3]) {
         %1: f32[u0,3] = aten::flip(self=%0, dims=[0, 1])
         return (%1)
       })"},
      {"repeat", R"(graph(%0: f32[u0,3]) {
         %1: f32[u0,6] = aten::repeat(self=%0, repeats=[1, 2])
         return (%1)
       })"},
  });
}

TEST_CASE("dynamic: matrix products") {
  const std::vector<std::string> two = {"u0 in [0, inf) hint 8", "u1 in [0, inf) hint 30"};
  std::vector<Dynamic> all = {
      {.name = "rows, with what follows", .text = R"(graph(%0: f32[u0,40], %1: f32[40,37], %2: f32[37]) {
         %3: f32[u0,37] = aten::mm(self=%0, mat2=%1)
         %4: f32[u0,37] = aten::add.Tensor(self=%3, other=%2, alpha=1)
         %5: f32[u0,37] = aten::relu(self=%4)
         return (%5)
       })"},
      {.name = "rows by transposed weights", .text = R"(graph(%0: f32[u0,40], %1: f32[40,70]{1,40}) {
         %2: f32[u0,70] = aten::mm(self=%0, mat2=%1)
         return (%2)
       })"},
      {.name = "summed over",
       .text = R"(graph(%0: f32[20,u0]{1,20}, %1: f32[u0,30], %2: f32[20,u0], %3: f32[u0,30]{1,u0}) {
         %4: f32[20,30] = aten::mm(self=%0, mat2=%1)
         %5: f32[20,30] = aten::mm(self=%2, mat2=%3)
         return (%4, %5)
       })",
       .relative = 1e-3,
       .absolute = 1e-3,
       .sizes = {{0}, {1}, {2}, {31}, {513}, {4096}, {5000}}},
      {.name = "rows and columns",
       .text = R"(graph(%0: f32[u0,24], %1: f32[24,u1], %2: f32[u1]) {
         %3: f32[u0,u1] = aten::mm(self=%0, mat2=%1)
         %4: f32[u0,u1] = aten::mul.Tensor(self=%3, other=%2)
         return (%4, %3)
       })",
       .symbols = two},
      {.name = "a result that lies transposed", .text = R"(graph(%0: f32[u0,24], %1: f32[24,33]) {
         %2: f32[u0,33]{1,u0} = aten::mm(self=%0, mat2=%1)
         %3: f32[33,u0] = prim::view(base=%2, offset=0)
         %4: f32[33,u0] = aten::exp(self=%3)
         return (%4)
       })"},
      {.name = "all of them",
       .text = R"(graph(%0: f32[u0,u1,u0], %1: f32[u0,u0,u1]) {
         %2: f32[u0,u1,u1] = aten::bmm(self=%0, mat2=%1)
         return (%2)
       })",
       .symbols = two,
       .sizes = {{0, 3}, {3, 0}, {1, 1}, {5, 2}, {17, 33}, {40, 70}}},
      {.name = "scores of attention",
       .text = R"(graph(%0: f32[4,u0,16], %1: f32[4,u0,16]) {
         %2: f32[4,16,u0]{16*u0,1,16} = prim::view(base=%1, offset=0)
         %3: f32[4,u0,u0] = aten::bmm(self=%0, mat2=%2)
         %4: f32[4,u0,1] = aten::amax(self=%3, dim=[2], keepdim=true)
         %5: f32[4,u0,u0] = aten::sub.Tensor(self=%3, other=%4, alpha=1)
         %6: f32[4,u0,u0] = aten::exp(self=%5)
         %7: f32[4,u0,1] = aten::sum.dim_IntList(self=%6, dim=[2], keepdim=true, dtype=None)
         %8: f32[4,u0,u0] = aten::div.Tensor(self=%6, other=%7)
         %9: f32[4,u0,16] = aten::bmm(self=%8, mat2=%0)
         return (%9)
       })",
       .sizes = {{1}, {2}, {7}, {33}, {100}}},
      {.name = "of another layout", .text = R"(graph(%0: f32[u0,8,12]{12,12*u0,1}, %1: f32[8,12,5]{5,40,1}) {
         %2: f32[8,u0,12]{12*u0,12,1} = prim::view(base=%0, offset=0)
         %3: f32[8,u0,5] = aten::bmm(self=%2, mat2=%1)
         return (%3)
       })"},
      {.name = "doubles", .text = R"(graph(%0: f64[u0,40], %1: f64[40,37]) {
         %2: f64[u0,37] = aten::mm(self=%0, mat2=%1)
         return (%2)
       })"},
      {.name = "halves",
       .text = R"(graph(%0: bf16[u0,40], %1: bf16[40,37]) {
         %2: bf16[u0,37] = aten::mm(self=%0, mat2=%1)
         return (%2)
       })",
       .relative = 1e-2,
       .absolute = 1e-2},
      {.name = "a convolution of so many pictures, and its gradients",
       .text = R"(graph(%0: f32[u0,3,9,10], %1: f32[6,3,3,3], %2: f32[u0,6,7,8]) {
         %3: f32[u0,3,7,8,3,3]{270,90,10,1,10,1} = prim::view(base=%0, offset=0)
         %4: f32[u0,6,7,8] = aten::einsum(equation="bchwkl,ockl->bohw", tensors=[%3, %1], path=None)
         %5: f32[6,3,3,3] = aten::einsum(equation="bohw,bchwkl->ockl", tensors=[%2, %3], path=None)
         return (%4, %5)
       })",
       .relative = 1e-4,
       .absolute = 1e-4,
       .sizes = {{0}, {1}, {2}, {7}, {80}}},
      {.name = "a convolution of any size",
       .text = R"(graph(%0: f32[2,3,u0+2,u1+2], %1: f32[6,3,3,3]) {
         %2: f32[2,3,u0,u1,3,3]{3*u0*u1+6*u0+6*u1+12,u0*u1+2*u0+2*u1+4,u1+2,1,u1+2,1} = prim::view(base=%0, offset=0)
         %3: f32[2,6,u0,u1] = aten::einsum(equation="bchwkl,ockl->bohw", tensors=[%2, %1], path=None)
         return (%3)
       })",
       .symbols = two,
       .sizes = {{1, 1}, {0, 5}, {7, 3}, {20, 17}}},
  };
  check_open(all);
}

TEST_CASE("dynamic: an index into a dimension that comes out empty") {
  Batch batch;
  const int i = batch.add(R"(symbols: u0 in [0, inf) hint 8, u1 in [0, inf) hint 4
graph(%0: f32[u0,500], %1: i64[u1], %2: f32[u1,500]) {
  %3: f32[u1,500] = aten::index_select(self=%0, dim=0, index=%1)
  %4: f32[u1,500] = aten::neg(self=%3)
  %5: f32[u0,500] = aten::index_add(self=%0, dim=0, index=%1, source=%2, alpha=1)
  return (%4, %5)
})");
  batch.compile();
  CHECK(batch.emitted(i).host_ops.empty());
  const auto run = [&](const std::vector<int64_t>& sizes) {
    const precast::ir::Graph g = batch.with_sizes(i, sizes);
    auto inputs =
        compiled::random_inputs(g, {.name = {}, .text = {}, .below = {{1, std::max<int64_t>(sizes[0], 1)}}}, 7);
    return batch.run(i, sizes, inputs);
  };
  CHECK(run({3, 5}).code == 0);
  CHECK(run({3, 0}).code == 0);
  CHECK(run({0, 0}).code == 0);
  const auto r = run({0, 5});
  CHECK(r.code == PRECAST_RUN);
  CHECK(r.message.find("index 0 is out of bounds for dimension 0 with size 0") != std::string::npos);
}
