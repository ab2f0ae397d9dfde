// Reads and writes through index tensors: values, wrap, bounds.
#include "check.h"

using compiled::check;

TEST_CASE("reads through an index") {
  check({
      {"gather and select",
       R"(graph(%0: f32[5,7], %1: i64[5,3], %2: i64[4], %3: i32[4]) {
         %4: f32[5,3] = aten::gather(self=%0, dim=1, index=%1, sparse_grad=false)
         %5: f32[4,7] = aten::index_select(self=%0, dim=0, index=%2)
         %6: f32[5,4] = aten::index_select(self=%0, dim=1, index=%3)
         %7: f32[5,3] = aten::exp(self=%4)
         return (%4, %5, %6, %7)
       })",
       1e-5,
       1e-6,
       {{1, 7}, {2, 5}, {3, 7}}},
      {"embedding, then a sum",
       R"(graph(%0: f32[11,24], %1: i64[2,6], %2: f32[6,24]) {
         %3: f32[2,6,24] = aten::embedding(weight=%0, indices=%1, padding_idx=-1, scale_grad_by_freq=false, sparse=false)
         %4: f32[2,6,24] = aten::add.Tensor(self=%3, other=%2, alpha=1)
         return (%4)
       })",
       1e-5,
       1e-6,
       {{1, 11}}},
      {"advanced indexing",
       R"(graph(%0: f32[5,6,7], %1: i64[3], %2: i64[2,3], %3: i64[3]) {
         %4: f32[3,6,7] = aten::index.Tensor(self=%0, indices=[%1])
         %5: f32[5,2,3,7] = aten::index.Tensor(self=%0, indices=[None, %2])
         %6: f32[2,3,7] = aten::index.Tensor(self=%0, indices=[%1, %2])
         %7: f32[3,6] = aten::index.Tensor(self=%0, indices=[%1, None, %3])
         %8: f32[5,2,3] = aten::index.Tensor(self=%0, indices=[None, %1, %2])
         return (%4, %5, %6, %7, %8)
       })",
       1e-5,
       1e-6,
       {{1, 5}, {2, 5}, {3, 5}}},
  });
}

TEST_CASE("writes through an index") {
  check({
      {"scatters",
       R"(graph(%0: f32[5,7], %1: i64[4,7], %2: f32[4,7], %3: i64[5,3], %4: f32[5,3]) {
         %5: f32[5,7] = aten::scatter_add(self=%0, dim=0, index=%1, src=%2)
         %6: f32[5,7] = aten::scatter.value(self=%0, dim=1, index=%3, value=3.5)
         %7: f32[5,7] = aten::scatter.src(self=%0, dim=1, index=%3, src=%4)
         %8: f32[5,7] = aten::scatter_reduce.two(self=%0, dim=0, index=%1, src=%2, reduce="amax", include_self=true)
         %9: f32[5,7] = aten::scatter_reduce.two(self=%0, dim=0, index=%1, src=%2, reduce="prod", include_self=true)
         return (%5, %6, %7, %8, %9)
       })",
       1e-5,
       1e-5,
       {{1, 5}, {3, 7}}},
      {"index_add and index_put",
       R"(graph(%0: f32[6,40], %1: i64[9], %2: f32[9,40], %3: i64[3], %4: f32[3,40], %5: f32[]) {
         %6: f32[6,40] = aten::index_add(self=%0, dim=0, index=%1, source=%2, alpha=1)
         %7: f32[6,40] = aten::index_put(self=%0, indices=[%3], values=%4, accumulate=true)
         %8: f32[6,40] = aten::index_put(self=%0, indices=[%3], values=%5, accumulate=false)
         %9: f32[6,40] = aten::index_put(self=%0, indices=[None, %3], values=%5, accumulate=true)
         %10: f32[6,40] = aten::exp(self=%6)
         return (%6, %7, %8, %9, %10)
       })",
       1e-5,
       1e-5,
       {{1, 6}, {3, 6}}},
      {"embedding backward",
       R"(graph(%0: f32[2,5,33], %1: i64[2,5]) {
         %2: f32[8,33] = aten::embedding_dense_backward(grad_output=%0, indices=%1, num_weights=8, padding_idx=-1, scale_grad_by_freq=false)
         %3: f32[8,33] = aten::embedding_dense_backward(grad_output=%0, indices=%1, num_weights=8, padding_idx=2, scale_grad_by_freq=false)
         return (%2, %3)
       })",
       1e-5,
       1e-5,
       {{1, 8}}},
      {"write, then read in the same graph",
       R"(graph(%0: f32[1,4], %1: i64[6], %2: f32[6,4], %3: i64[3]) {
         %4: f32[1,4] = aten::index_add(self=%0, dim=0, index=%1, source=%2, alpha=1)
         %5: f32[3,4] = aten::index_select(self=%4, dim=0, index=%3)
         return (%5)
       })",
       1e-5,
       1e-5,
       {{1, 1}, {3, 1}}},
  });
}

TEST_CASE("bounds are eager's") {
  compiled::Batch batch;
  const int gather = batch.add(R"(graph(%0: f32[5,7], %1: i64[5,20]) {
    %2: f32[5,20] = aten::gather(self=%0, dim=1, index=%1, sparse_grad=false)
    return (%2)
  })");
  const int index = batch.add(R"(graph(%0: f32[5], %1: i64[3]) {
    %2: f32[3] = aten::index.Tensor(self=%0, indices=[%1])
    return (%2)
  })");
  const int put = batch.add(R"(graph(%0: f32[5], %1: i64[3], %2: f32[3]) {
    %3: f32[5] = aten::index_put(self=%0, indices=[%1], values=%2, accumulate=false)
    return (%3)
  })");
  batch.compile();
  auto in = compiled::random_inputs(batch.graph(gather), {"", "", 0, 0, {{1, 7}}}, 1);
  CHECK(batch.run(gather, in).code == 0);
  in[1].set(99, 7);
  auto r = batch.run(gather, in);
  CHECK(r.code == PRECAST_RUN);
  CHECK(r.message == "aten::gather: index 7 is out of bounds for dimension 1 with size 7");
  in[1].set(99, -1);
  CHECK(batch.run(gather, in).message == "aten::gather: index -1 is out of bounds for dimension 1 with size 7");

  in = compiled::random_inputs(batch.graph(index), {"", "", 0, 0, {{1, 5}}}, 2);
  in[1].set(0, -1), in[1].set(1, 0), in[1].set(2, -5);
  r = batch.run(index, in);
  CHECK(r.outputs[0].get(0) == in[0].get(4));
  CHECK(r.outputs[0].get(1) == in[0].get(0));
  CHECK(r.outputs[0].get(2) == in[0].get(0));
  in[1].set(2, -6);
  CHECK(batch.run(index, in).message == "aten::index.Tensor: index -6 is out of bounds for dimension 0 with size 5");

  in = compiled::random_inputs(batch.graph(put), {"", "", 0, 0, {{1, 5}}}, 3);
  in[1].set(1, 5);
  CHECK(batch.run(put, in).message == "aten::index_put: index 5 is out of bounds for dimension 0 with size 5");
}
