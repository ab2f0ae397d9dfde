// Reductions, scans, views, host ops and the shapes around the vector width.
#include <random>

#include "check.h"

using compiled::check;
using compiled::Program;

TEST_CASE("fused rows") {
  check({
      {"softmax", R"(graph(%0: f32[6,37]) {
         %1: f32[6,1] = aten::amax(self=%0, dim=[1], keepdim=true)
         %2: f32[6,37] = aten::sub.Tensor(self=%0, other=%1, alpha=1)
         %3: f32[6,37] = aten::exp(self=%2)
         %4: f32[6,1] = aten::sum.dim_IntList(self=%3, dim=[1], keepdim=true, dtype=None)
         %5: f32[6,37] = aten::div.Tensor(self=%3, other=%4)
         return (%5)
       })"},
      {"softmax over the middle", R"(graph(%0: f32[3,9,21]) {
         %1: f32[3,1,21] = aten::amax(self=%0, dim=[1], keepdim=true)
         %2: f32[3,9,21] = aten::sub.Tensor(self=%0, other=%1, alpha=1)
         %3: f32[3,9,21] = aten::exp(self=%2)
         %4: f32[3,1,21] = aten::sum.dim_IntList(self=%3, dim=[1], keepdim=true, dtype=None)
         %5: f32[3,9,21] = aten::div.Tensor(self=%3, other=%4)
         return (%5)
       })"},
      {"layer norm and its statistics", R"(graph(%0: f32[2,5,48], %1: f32[48], %2: f32[48]) {
         %3: f32[2,5,1] = aten::sum.dim_IntList(self=%0, dim=[2], keepdim=true, dtype=None)
         %4: f32[2,5,1] = aten::mul.Scalar(self=%3, other=0.020833333333333332)
         %5: f32[2,5,48] = aten::sub.Tensor(self=%0, other=%4, alpha=1)
         %6: f32[2,5,48] = aten::mul.Tensor(self=%5, other=%5)
         %7: f32[2,5,1] = aten::sum.dim_IntList(self=%6, dim=[2], keepdim=true, dtype=None)
         %8: f32[2,5,1] = aten::mul.Scalar(self=%7, other=0.020833333333333332)
         %9: f32[2,5,1] = aten::add.Scalar(self=%8, other=1e-05, alpha=1)
         %10: f32[2,5,1] = aten::rsqrt(self=%9)
         %11: f32[2,5,48] = aten::mul.Tensor(self=%5, other=%10)
         %12: f32[2,5,48] = aten::mul.Tensor(self=%11, other=%1)
         %13: f32[2,5,48] = aten::add.Tensor(self=%12, other=%2, alpha=1)
         return (%13, %4, %10)
       })"},
      {"batch norm", R"(graph(%0: f32[4,3,5,6], %1: f32[3]) {
         %2: f32[1,3,1,1] = aten::sum.dim_IntList(self=%0, dim=[0, 2, 3], keepdim=true, dtype=None)
         %3: f32[1,3,1,1] = aten::mul.Scalar(self=%2, other=0.008333333333333333)
         %4: f32[4,3,5,6] = aten::sub.Tensor(self=%0, other=%3, alpha=1)
         %5: f32[4,3,5,6] = aten::mul.Tensor(self=%4, other=%4)
         %6: f32[1,3,1,1] = aten::sum.dim_IntList(self=%5, dim=[0, 2, 3], keepdim=true, dtype=None)
         %7: f32[1,3,1,1] = aten::mul.Scalar(self=%6, other=0.008333333333333333)
         %8: f32[1,3,1,1] = aten::add.Scalar(self=%7, other=1e-05, alpha=1)
         %9: f32[1,3,1,1] = aten::rsqrt(self=%8)
         %10: f32[4,3,5,6] = aten::mul.Tensor(self=%4, other=%9)
         %11: f32[3,1,1] = prim::view(base=%1, offset=0)
         %12: f32[4,3,5,6] = aten::mul.Tensor(self=%10, other=%11)
         %13: f32[3] = prim::view(base=%7, offset=0)
         %14: f32[3] = aten::mul.Scalar(self=%13, other=0.1)
         return (%12, %14)
       })"},
      {"linear on three dims with its bias gradient", R"(graph(%0: f32[2,4,24], %1: f32[24]) {
         %2: f32[2,4,24] = aten::add.Tensor(self=%0, other=%1, alpha=1)
         %3: f32[8,24] = prim::view(base=%2, offset=0)
         %4: f32[8,24] = aten::tanh(self=%3)
         %5: f32[24] = aten::sum.dim_IntList(self=%4, dim=[0], keepdim=false, dtype=None)
         return (%4, %5)
       })"},
  });
}

TEST_CASE("reductions over every dim and dtype") {
  std::vector<Program> programs;
  for (const char* dtype : {"f32", "f64", "f16", "bf16", "i64", "i32", "i8", "u8"}) {
    for (const char* dims : {"0", "1", "2", "0, 2", "0, 1, 2"}) {
      if (std::string(dtype).size() == 2 && dims[0] != '0') continue;
      std::string kept = "[1,1,1]";
      const std::string d = dims;
      kept = std::string("[") + (d.find('0') != d.npos ? "1" : "5") + "," + (d.find('1') != d.npos ? "1" : "3") + "," +
             (d.find('2') != d.npos ? "1" : "19") + "]";
      const std::string t = dtype;
      std::string text = "graph(%0: " + t + "[5,3,19]) {\n";
      text += "%1: " + t + kept + " = aten::sum.dim_IntList(self=%0, dim=[" + d + "], keepdim=true, dtype=None)\n";
      text += "%2: " + t + kept + " = aten::amax(self=%0, dim=[" + d + "], keepdim=true)\n";
      text += "%3: " + t + kept + " = aten::amin(self=%0, dim=[" + d + "], keepdim=true)\n";
      if (d.size() == 1) {
        text += "%4: i64" + kept + " = aten::argmax(self=%0, dim=" + d + ", keepdim=true)\n";
        text += "%5: i64" + kept + " = aten::argmin(self=%0, dim=" + d + ", keepdim=true)\n";
      } else {
        text += "%4: i64[] = aten::argmax(self=%0, dim=None, keepdim=false)\n";
        text += "%5: i64[] = aten::argmin(self=%0, dim=None, keepdim=false)\n";
      }
      text += "return (%1, %2, %3, %4, %5)\n}";
      const bool half = t == "f16" || t == "bf16";
      programs.push_back({t + " over " + d, text, half ? 1e-2 : 1e-5, half ? 1e-2 : 1e-5});
    }
  }
  programs.push_back({"bool", R"(graph(%0: bool[7,33]) {
    %1: bool[7] = aten::any.dims(self=%0, dim=[1], keepdim=false)
    %2: bool[33] = aten::all.dims(self=%0, dim=[0], keepdim=false)
    %3: i64[7] = aten::argmax(self=%0, dim=1, keepdim=false)
    %4: bool[7] = aten::amax(self=%0, dim=[1], keepdim=false)
    return (%1, %2, %3, %4)
  })"});
  programs.push_back({"prod, of a transposed input", R"(graph(%0: f32[9,4]{1,9}, %1: i64[5]) {
    %2: f32[9] = aten::prod.dim_int(self=%0, dim=1, keepdim=false, dtype=None)
    %3: f32[4] = aten::prod.dim_int(self=%0, dim=0, keepdim=false, dtype=None)
    %4: i64[] = aten::prod.dim_int(self=%1, dim=0, keepdim=false, dtype=None)
    return (%2, %3, %4)
  })",
                      1e-4, 1e-4});
  programs.push_back({"0-dim and empty", R"(graph(%0: f32[], %1: f32[0,3], %2: f32[3,0]) {
    %3: f32[] = aten::sum.dim_IntList(self=%0, dim=[0], keepdim=false, dtype=None)
    %4: i64[] = aten::argmax(self=%0, dim=0, keepdim=false)
    %5: f32[3] = aten::sum.dim_IntList(self=%1, dim=[0], keepdim=false, dtype=None)
    %6: f32[3] = aten::prod.dim_int(self=%2, dim=1, keepdim=false, dtype=None)
    %7: f32[0] = aten::sum.dim_IntList(self=%1, dim=[1], keepdim=false, dtype=None)
    %8: f32[0,3] = aten::exp(self=%1)
    %9: f32[] = aten::cumsum(self=%0, dim=0, dtype=None)
    return (%3, %4, %5, %6, %7, %8, %9)
  })"});
  check(programs);
}

TEST_CASE("lengths around the vector width") {
  std::vector<Program> programs;
  for (const int n : {1, 2, 3, 7, 8, 9, 15, 16, 17, 63, 65, 257}) {
    const std::string s = std::to_string(n);
    programs.push_back(
        {"length " + s, "graph(%0: f32[3," + s + "], %1: i64[" + s + "], %2: u8[" + s + "]) {\n" + "%3: f32[3," + s +
                            "] = aten::exp(self=%0)\n" +
                            "%4: f32[3] = aten::sum.dim_IntList(self=%3, dim=[1], keepdim=false, dtype=None)\n" +
                            "%5: f32[3] = aten::amax(self=%0, dim=[1], keepdim=false)\n" + "%6: i64[" + s +
                            "] = aten::mul.Tensor(self=%1, other=%1)\n" + "%7: u8[" + s +
                            "] = aten::add.Tensor(self=%2, other=%2, alpha=1)\n" + "%8: f32[" + s + ",3]{1," + s +
                            "} = prim::view(base=%3, offset=0)\n" + "%9: f32[" + s +
                            ",3] = aten::clone(self=%8, memory_format=None)\n" + "%10: f32[" + s +
                            "] = aten::sum.dim_IntList(self=%3, dim=[0], keepdim=false, dtype=None)\n" +
                            "return (%3, %4, %5, %6, %7, %9, %10)\n}"});
  }
  check(programs);
}

TEST_CASE("scans") {
  check({
      {"cumsum", R"(graph(%0: f32[4,19], %1: i64[3,5], %2: f16[6,9]) {
         %3: f32[4,19] = aten::cumsum(self=%0, dim=1, dtype=None)
         %4: f32[4,19] = aten::cumsum(self=%0, dim=0, dtype=None)
         %5: i64[3,5] = aten::cumsum(self=%1, dim=-1, dtype=None)
         %6: f16[6,9] = aten::cumsum(self=%2, dim=1, dtype=None)
         %7: f32[4,19] = aten::cumprod(self=%0, dim=0, dtype=None)
         return (%3, %4, %5, %6, %7)
       })",
       1e-3, 1e-3},
  });
}

TEST_CASE("views of views, windows, outputs that alias") {
  check({
      {"transposed view of a computed value", R"(graph(%0: f32[6,37]) {
         %1: f32[6,37] = aten::exp(self=%0)
         %2: f32[37,6]{1,37} = prim::view(base=%1, offset=0)
         %3: f32[37,6] = aten::clone(self=%2, memory_format=None)
         return (%3, %1)
       })"},
      {"inlined through reshape of a transpose", R"(graph(%0: f32[2,3,4,5]) {
         %1: f32[2,3,4,5] = aten::neg(self=%0)
         %2: f32[2,4,3,5]{60,5,20,1} = prim::view(base=%1, offset=0)
         %3: f32[2,4,3,5] = aten::clone(self=%2, memory_format=None)
         %4: f32[8,15] = prim::view(base=%3, offset=0)
         %5: f32[8,15] = aten::exp(self=%4)
         return (%5)
       })"},
      {"slices with steps and expands", R"(graph(%0: f32[10,8]) {
         %1: f32[10,8] = aten::relu(self=%0)
         %2: f32[5,4]{16,2} = prim::view(base=%1, offset=4)
         %3: f32[3,5,4]{0,16,2} = prim::view(base=%1, offset=32)
         %4: f32[3,5,4] = aten::add.Tensor(self=%2, other=%3, alpha=1)
         return (%4)
       })"},
      {"as_strided that overlaps", R"(graph(%0: f32[12]) {
         %1: f32[12] = aten::exp(self=%0)
         %2: f32[5,4]{2,1} = prim::view(base=%1, offset=0)
         %3: f32[5,4] = aten::neg(self=%2)
         return (%3)
       })"},
      {"bits of another dtype",
       R"(graph(%0: f32[6]) {
         %1: f32[6] = aten::exp(self=%0)
         %2: i32[6] = prim::view(base=%1, offset=0)
         %3: i32[6] = aten::bitwise_and.Scalar(self=%2, other=255)
         return (%3)
       })",
       1e-5,
       1e-5,
       {},
       0},
      {"strided inputs and outputs", R"(graph(%0: f32[4,6]{12,2}, %1: f32[4,6]{1,4}) {
         %2: f32[4,6]{1,4} = aten::add.Tensor(self=%0, other=%1, alpha=1)
         %3: f32[6,4] = prim::view(base=%2, offset=0)
         return (%2, %3, %0, %1, %2)
       })"},
      {"a window written", R"(graph(%0: f32[5,6], %1: f32[5,2], %2: f32[]) {
         %3: f32[5,6] = aten::neg(self=%0)
         %4: f32[5,6] = prim::scatter(base=%3, src=%1, offset=8, sizes=[5, 2], strides=[6, 1])
         %8: f32[5]{0} = prim::view(base=%2, offset=0)
         %5: f32[5,6] = prim::scatter(base=%4, src=%8, offset=0, sizes=[5], strides=[7])
         %6: f32[5,6] = prim::scatter(base=%0, src=%1, offset=0, sizes=[5, 2], strides=[6, 3])
         %7: f32[5,6] = aten::add.Tensor(self=%3, other=%5, alpha=1)
         return (%4, %5, %6, %7)
       })"},
      {"joins and borders", R"(graph(%0: f32[3,4], %1: f32[3,2], %2: f32[3,4]) {
         %3: f32[3,4] = aten::exp(self=%2)
         %4: f32[3,10] = aten::cat(tensors=[%0, %1, %3], dim=1)
         %5: f32[9,4] = aten::cat(tensors=[%0, %2, %3], dim=0)
         %6: f32[6,7] = aten::constant_pad_nd(self=%0, pad=[1, 2, 3, 0], value=1.5)
         %7: f32[2,3] = aten::constant_pad_nd(self=%0, pad=[-1, 0, 0, -1], value=0)
         %8: f32[3,4] = aten::flip(self=%0, dims=[1, 0])
         %9: f32[3,4] = aten::roll(self=%0, shifts=[1, -1], dims=[0, 1])
         %10: f32[2,6,4] = aten::repeat(self=%3, repeats=[2, 2, 1])
         return (%4, %5, %6, %7, %8, %9, %10)
       })"},
  });
}

TEST_CASE("what is not lowered runs on the host, in order") {
  check({
      {"integer product between kernels",
       R"(graph(%0: i64[3,3], %1: i64[3,3]) {
         %2: i64[3,3] = aten::add.Tensor(self=%0, other=%1, alpha=1)
         %3: i64[3,3]{1,3} = prim::view(base=%2, offset=0)
         %4: i64[3,3] = aten::mm(self=%2, mat2=%3)
         %5: i64[3,3] = aten::sub.Tensor(self=%4, other=%0, alpha=1)
         return (%5, %4)
       })",
       0,
       0,
       {},
       1},
  });
}

TEST_CASE("the memory that a host op's operands share is computed for it") {
  // Windows that overlap; nothing else reads what they lie in.
  compiled::Batch batch;
  const int i = batch.add(R"(graph(%0: f32[4]) {
    %1: f32[4] = aten::neg(self=%0)
    %2: f32[3] = prim::view(base=%0, offset=0)
    %3: f32[3] = prim::view(base=%0, offset=4)
    _ = aten::add_.Tensor(self=%2, other=%3, alpha=1) shared(%1 -> %4: f32[4], self @ 0: f32[3], other @ 4: f32[3])
    return (%4)
  })");
  CHECK(batch.emitted(i).host_ops.size() == 1);
  CHECK(batch.emitted(i).kernels.size() == 2);  // the operand, and the copy into the result
}

TEST_CASE("host ops run in program order whatever waits for what") {
  compiled::Batch batch;
  const int i = batch.add(R"(graph(%0: i64[3,3], %1: i64[3,3]) {
    %2: i64[3,3] = aten::mul.Tensor(self=%0, other=%1)
    %3: i64[] = aten::sum.dim_IntList(self=%2, dim=[0, 1], keepdim=false, dtype=None)
    %4: i64[3,3] = aten::add.Tensor(self=%2, other=%3, alpha=1)
    %5: i64[3,3] = aten::mm(self=%4, mat2=%4)
    %6: i64[3,3] = aten::mm(self=%0, mat2=%1)
    %7: i64[3,3] = aten::mm(self=%1, mat2=%0)
    return (%7, %6, %5)
  })");
  batch.compile();
  CHECK(batch.run(i, compiled::random_inputs(batch.graph(i), {}, 3)).host_ops == std::vector{0, 1, 2});
}

TEST_CASE("long sums keep their small terms") {
  compiled::Batch batch;
  const int rows = batch.add(R"(graph(%0: f32[33554432]) {
    %1: f32[] = aten::sum.dim_IntList(self=%0, dim=[0], keepdim=false, dtype=None)
    return (%1)
  })");
  const int columns = batch.add(R"(graph(%0: f32[33554432]) {
    %1: f32[2097152,16] = prim::view(base=%0, offset=0)
    %2: f32[16] = aten::sum.dim_IntList(self=%1, dim=[0], keepdim=false, dtype=None)
    %3: f32[] = aten::sum.dim_IntList(self=%2, dim=[0], keepdim=false, dtype=None)
    return (%3)
  })");
  batch.compile();
  reference::Tensor ones = reference::make(precast::ir::contiguous(precast::ir::Dtype::f32, {33554432}));
  for (int64_t i = 0; i < 33554432; ++i) reinterpret_cast<float*>(ones.bytes.data())[i] = 1;
  CHECK(batch.run(rows, {ones}).outputs[0].get(0) == 33554432);
  CHECK(batch.run(columns, {ones}).outputs[0].get(0) == 33554432);
}

TEST_CASE("NaN wins, the first index wins ties") {
  compiled::Batch batch;
  const int i = batch.add(R"(graph(%0: f32[40]) {
    %1: i64[] = aten::argmax(self=%0, dim=0, keepdim=false)
    %2: i64[] = aten::argmin(self=%0, dim=0, keepdim=false)
    %3: f32[] = aten::amax(self=%0, dim=[0], keepdim=false)
    %4: f32[] = aten::amin(self=%0, dim=[0], keepdim=false)
    return (%1, %2, %3, %4)
  })");
  batch.compile();
  reference::Tensor x = reference::make(precast::ir::contiguous(precast::ir::Dtype::f32, {40}));
  for (int k = 0; k < 40; ++k) x.set(k, 3);
  auto r = batch.run(i, {x});
  CHECK(r.outputs[0].get(0) == 0);
  CHECK(r.outputs[1].get(0) == 0);
  x.set(39, NAN), x.set(21, NAN);
  r = batch.run(i, {x});
  CHECK(r.outputs[0].get(0) == 21);
  CHECK(r.outputs[1].get(0) == 21);
  CHECK(std::isnan(static_cast<double>(r.outputs[2].get(0))));
  CHECK(std::isnan(static_cast<double>(r.outputs[3].get(0))));
  for (int k = 0; k < 40; ++k) x.set(k, -INFINITY);
  r = batch.run(i, {x});
  CHECK(r.outputs[0].get(0) == 0);
  CHECK(r.outputs[1].get(0) == 0);
}

TEST_CASE("long reductions to few results are cut in pieces") {
  check({
      {"whole", R"(graph(%0: f32[64,1030], %1: f16[96,1024], %2: f32[70000]) {
         %3: f32[64,1030] = aten::mul.Tensor(self=%0, other=%0)
         %4: f32[] = aten::sum.dim_IntList(self=%3, dim=[0, 1], keepdim=false, dtype=None)
         %5: f32[1,1] = aten::amax(self=%0, dim=[0, 1], keepdim=true)
         %6: f16[] = aten::sum.dim_IntList(self=%1, dim=[0, 1], keepdim=false, dtype=None)
         %7: f32[] = aten::sum.dim_IntList(self=%2, dim=[0], keepdim=false, dtype=None)
         %8: f32[] = aten::sqrt(self=%4)
         %9: f32[64,1030] = aten::div.Tensor(self=%0, other=%8)
         return (%4, %5, %6, %7, %9)
       })",
       1e-3, 1e-3},
      {"channels", R"(graph(%0: f32[4,3,128,65]) {
         %1: f32[3] = aten::sum.dim_IntList(self=%0, dim=[0, 2, 3], keepdim=false, dtype=None)
         %2: f32[1,3,1,1] = aten::amin(self=%0, dim=[0, 2, 3], keepdim=true)
         return (%1, %2)
       })",
       1e-4, 1e-3},
  });
}

TEST_CASE("masks from positions") {
  check({
      {"causal", R"(graph(%0: f32[3,33,33]) {
         %1: i64[33] = aten::arange.start_step(start=0, end=33, step=1, dtype=None, layout=None, device=cpu, pin_memory=None)
         %2: i64[33,1] = prim::view(base=%1, offset=0)
         %3: bool[33,33] = aten::le.Tensor(self=%1, other=%2)
         %4: f32[] = aten::full(size=int[], fill_value=-inf, dtype=f32, layout=None, device=cpu, pin_memory=None)
         %5: f32[3,33,33] = aten::where.self(condition=%3, self=%0, other=%4)
         %6: f32[3,33,1] = aten::amax(self=%5, dim=[2], keepdim=true)
         %7: f32[3,33,33] = aten::sub.Tensor(self=%5, other=%6, alpha=1)
         %8: f32[3,33,33] = aten::exp(self=%7)
         %9: f32[3,33,1] = aten::sum.dim_IntList(self=%8, dim=[2], keepdim=true, dtype=None)
         %10: f32[3,33,33] = aten::div.Tensor(self=%8, other=%9)
         return (%10)
       })"},
  });
}

TEST_CASE("a window is written in place where nobody reads the original any more") {
  const std::string text = R"(graph(%0: f32[64,64], %1: f32[64,8]) {
    %2: f32[64,64] = aten::exp(self=%0)
    %3: f32[] = aten::sum.dim_IntList(self=%2, dim=[0, 1], keepdim=false, dtype=None)
    %4: f32[64,64] = prim::scatter(base=%2, src=%1, offset=0, sizes=[64, 8], strides=[64, 1])
    %5: f32[64,64] = prim::scatter(base=%4, src=%1, offset=64, sizes=[64, 8], strides=[64, 1])
    %6: f32[64,8]{64,1} = prim::view(base=%5, offset=16)
    %7: f32[64,8] = aten::neg(self=%6)
    %8: f32[64,64] = prim::scatter(base=%5, src=%7, offset=0, sizes=[64, 8], strides=[64, 1])
    return (%3, %8)
  })";
  compiled::Batch batch;
  const int i = batch.add(text);
  CHECK(batch.emitted(i).arena_bytes <= 64 * 64 * 4 + 4096);  // one more copy: %7 reads what %8 writes
  check({{"scatters", text, 1e-5, 1e-3}});
}

TEST_CASE("what lies the other way round in memory is turned once, where it is read again and again") {
  const std::string filter_a_channel = R"(graph(%0: f32[2,6,6,16], %1: f32[16,1,3,3]) {
    %2: f32[2,4,4,3,3,16]{576,96,16,96,16,1} = prim::view(base=%0, offset=0)
    %3: f32[3,3,16]{3,1,9} = prim::view(base=%1, offset=0)
    %4: f32[3,3,16] = aten::clone(self=%3, memory_format=0)
    %5: f32[2,4,4,3,3,16] = aten::mul.Tensor(self=%2, other=%4)
    %6: f32[2,4,4,16] = aten::sum.dim_IntList(self=%5, dim=[3, 4], keepdim=false, dtype=None)
    return (%6)
  })";
  const std::string once = R"(graph(%0: f32[40,16], %1: f32[16,40]) {
    %2: f32[40,16]{1,40} = prim::view(base=%1, offset=0)
    %3: f32[40,16] = aten::clone(self=%2, memory_format=0)
    %4: f32[40,16] = aten::mul.Tensor(self=%0, other=%3)
    return (%4)
  })";
  compiled::Batch batch;
  CHECK(batch.emitted(batch.add(filter_a_channel)).kernels.size() == 2);
  CHECK(batch.emitted(batch.add(once)).kernels.size() == 1);
  check({{"filter", filter_a_channel}, {"once", once}});
}
