// Every check of the driver, with its message. The driver is the one compiled into the runtime; artifact_test.cpp
// shows that the one in artifacts is the same.
#include "runtime/driver.h"

#include <doctest/doctest.h>

#include <cmath>
#include <cstring>
#include <limits>

#include "artifact/tables.h"
#include "fake_host.h"
#include "precast/error.h"

using namespace precast;
using namespace precast::artifact;
namespace driver = precast::runtime::driver;
using Kind = UserLeaf::Kind;

namespace {

// fn(model, x f32[2,3], 3, [0.5, "mode"], other, None, true): reads all but `other`; writes the buffer.
Metadata convention() {
  Metadata m;
  Signature& s = m.signature;
  s.backend = "inductor";
  s.num_positional_args = 7;
  s.module_positions = {0};
  const ir::Type matrix = ir::contiguous(ir::Dtype::f32, {2, 3}), vector = ir::contiguous(ir::Dtype::f32, {3});
  s.params = {{"fc.weight", matrix, true, true}, {"fc.bias", vector, true, true}};
  s.buffers = {{"mean", vector, false, true}};
  s.slots = {{"fc.weight", 0, false, 0}, {"fc.bias", 0, false, 1}, {"head.weight", 0, false, 0}, {"mean", 0, true, 2}};
  s.in_spec = "(*, *, [*, *], {'other': *}, *, *)";
  s.leaves = {{Kind::tensor, "argument 1", {"", matrix, false, true}, {}},
              {Kind::integer, "argument 2", {}, int64_t{3}},
              {Kind::real, "argument 3[0]", {}, 0.5},
              {Kind::string, "argument 3[1]", {}, std::string("mode")},
              {Kind::tensor, "argument 4['other']", {"", matrix, false, false}, {}},
              {Kind::none, "argument 5", {}, {}},
              {Kind::boolean, "argument 6", {}, true}};
  s.graph_inputs = {{0, 0}, {3, 0}, {2, 0}};
  s.writes = {{2, 0}};
  s.aliases = {{2, 3, false, 0}};
  m.outputs = {vector};
  return m;
}

struct Tensor {
  std::vector<float> data;
  std::vector<precast_i64> sizes, strides;
  precast_tensor t{};

  Tensor(std::vector<precast_i64> s, std::vector<precast_i64> st)
      : data(64), sizes(std::move(s)), strides(std::move(st)) {
    t = {data.data(), sizes.data(), strides.data(), this, nullptr, static_cast<int>(sizes.size()), 6, 0, -1, 0, 0};
  }
  Tensor(const Tensor&) = delete;
};

struct Call {
  Metadata metadata = convention();
  FakeHost host;
  Tensor weight{{2, 3}, {3, 1}}, bias{{3}, {1}}, mean{{3}, {1}}, x{{2, 3}, {3, 1}}, other{{2, 3}, {3, 1}};
  std::vector<precast_named> entries;
  std::vector<precast_leaf> leaves;
  std::vector<int> module_positions = {0};
  precast_call call{};
  std::vector<int> slot_of = std::vector<int>(3);
  bool ran = false;

  Call() {
    entries = {{"fc.weight", 0, 0, weight.t},
               {"fc.bias", 0, 0, bias.t},
               {"head.weight", 0, 0, weight.t},
               {"mean", 0, 1, mean.t}};
    leaves.resize(7);
    for (const size_t i : {0, 4}) leaves[i].kind = PRECAST_TENSOR;
    leaves[0].t = x.t, leaves[4].t = other.t;
    leaves[1].kind = PRECAST_INT, leaves[1].i = 3;
    leaves[2].kind = PRECAST_DOUBLE, leaves[2].d = 0.5;
    leaves[3].kind = PRECAST_STRING, leaves[3].s = "mode", leaves[3].length = 4;
    leaves[6].kind = PRECAST_BOOL, leaves[6].i = 1;
    call.n_positional = 7, call.n_modules = 1;
    call.in_spec = "(*, *, [*, *], {'other': *}, *, *)";
    host.op = [this](int index, void* const* in, void** out) {
      ran = index == -1 && static_cast<const precast_tensor*>(in[1])->data == x.t.data;
      static float result[3] = {7, 8, 9};
      static_cast<precast_tensor*>(out[0])->data = result;
      return 0;
    };
  }

  std::string check_modules() {
    const Tables tables(metadata);
    host.message.clear();
    const int code = driver::check_modules(tables.spec(), &host.host, entries.data(), static_cast<int>(entries.size()),
                                           slot_of.data());
    CHECK(code == (host.message.empty() ? PRECAST_OK : PRECAST_CONTRACT));
    return host.message;
  }

  std::string run() {
    const Tables tables(metadata);
    const precast_tensor bound[] = {entries[0].tensor, entries[1].tensor, entries[3].tensor};
    std::vector<precast_tensor> outputs(4);
    call.module_positions = module_positions.data();
    call.leaves = leaves.data(), call.n_leaves = static_cast<int>(leaves.size());
    call.bound = bound, call.n_bound = 3;
    call.outputs = outputs.data();
    host.message.clear();
    ran = false;
    const int code = driver::call_graph(tables.spec(), &host.host, &call);
    CHECK(code == (host.message.empty() ? PRECAST_OK : PRECAST_CONTRACT));
    CHECK(ran == host.message.empty());  // nothing runs when a check fails
    return host.message;
  }
};

}  // namespace

TEST_CASE("a call that keeps the contract runs, and its write-back lands") {
  Call c;
  CHECK(c.check_modules() == "");
  CHECK(c.slot_of == std::vector<int>{0, 1, 3});
  CHECK(c.run() == "");
  CHECK(c.mean.data[0] == 7);
  CHECK(c.mean.data[2] == 9);
  CHECK(c.mean.data[3] == 0);
}

TEST_CASE("entries may come module by module or parameters first") {
  Call c;
  std::swap(c.entries[3], c.entries[0]);
  std::swap(c.entries[1], c.entries[3]), std::swap(c.entries[1], c.entries[2]), std::swap(c.entries[1], c.entries[3]);
  // mean, fc.bias?, ... : bring parameters into their order behind the buffer
  std::vector<precast_named> sorted;
  for (const char* name : {"mean", "fc.weight", "fc.bias", "head.weight"})
    for (const auto& e : c.entries)
      if (e.name == std::string(name)) sorted.push_back(e);
  c.entries = sorted;
  CHECK(c.check_modules() == "");
  CHECK(c.slot_of == std::vector<int>{1, 2, 0});
}

TEST_CASE("names and order of the modules") {
  const std::string advice = ". Pass a model of the captured structure, or capture again with this one.";
  SUBCASE("lacks one") {
    Call c;
    c.entries.erase(c.entries.begin() + 1);
    CHECK(
        c.check_modules() ==
        "the model (argument 0) has no parameter 'fc.bias', which the captured model has (4 names expected, 3 found)" +
            advice);
  }
  SUBCASE("has one more") {
    Call c;
    c.entries.insert(c.entries.begin() + 3, {"extra", 0, 0, c.x.t});
    CHECK(
        c.check_modules() ==
        "the model (argument 0) has a parameter 'extra', which the captured model has not (4 names expected, 5 found)" +
            advice);
  }
  SUBCASE("one more at the end") {
    Call c;
    c.entries.push_back({"var", 0, 1, c.x.t});
    CHECK(c.check_modules() ==
          "the model (argument 0) has a buffer 'var', which the captured model has not (4 names expected, 5 found)" +
              advice);
  }
  SUBCASE("another order") {
    Call c;
    std::swap(c.entries[0], c.entries[1]);
    CHECK(c.check_modules() ==
          "the model (argument 0) lists its parameters in another order: expected 'fc.weight' at position 0, found "
          "'fc.bias' (4 names expected, 4 found)" +
              advice);
  }
  SUBCASE("a buffer where a parameter was") {
    Call c;
    c.entries[1].is_buffer = 1;
    CHECK(
        c.check_modules() ==
        "the model (argument 0) has no parameter 'fc.bias', which the captured model has (4 names expected, 4 found)" +
            advice);
  }
  SUBCASE("another module") {
    Call c;
    c.metadata.signature.module_positions = {0, 2};
    c.entries[1].module = 1;
    CHECK(
        c.check_modules() ==
        "the model (argument 0) has no parameter 'fc.bias', which the captured model has (4 names expected, 4 found)" +
            advice);
  }
  SUBCASE("a name repeated") {
    Call c;
    c.entries.push_back(c.entries[3]);
    CHECK(c.check_modules() ==
          "the model (argument 0) lists the buffer 'mean' more often than the captured model (4 names expected, 5 "
          "found)" +
              advice);
  }
  SUBCASE("no entries at all") {
    Call c;
    c.entries.clear();
    CHECK(c.check_modules() ==
          "the model (argument 0) has no parameter 'fc.weight', which the captured model has (4 names expected, 0 "
          "found)" +
              advice);
  }
}

TEST_CASE("tying, both ways") {
  Call c;
  c.entries[2].tensor.identity = &c;
  CHECK(c.check_modules() ==
        "parameter 'fc.weight' and 'head.weight': expected one shared tensor, as at capture, found two. Tie them "
        "before the call, or capture again with this model.");
  Call d;
  d.entries[1].tensor.identity = d.entries[0].tensor.identity;
  CHECK(d.check_modules() ==
        "parameter 'fc.weight' and 'fc.bias': expected two tensors, as at capture, found one shared by both. Untie "
        "them, or capture again with this model.");
  Call e;
  e.entries[3].tensor.identity = e.entries[0].tensor.identity;
  CHECK(e.check_modules().find("parameter 'fc.weight' and 'mean': expected two tensors") == 0);
}

TEST_CASE("each property of a module tensor, at the check and at the call") {
  const auto both = [](auto&& change) {
    Call c;
    change(c);
    const std::string message = c.check_modules();
    CHECK(c.run() == message);
    return message;
  };
  static const precast_i64 square[] = {3, 3}, row[] = {1, 3}, flipped[] = {1, 2};
  CHECK(both([](Call& c) { c.entries[1].tensor.sizes = square; }) == "");  // first size only: ndim says 1
  CHECK(both([](Call& c) { c.entries[0].tensor.sizes = square; }) ==
        "parameter 'fc.weight': expected shape [2, 3], found [3, 3]. Shapes are fixed at capture and never broadcast: "
        "pass this shape, or capture again.");
  CHECK(both([](Call& c) { c.entries[0].tensor.sizes = row; }).find("expected shape [2, 3], found [1, 3]") !=
        std::string::npos);
  CHECK(both([](Call& c) { c.entries[0].tensor.ndim = 1; }).find("expected shape [2, 3], found [2]") !=
        std::string::npos);
  CHECK(both([](Call& c) { c.entries[3].tensor.dtype = 7; }) ==
        "buffer 'mean': expected dtype float32, found float64. Convert the tensor, or capture again with this dtype.");
  CHECK(both([](Call& c) { c.entries[3].tensor.dtype = 99; }).find("found dtype number 99.") != std::string::npos);
  CHECK(both([](Call& c) { c.entries[1].tensor.device_type = 1, c.entries[1].tensor.device_index = 2; }) ==
        "parameter 'fc.bias': expected device cpu, found cuda:2. Move the tensor, or capture again on this device.");
  CHECK(both([](Call& c) { c.entries[0].tensor.strides = flipped; }) ==
        "parameter 'fc.weight': expected strides [3, 1], found [1, 2]. Pass .contiguous(), or capture with this layout "
        "or with backend=\"eager\".");
  CHECK(both([](Call& c) { c.entries[0].tensor.strides = flipped, c.metadata.signature.backend = "eager"; }) == "");
  CHECK(both([](Call& c) { c.entries[0].tensor.strides = flipped, c.metadata.signature.params[0].read = false; }) ==
        "");
  CHECK(both([](Call& c) {
          c.entries[0].tensor.flags = PRECAST_NOT_STRIDED;
        }).find("expected a dense strided tensor, found one that is sparse") != std::string::npos);
  CHECK(both([](Call& c) {
          c.entries[0].tensor.flags = PRECAST_UNDEFINED;
        }).find("expected a tensor, found an undefined one") != std::string::npos);
  CHECK(both([](Call& c) { c.entries[0].tensor.flags = PRECAST_CONJ; }) ==
        "parameter 'fc.weight': expected no lazy conjugate bit, found one. Resolve it first (.resolve_conj(), "
        ".resolve_neg()), at capture and here.");
  CHECK(both([](Call& c) {
          c.metadata.signature.params[0].type.neg = true;
        }).find("expected a lazy negative bit, found none") != std::string::npos);
  CHECK(both([](Call& c) { c.entries[0].tensor.flags = PRECAST_REQUIRES_GRAD; }) == "");
}

TEST_CASE("strides that reach nothing do not count") {
  Call c;
  static const precast_i64 sizes[] = {1, 3}, strides[] = {77, 1};
  c.metadata.signature.leaves[0].tensor.type = ir::contiguous(ir::Dtype::f32, {1, 3});
  c.leaves[0].t.sizes = sizes, c.leaves[0].t.strides = strides;
  CHECK(c.run() == "");
  Call d;
  static const precast_i64 empty[] = {0, 3}, odd[] = {9, 9};
  d.metadata.signature.leaves[0].tensor.type = ir::contiguous(ir::Dtype::f32, {0, 3});
  d.leaves[0].t.sizes = empty, d.leaves[0].t.strides = odd;
  CHECK(d.run() == "");
}

TEST_CASE("count and positions of the arguments") {
  Call c;
  c.call.n_positional = 6;
  CHECK(c.run() ==
        "expected 7 arguments, found 6. Pass the arguments of the captured call, models included, in the same "
        "positions.");
  Call d;
  d.module_positions = {1};
  CHECK(d.run() ==
        "argument 0: expected a module, found a value. Pass the arguments in the positions of the captured call.");
  Call e;
  e.call.n_modules = 2, e.module_positions = {0, 4};
  CHECK(e.run() ==
        "argument 4: expected a value, found a module. Pass the arguments in the positions of the captured call.");
  Call f;
  f.call.in_spec = nullptr, f.leaves.pop_back();
  CHECK(f.run() == "expected 7 values in the arguments, found 6. Pass arguments nested as at capture.");
}

TEST_CASE("structure: the first place that differs") {
  const auto message = [](const char* found) {
    Call c;
    c.call.in_spec = found;
    const std::string text = c.run();
    return text.substr(0, text.find(". The structure"));
  };
  CHECK(message("(*, *, [*, *], {'other': *}, *, *)") == "");
  CHECK(message("(*, *, [*, *, *], {'other': *}, *, *)") ==
        "argument 3[1]: expected no more items, found another item");
  CHECK(message("(*, *, [*], {'other': *}, *, *)") == "argument 3[0]: expected another item, found no more items");
  CHECK(message("(*, *, (*, *), {'other': *}, *, *)") == "argument 3: expected a list, found a tuple");
  CHECK(message("(*, *, *, {'other': *}, *, *)") == "argument 3: expected a list, found a single value");
  CHECK(message("(*, *, [*, *], {'another': *}, *, *)") == "argument 4[0]: expected 'other', found 'another'");
  CHECK(message("(*, *, [*, *], {'other': [*]}, *, *)") ==
        "argument 4['other']: expected a single value, found a list");
  CHECK(message("(*, *, [*, *], Batch(x=*), *, *)") == "argument 4: expected a dict, found Batch");
  Call c;
  c.metadata.signature.in_spec = "(my::Batch(image=[*]), *)";
  c.call.in_spec = "(my::Batch(image=*), *)";
  CHECK(c.run().find("argument 1.image: expected a list, found a single value. The structure at capture was "
                     "(my::Batch(image=[*]), *), here it is (my::Batch(image=*), *).") == 0);
}

TEST_CASE("modules count in the position of an argument") {
  Call c;
  c.metadata.signature.module_positions = {0, 2};
  c.module_positions = {0, 2}, c.call.n_modules = 2;
  c.call.in_spec = "(*, [*], [*, *], {'other': *}, *, *)";
  CHECK(c.run().find("argument 3: expected a single value, found a list") == 0);  // 0 and 2 are modules
}

TEST_CASE("leaves: kind and value") {
  const auto message = [](size_t leaf, auto&& change) {
    Call c;
    change(c.leaves[leaf]);
    return c.run();
  };
  const std::string condition = ". Its value was recorded as a condition: pass the same, or capture again.";
  const std::string kind = ". Pass the kind of value that was captured.";
  CHECK(message(1, [](auto& l) { l.i = 4; }) == "argument 2: expected the int 3, found the int 4" + condition);
  CHECK(message(2, [](auto& l) { l.d = 0.1; }) ==
        "argument 3[0]: expected the float 0.5, found the float 0.10000000000000001" + condition);
  CHECK(message(3, [](auto& l) { l.s = "node"; }) ==
        "argument 3[1]: expected the string \"mode\", found the string \"node\"" + condition);
  CHECK(message(3, [](auto& l) { l.length = 3; }) ==
        "argument 3[1]: expected the string \"mode\", found the string \"mod\"" + condition);
  CHECK(message(6, [](auto& l) { l.i = 0; }) == "argument 6: expected the bool true, found the bool false" + condition);
  CHECK(message(1, [](auto& l) { l.kind = PRECAST_DOUBLE, l.d = 3; }) ==
        "argument 2: expected the int 3, found the float 3" + kind);
  CHECK(message(5, [](auto& l) { l.kind = PRECAST_INT, l.i = 1; }) ==
        "argument 5: expected None, found the int 1" + kind);
  CHECK(message(0, [](auto& l) { l.kind = PRECAST_NONE; }) == "argument 1: expected a tensor, found None" + kind);
  CHECK(message(0, [](auto& l) { l.t.dtype = 4; }) ==
        "argument 1: expected dtype float32, found int64. Convert the tensor, or capture again with this dtype.");
  CHECK(message(3, [](auto& l) {
          static const std::string s(500, 'y');
          l.s = s.c_str(), l.length = 500;
        }).find("yyy...\"") != std::string::npos);
}

TEST_CASE("floats are compared by bits, except that any NaN is NaN") {
  Call c;
  c.metadata.signature.leaves[2].value = 0.0;
  c.leaves[2].d = -0.0;
  CHECK(c.run() ==
        "argument 3[0]: expected the float 0, found the float -0. Its value was recorded as a condition: pass the "
        "same, or capture again.");
  c.metadata.signature.leaves[2].value = std::nan("");
  c.leaves[2].d = -std::numeric_limits<double>::quiet_NaN();
  CHECK(c.run() == "");
}

TEST_CASE("a leaf that the graph does not read may have any layout") {
  Call c;
  static const precast_i64 flipped[] = {1, 2};
  c.leaves[4].t.strides = flipped;
  CHECK(c.run() == "");
  c.leaves[0].t.strides = flipped;
  CHECK(c.run().find("argument 1: expected strides [3, 1], found [1, 2]") == 0);
}

TEST_CASE("memory: tensors that were apart may not overlap, shared ones must share alike") {
  Call c;
  c.leaves[0].t.data = c.mean.data.data() + 2;  // mean is 3 floats
  CHECK(c.run() ==
        "buffer 'mean' and argument 1: expected separate memory, as at capture, found that they overlap. Pass a copy "
        "(.clone()), or capture again with these.");
  c.leaves[0].t.data = c.mean.data.data() + 3;
  c.host.op = [&](int, void* const*, void** out) {
    c.ran = true;
    static float result[3];
    static_cast<precast_tensor*>(out[0])->data = result;
    return 0;
  };
  CHECK(c.run() == "");

  Call d;
  d.metadata.signature.aliases = {{2, 3, true, 12}};
  d.leaves[0].t.data = d.mean.data.data() + 4;
  CHECK(d.run() ==
        "buffer 'mean' and argument 1: expected the memory of the second to start 12 bytes after the first's, as at "
        "capture, found 16. Pass tensors that share memory in the same way, or capture again with these.");
}

TEST_CASE("inputs that share memory are held to their layout by every backend") {
  Call c;
  c.metadata.signature.backend = "eager";
  c.metadata.signature.aliases = {{2, 3, true, 12}};
  static const precast_i64 flipped[] = {1, 2};
  c.leaves[0].t.data = c.mean.data.data() + 3;
  c.leaves[0].t.strides = flipped;
  CHECK(c.run().find("argument 1: expected strides [3, 1]") == 0);
}

TEST_CASE("write-backs go through the strides of source and result") {
  Call c;
  c.metadata.signature.backend = "eager";
  c.metadata.signature.writes = {{3, 0}};
  c.metadata.outputs = {ir::contiguous(ir::Dtype::f32, {2, 3})};
  static const precast_i64 to[] = {1, 4}, from[] = {7, 2};
  c.leaves[0].t.strides = to;
  std::vector<float> result(20);
  for (size_t i = 0; i < result.size(); ++i) result[i] = static_cast<float>(i) + 100;
  c.host.op = [&](int, void* const*, void** out) {
    auto* t = static_cast<precast_tensor*>(out[0]);
    t->data = result.data(), t->strides = from;
    c.ran = true;
    return 0;
  };
  CHECK(c.run() == "");
  for (size_t i = 0; i < 2; ++i)
    for (size_t j = 0; j < 3; ++j) CHECK(c.x.data[i + 4 * j] == result[7 * i + 2 * j]);
  CHECK(c.x.data[2] == 0);  // between the elements nothing is written
}

TEST_CASE("results that lie in memory to be written are set aside first: a swap swaps") {
  Call c;
  c.metadata.signature.writes = {{1, 0}, {2, 1}};
  c.metadata.outputs = {c.metadata.outputs[0], c.metadata.outputs[0]};
  for (size_t i = 0; i < 3; ++i) c.bias.data[i] = 1, c.mean.data[i] = 2;
  c.host.op = [&](int, void* const*, void** out) {
    static_cast<precast_tensor*>(out[0])->data = c.mean.data.data();
    static_cast<precast_tensor*>(out[1])->data = c.bias.data.data();
    c.ran = true;
    return 0;
  };
  CHECK(c.run() == "");
  CHECK(c.bias.data[1] == 2);
  CHECK(c.mean.data[1] == 1);
}

TEST_CASE("a shifted copy of a tensor onto itself") {
  Call c;
  c.metadata.signature.writes = {{2, 0}};
  for (size_t i = 0; i < 4; ++i) c.mean.data[i] = static_cast<float>(i);
  c.host.op = [&](int, void* const*, void** out) {
    static_cast<precast_tensor*>(out[0])->data = c.mean.data.data() + 1;
    c.ran = true;
    return 0;
  };
  CHECK(c.run() == "");
  CHECK(std::vector<float>(c.mean.data.begin(), c.mean.data.begin() + 4) == std::vector<float>{1, 2, 3, 3});
}

TEST_CASE("a failing host changes nothing and keeps its own reason") {
  Call c;
  c.host.op = [](int, void* const*, void**) { return 1; };
  const Tables tables(c.metadata);
  const precast_tensor bound[] = {c.entries[0].tensor, c.entries[1].tensor, c.entries[3].tensor};
  precast_tensor outputs[1];
  c.call.module_positions = c.module_positions.data();
  c.call.leaves = c.leaves.data(), c.call.n_leaves = 7, c.call.bound = bound, c.call.n_bound = 3,
  c.call.outputs = outputs;
  CHECK(driver::call_graph(tables.spec(), &c.host.host, &c.call) == PRECAST_HOST);
  CHECK(c.host.message == "");
  CHECK(c.mean.data[0] == 0);

  float result[4] = {5, 5, 5, 5};
  const precast_i64 four[] = {4};
  c.host.op = [&](int, void* const*, void** out) {  // a result of another shape than the source
    auto* t = static_cast<precast_tensor*>(out[0]);
    t->data = result, t->sizes = four;
    return 0;
  };
  CHECK(driver::call_graph(tables.spec(), &c.host.host, &c.call) == PRECAST_INTERNAL);
  CHECK(c.host.message == "the host's result 0 does not have the type of buffer 'mean'");
  CHECK(c.mean.data[0] == 0);
  c.call.n_bound = 2;
  CHECK(driver::call_graph(tables.spec(), &c.host.host, &c.call) == PRECAST_INTERNAL);
  CHECK(c.host.message == "the host bound 2 module tensors, the artifact has 3");
}

TEST_CASE("messages end, whatever the names") {
  Call c;
  c.metadata.signature.params[0].name = std::string(5000, 'n');
  c.entries[0].tensor.dtype = 1;
  const std::string message = c.check_modules();
  CHECK(message.size() < 2048);
  CHECK(message.ends_with("..."));
}

TEST_CASE("metadata that contradicts itself is refused before it becomes tables") {
  const auto refuse = [](auto&& change, const char* what) {
    Metadata m = convention();
    change(m);
    CHECK_THROWS_WITH_AS(Tables{m}, doctest::Contains(what), PrecompileError);
  };
  refuse([](auto& m) { m.signature.slots[0].tensor = 2; }, "module entry 'fc.weight'");
  refuse([](auto& m) { m.signature.slots[3].tensor = 9; }, "module entry 'mean'");
  refuse([](auto& m) { m.signature.slots[0].module = 1; }, "module entry 'fc.weight'");
  refuse([](auto& m) { m.signature.slots.erase(m.signature.slots.begin() + 1); }, "no module entry names tensor 1");
  refuse([](auto& m) { std::swap(m.signature.slots[2], m.signature.slots[3]); }, "a buffer stands before a parameter");
  refuse([](auto& m) { m.signature.num_positional_args = -1; }, "a negative number of arguments");
  refuse([](auto& m) { m.signature.fixed_layouts = {9}; }, "a fixed layout");
  refuse([](auto& m) { m.signature.module_positions = {7}; }, "module position 7");
  refuse([](auto& m) { m.signature.graph_inputs[0].source = 5; }, "source of a graph input");
  refuse([](auto& m) { m.signature.aliases[0].b = -1; }, "sources of an alias");
  refuse([](auto& m) { m.signature.writes[0].output = 1; }, "indices of a write-back");
  refuse([](auto& m) { m.outputs[0].dtype = ir::Dtype::f64; }, "a write-back of f64[3] to f32[3]");
  refuse([](auto& m) { m.signature.grads = {{0, 3, true}}; }, "indices of a gradient");
  refuse([](auto& m) { m.signature.results = {{Result::Kind::source, 5, 0, {}, {}, false}}; }, "source of a result");
  refuse([](auto& m) { m.signature.params[0].type.strides.pop_back(); }, "sizes and strides of 'fc.weight'");
}
