// Artifacts for every size: what the driver derives from the sizes of a call, what it refuses, and memory that grows.
// Kernels from symbolic graphs are tested in tests/loops and, behind the public interface, in tests/api.
#include <doctest/doctest.h>

#include <atomic>
#include <cstring>
#include <limits>
#include <thread>

#include "artifact/build.h"
#include "artifact/constraints.h"
#include "artifact/spec.h"
#include "artifact/tables.h"
#include "fake_host.h"
#include "ir/print.h"
#include "precast/error.h"
#include "runtime/artifact.h"
#include "runtime/driver.h"

using namespace precast;
using namespace precast::artifact;
using Sizes = std::vector<precast_i64>;

namespace {

Metadata metadata_of(const std::string& graph, bool inductor = true) {
  const ir::Graph g = ir::parse(graph);
  Signature s;
  s.backend = inductor ? "inductor" : "eager";
  s.num_positional_args = static_cast<int>(g.inputs.size());
  for (size_t i = 0; i < g.inputs.size(); ++i) {
    s.leaves.push_back({UserLeaf::Kind::tensor, "argument " + std::to_string(i), {"", g.type(g.inputs[i])}, {}});
    s.graph_inputs.push_back({static_cast<int>(i), 0});
  }
  for (size_t i = 0; i < g.outputs.size(); ++i)
    s.results.push_back({Result::Kind::output, static_cast<int>(i), 0, {}, {}, false});
  s.out_spec = list_spec(g.outputs.size());
  return describe(s, g, nullptr);
}

struct Argument {
  Sizes sizes, strides{};  // contiguous if none are given
  int dtype = 6;
};

/// Calls the driver of the runtime; the host's graph makes results of the sizes it is asked for.
struct Call {
  Metadata metadata;
  Tables tables;
  FakeHost host;
  std::vector<precast_tensor> outputs;
  Sizes numbers;
  std::vector<std::vector<float>> memory;
  bool ran = false;

  explicit Call(const std::string& graph, bool inductor = true)
      : metadata(metadata_of(graph, inductor)), tables(metadata), outputs(metadata.outputs.size()) {
    numbers.resize(static_cast<size_t>(tables.spec().n_call_numbers));
    host.symbols.resize(metadata.symbols.size());
    host.op = [this](int, void* const*, void** out) {
      ran = true;
      for (size_t i = 0; i < outputs.size(); ++i)
        static_cast<precast_tensor*>(out[i])->data = memory.emplace_back(4096).data();
      return 0;
    };
  }

  std::string operator()(std::vector<Argument> arguments) {
    std::vector<precast_leaf> leaves;
    for (Argument& a : arguments) {
      if (a.strides.empty()) {
        a.strides.resize(a.sizes.size());
        precast_i64 n = 1;
        for (size_t d = a.sizes.size(); d-- > 0; n *= std::max<precast_i64>(a.sizes[d], 1)) a.strides[d] = n;
      }
      precast_leaf& leaf = leaves.emplace_back();
      leaf.kind = PRECAST_TENSOR;
      leaf.t = {memory.emplace_back(4096).data(),
                a.sizes.data(),
                a.strides.data(),
                nullptr,
                nullptr,
                static_cast<int>(a.sizes.size()),
                a.dtype,
                0,
                -1,
                0,
                0};
    }
    precast_call call{};
    call.n_positional = metadata.signature.num_positional_args;
    call.leaves = leaves.data(), call.n_leaves = static_cast<int>(leaves.size());
    call.outputs = outputs.data(), call.numbers = numbers.data();
    host.message.clear(), ran = false;
    const int code = runtime::driver::call_graph(tables.spec(), &host.host, &call);
    CHECK((code == PRECAST_OK) == host.message.empty());
    CHECK(ran == host.message.empty());
    return host.message;
  }
  Sizes sizes(size_t output) const {
    const precast_tensor& t = outputs[output];
    return {t.sizes, t.sizes + t.ndim};
  }
  Sizes strides(size_t output) const {
    const precast_tensor& t = outputs[output];
    return {t.strides, t.strides + t.ndim};
  }
};

constexpr const char* kAgree = ". Pass tensors whose sizes agree, or capture again.";

}  // namespace

TEST_CASE("dynamic: results have the sizes of the call") {
  Call call(R"(symbols: u0 in [0, inf) hint 8, u1 in [0, inf) hint 4
graph(%0: f32[u0,3], %1: f32[u1,u0]) {
  %2: f32[u0,3] = aten::neg(self=%0)
  %3: f32[u1,2*u0+1]{1,u1} = aten::one(self=%1)
  %4: f32[(u0//2),max(u0,u1),(u1%3)] = aten::other(self=%1)
  return (%2, %3, %4)
})");
  CHECK(call({{{5, 3}}, {{4, 5}}}) == "");
  CHECK(call.host.symbols == Sizes{5, 4});
  CHECK(call.sizes(0) == Sizes{5, 3});
  CHECK(call.strides(0) == Sizes{3, 1});
  CHECK(call.sizes(1) == Sizes{4, 11});
  CHECK(call.strides(1) == Sizes{1, 4});
  CHECK(call.sizes(2) == Sizes{2, 5, 1});
  CHECK(call({{{0, 3}}, {{1, 0}}}) == "");
  CHECK(call.sizes(0) == Sizes{0, 3});
  CHECK(call.sizes(1) == Sizes{1, 1});
  CHECK(call.sizes(2) == Sizes{0, 1, 1});
  CHECK(call.strides(2) == Sizes{1, 1, 1});  // as those of an empty tensor in eager
}

TEST_CASE("dynamic: sizes that must agree") {
  Call call(R"(symbols: u0 in [0, inf) hint 8, u1 in [0, inf) hint 4
graph(%0: f32[u0+u1], %1: f32[u0,u1,3], %2: f32[u1,u0]) {
  %3: f32[u0,u1,3] = aten::neg(self=%1)
  return (%3)
})");
  const auto message = [&](Sizes a, Sizes b, Sizes c) { return call({{a}, {b}, {c}}); };
  CHECK(message({7}, {2, 5, 3}, {5, 2}) == "");
  CHECK(message({7}, {2, 5, 3}, {5, 3}) ==
        std::string("argument 2 dim 1 must equal argument 1 dim 0: expected 2, found 3") + kAgree);
  CHECK(message({7}, {2, 5, 3}, {7, 2}) ==
        std::string("argument 2 dim 0 must equal argument 1 dim 1: expected 5, found 7") + kAgree);
  CHECK(message({8}, {2, 5, 3}, {5, 2}) ==
        std::string("argument 0 dim 0 must be u0+u1, where u0 is argument 1 dim 0 and u1 is argument 1 dim 1: expected "
                    "7, found 8") +
            kAgree);
  // A size without a name is fixed, and named first where a rank differs.
  const std::string fixed =
      ". Sizes without a name are fixed at capture and never broadcast: pass this shape, or capture again.";
  CHECK(message({7}, {2, 5, 4}, {5, 2}) == "argument 1: expected shape [u0, u1, 3], found [2, 5, 4]" + fixed);
  CHECK(message({7}, {2, 5}, {5, 2}) == "argument 1: expected shape [u0, u1, 3], found [2, 5]" + fixed);
  CHECK(message({7, 1}, {2, 5, 3}, {5, 2}) == "argument 0: expected shape [u0+u1], found [7, 1]" + fixed);
  // The dtype of what a size is read from is told, not a size that it would give.
  CHECK(call({{{7}}, {{2, 5, 3}, {}, 7}, {{5, 2}}}).find("argument 1: expected dtype float32, found float64") == 0);
}

TEST_CASE("dynamic: bounds are checked before the layout") {
  Call call(R"(symbols: u0 in [2, 64] hint 8, u1 in [1, inf) hint 4
graph(%0: f32[u0,3], %1: f32[3,u1,u0]) {
  %2: f32[u0,3] = aten::neg(self=%0)
  return (%2)
})");
  const auto message = [&](Sizes a, Sizes b, Sizes strides = {}) { return call({{a, strides}, {b}}); };
  CHECK(message({2, 3}, {3, 1, 2}) == "");
  CHECK(message({64, 3}, {3, 1000000, 64}) == "");
  const std::string advice = ": pass a size within, or capture again.";
  CHECK(message({1, 3}, {3, 1, 1}, {9, 9}) ==
        "argument 0 dim 0: expected a size of 2 to 64, found 1. These are the bounds of u0" + advice);
  CHECK(message({65, 3}, {3, 1, 65}) ==
        "argument 0 dim 0: expected a size of 2 to 64, found 65. These are the bounds of u0" + advice);
  CHECK(message({5, 3}, {3, 0, 5}) ==
        "argument 1 dim 1: expected a size of at least 1, found 0. These are the bounds of u1" + advice);
  CHECK(message({5, 4}, {3, 0, 5}).find("argument 0: expected shape [u0, 3], found [5, 4]") == 0);
}

TEST_CASE("dynamic: sizes that make no sense of the program") {
  Call call(R"(symbols: u0 in [0, inf) hint 8, u1 in [0, inf) hint 4
graph(%0: f32[u0], %1: f32[u1]) {
  %2: f32[3]{1} = prim::view(base=%0, offset=4*u0-12)
  %3: f32[u0-1] = prim::view(base=%0, offset=4)
  %4: f32[(u0//u1)] = aten::some(self=%0)
  return (%2, %3, %4)
})");
  CHECK(call({{{3}}, {{1}}}) == "");
  const std::string advice =
      ". The captured call has no meaning for these sizes: pass others, or capture again with them.";
  CHECK(call({{{2}}, {{1}}}) == "4*u0-12 must not be negative, where u0 is argument 0 dim 0: found -4" + advice);
  CHECK(call({{{8}}, {{0}}}) ==
        "(u0//u1) must be a number that can be computed, where u0 is argument 0 dim 0 and u1 is argument 1 dim 0" +
            advice);
  // What bounds already say is not checked again.
  CHECK(metadata_of(R"(symbols: u0 in [3, inf) hint 8
graph(%0: f32[u0]) {
  %1: f32[3] = prim::view(base=%0, offset=4*u0-12)
  %2: f32[u0-1] = prim::view(base=%0, offset=4)
  return (%1, %2)
})")
            .constraints.empty());
  // Windows on other windows of rows need no check either.
  CHECK(metadata_of(R"(symbols: u0 in [0, inf) hint 8
graph(%0: f32[u0,4,6]) {
  %1: f32[u0,6]{24,1} = prim::view(base=%0, offset=48)
  %2: f32[6*u0,4]{1,6*u0} = aten::one(self=%0)
  %3: f32[6*u0]{1} = prim::view(base=%2, offset=24*u0)
  return (%1, %3)
})")
            .constraints.empty());
  const auto window = [](const char* view) {
    return ir::to_string(metadata_of(std::string("symbols: u0 in [0, inf) hint 8\ngraph(%0: f32[u0]) {\n  %1: ") +
                                     view + "\n  return (%1)\n}")
                             .constraints.at(0));
  };
  CHECK(window("f32[3] = prim::view(base=%0, offset=0)") == "4*u0-12");
}

TEST_CASE("dynamic: what no memory holds") {
  Call call(R"(symbols: u0 in [0, inf) hint 8, u1 in [0, inf) hint 8
graph(%0: f32[u0,0], %1: f32[u1,0]) {
  %2: f32[u0,u1] = aten::zeros(size=[u0, u1], dtype=f32, layout=None, device=cpu, pin_memory=None)
  return (%2)
})");
  const precast_i64 much = 1LL << 31, more = 1LL << 40;
  CHECK(call({{{5, 0}}, {{7, 0}}}) == "");
  CHECK(call({{{much, 0}}, {{much, 0}}}) ==
        "result 0 would have the shape [2147483648, 2147483648], which no memory holds");
  CHECK(call({{{more, 0}}, {{more, 0}}}).find("result 0 would have the shape") == 0);
}

TEST_CASE("dynamic: layout with strides of the call's sizes") {
  Call call(R"(symbols: u0 in [0, inf) hint 8, u1 in [0, inf) hint 4
graph(%0: f32[u0,u1,2], %1: f32[u1,u0]{1,u1}) {
  %2: f32[u0,u1,2] = aten::neg(self=%0)
  return (%2)
})");
  const auto message = [&](Argument a, Argument b) { return call({a, b}); };
  CHECK(message({{3, 4, 2}}, {{4, 3}, {1, 4}}) == "");
  CHECK(message({{1, 4, 2}, {77, 2, 1}}, {{4, 1}, {1, 99}}) == "");  // a dim of size 1 reaches nothing
  CHECK(message({{3, 1, 2}, {2, 55, 1}}, {{1, 3}, {9, 1}}) == "");
  CHECK(message({{0, 4, 2}, {5, 5, 5}}, {{4, 0}, {5, 5}}) == "");
  CHECK(message({{3, 4, 2}, {16, 2, 1}}, {{4, 3}, {1, 4}}) ==
        "argument 0: expected strides [8, 2, 1], found [16, 2, 1]. Pass .contiguous(), or capture with this layout or "
        "with backend=\"eager\".");
  CHECK(message({{3, 4, 2}}, {{4, 3}}) ==
        "argument 1: expected strides [1, 4], found [3, 1]. Pass a tensor in the captured layout, or capture with this "
        "layout or with backend=\"eager\".");
  Call eager(R"(symbols: u0 in [0, inf) hint 8
graph(%0: f32[u0,2]) {
  %1: f32[u0,2] = aten::neg(self=%0)
  return (%1)
})",
             false);
  CHECK(eager({{{3, 2}, {1, 3}}}) == "");
}

TEST_CASE("dynamic: metadata goes through JSON, and what is malformed is refused") {
  Metadata m = metadata_of(R"(symbols: u3 in [2, 64] hint 8, u0 in [0, inf) hint 4
graph(%0: f32[u3,2*u0], %1: f32[u0]) {
  %2: f32[u3,u0+(u3//2)] = aten::neg(self=%0)
  %3: f32[u0-1] = prim::view(base=%1, offset=4)
  return (%2, %3)
})");
  m.arena_slots = {m.outputs[0].span_bytes()};
  const std::string json = to_json(m);
  const auto has = [&](const char* text) { CHECK_MESSAGE(json.find(text) != json.npos, json); };
  has(R"("SYMBOLS": [["u3",2,64,8],["u0",0,null,4]])");
  has(R"("NOT_NEGATIVE": ["u0-1"])");
  has(R"("USER_INPUT_SHAPES": [["u3","2*u0"],["u0"]])");
  has(R"("USER_INPUT_STRIDES": [["2*u0",1],[1]])");
  has(R"("USER_INPUT_BOUNDS": [{"0":[2,64]},null])");
  const Metadata back = from_json(json);
  CHECK(to_json(back) == json);
  CHECK(back.outputs == m.outputs);
  CHECK(back.symbols == m.symbols);
  CHECK(print_tables(Tables(back).spec()) == print_tables(Tables(m).spec()));
  const auto refused = [&](const std::string& from, const std::string& to) -> std::string {
    std::string text = json;
    const size_t at = text.find(from);
    REQUIRE(at != text.npos);
    try {
      const Metadata damaged = from_json(text.replace(at, from.size(), to));
      const Tables tables(damaged);
    } catch (const PrecompileError& e) {
      return e.what();
    }
    return "";
  };
  const std::string is_malformed = "the artifact's metadata is malformed: ";
  CHECK(refused(R"(["u3",2,64,8])", R"(["u0",2,64,8])") == is_malformed + "SYMBOLS holds \"u0\"");
  CHECK(refused(R"(["u3",2)", R"(["v3",2)") == is_malformed + "SYMBOLS holds \"v3\"");
  CHECK(refused(R"(["u3",2)", R"(["u03",2)") == is_malformed + "SYMBOLS holds \"u03\"");
  CHECK(refused(R"(["u3",2)", R"(["",2)") == is_malformed + "SYMBOLS holds \"\"");
  CHECK(refused(R"(["u3",2)", R"(["u3",99)") == is_malformed + "SYMBOLS has bounds of u3 that no size is within");
  CHECK(refused(R"([["u3","2*u0"])", R"([["u4","2*u0"])") ==
        is_malformed + "a size is 'u4', which is no expression of SYMBOLS");
  CHECK(refused(R"([["u3","2*u0"])", R"([["u3+","2*u0"])").find("a size is 'u3+'") != std::string::npos);
  CHECK(refused(R"([["u3","2*u0"])", R"([[7,"2*u0"])") ==
        "the artifact's metadata contradicts itself: no argument has the size u3");
  CHECK(refused(R"([["u3","2*u0"])", R"([[-2,"2*u0"])").find("contradicts itself") != std::string::npos);
  CHECK(refused(R"("ARENA_SLOTS": [)", R"("ARENA_SLOTS": ["9223372036854775807*9223372036854775807*u0",)")
            .find("no expression") != std::string::npos);
}
