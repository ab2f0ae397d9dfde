#include "artifact/metadata.h"
#include "artifact/spec.h"

#include <doctest/doctest.h>

#include <cmath>
#include <limits>

#include "precast/error.h"
#include "sample.h"

using namespace precast;
using namespace precast::artifact;

namespace {

ir::Type strided_type() { return {ir::Dtype::c64, {2, 3}, {1, 2}, {1, 0}, true, true}; }

// Every field holds something that is not its default, and values that JSON cannot say.
Metadata full() {
  const Sample simple = sample();
  Metadata m = describe(simple.signature, simple.graph, &simple.emitted);
  m.symbol = "other";
  m.isa = {"avx2", "baseline"};
  m.host_ops = {{"aten::convolution", "no lowering rule", "graph(%0: f32[2] \"x\") {\n}\n"}};
  m.prepared_bytes = 128;
  Signature& s = m.signature;
  const ir::Type strided = strided_type();
  s.params[0].name = "caf\xC3\xA9 \"quoted\"\n";
  s.buffers.push_back({"bytes \xFF\x00", strided, true, false});
  s.slots.push_back({"bytes \xFF", 0, true, 2});
  using Kind = UserLeaf::Kind;
  s.leaves = {{Kind::none, "argument 0", {}, {}},
              {Kind::boolean, "argument 1", {}, true},
              {Kind::integer, "argument 2", {}, std::numeric_limits<int64_t>::min()},
              {Kind::real, "argument 3", {}, -0.0},
              {Kind::real, "argument 4", {}, std::numeric_limits<double>::infinity()},
              {Kind::real, "argument 5", {}, 0.1},
              {Kind::real, "argument 6", {}, 2.0},
              {Kind::string, "argument 7['k']", {}, std::string("a\0b\xFE", 4)},
              {Kind::tensor, "argument 8", {"x", strided, true, false}, {}}};
  using R = Result::Kind;
  s.results = {{R::none, 0, 0, {}, {}, false},
               {R::boolean, 0, 0, {}, false, false},
               {R::integer, 0, 0, {}, int64_t{7}, false},
               {R::real, 0, 0, {}, 1e300, false},
               {R::string, 0, 0, {}, std::string("s"), false},
               {R::output, 0, 0, {}, {}, true},
               {R::source, 1, 0, {}, {}, false},
               {R::output_view, 0, 16, strided, {}, false},
               {R::source_view, 2, 8, strided, {}, true},
               {R::source_view, 2, 8, strided, {}, true, 8}};
  s.aliases = {{0, 1, true, -64}, {0, 2, false, 0}};
  s.grads = {{0, 0, true}, {1, 0, false, false, Part{16, strided}}};
  s.cleared_grads = {0};
  s.zeroed_grads = {1};
  s.attributes = {{"scale \"x\"", 0, "[1., 2.]"}};
  s.modes = {"te"};
  s.conditions = {"argument 2 == 3"};
  s.in_spec.reset();
  s.out_spec = list_spec(s.results.size());
  s.writes = {{1, 0}};
  s.fixed_layouts = {1};
  return m;
}

}  // namespace

TEST_CASE("metadata goes through JSON and back") {
  const Metadata m = full();
  const std::string json = to_json(m);
  const Metadata back = from_json(json);
  CHECK(to_json(back) == json);  // what JSON shows agrees; below, that it shows all
  for (const char c : json) REQUIRE((c == '\n' || (c >= 0x20 && c < 0x7f)));

  const Signature &a = m.signature, &b = back.signature;
  CHECK(b.params[0].name == a.params[0].name);
  CHECK(b.buffers[1].name == a.buffers[1].name);
  CHECK(b.buffers[1].type == a.buffers[1].type);
  CHECK(b.buffers[1].requires_grad);
  CHECK(!b.buffers[1].read);
  REQUIRE(b.leaves.size() == a.leaves.size());
  for (size_t i = 0; i < a.leaves.size(); ++i) {
    CHECK(b.leaves[i].kind == a.leaves[i].kind);
    CHECK(b.leaves[i].where == a.leaves[i].where);
    CHECK(b.leaves[i].value == a.leaves[i].value);
    if (a.leaves[i].kind == UserLeaf::Kind::tensor) CHECK(b.leaves[i].tensor.type == a.leaves[i].tensor.type);
  }
  CHECK(std::signbit(std::get<double>(b.leaves[3].value)));
  REQUIRE(b.results.size() == a.results.size());
  for (size_t i = 0; i < a.results.size(); ++i) {
    CHECK(b.results[i].kind == a.results[i].kind);
    CHECK(b.results[i].index == a.results[i].index);
    CHECK(b.results[i].offset_bytes == a.results[i].offset_bytes);
    CHECK(b.results[i].value == a.results[i].value);
    CHECK(b.results[i].required_grad == a.results[i].required_grad);
    CHECK(b.results[i].same_as == a.results[i].same_as);
    if (a.results[i].kind >= Result::Kind::output_view) CHECK(b.results[i].type == a.results[i].type);
  }
  CHECK(!b.in_spec);
  CHECK(b.aliases[0].delta_bytes == -64);
  CHECK(b.aliases[0].shared);
  CHECK(!b.grads[1].accumulate);
  CHECK(b.grads[0].in_place);
  CHECK(!b.grads[0].part);
  CHECK(!b.grads[1].in_place);
  REQUIRE(b.grads[1].part);
  CHECK(b.grads[1].part->offset_bytes == 16);
  CHECK(b.grads[1].part->type == strided_type());
  CHECK(b.cleared_grads == a.cleared_grads);
  CHECK(b.zeroed_grads == a.zeroed_grads);
  CHECK(b.attributes[0].name == a.attributes[0].name);
  CHECK(b.attributes[0].value == a.attributes[0].value);
  CHECK(b.modes == a.modes);
  CHECK(b.conditions == a.conditions);
  CHECK(back.outputs == m.outputs);
  CHECK(back.host_ops[0].graph == m.host_ops[0].graph);
  CHECK(back.kernels[1].what == "aten::add");
  CHECK(back.prepared_bytes == 128);
  CHECK(back.symbol == "other");
}

TEST_CASE("metadata has the names of torch.compiler.precompile") {
  const std::string json = to_json(full());
  for (const char* name :
       {"BACKEND", "TRACER", "MODULE_POSITIONS", "NUM_POSITIONAL_ARGS", "PARAM_NAMES", "PARAM_SHAPES", "PARAM_DTYPES",
        "PARAM_DEVICES", "BUFFER_NAMES", "BUFFER_SHAPES", "BUFFER_DTYPES", "BUFFER_DEVICES", "GRAD_PARAM_INDICES",
        "IN_SPEC", "OUT_SPEC", "USER_INPUT_SHAPES", "USER_INPUT_DTYPES", "USER_INPUT_DEVICES", "USER_INPUT_BOUNDS"}) {
    CAPTURE(name);
    CHECK(json.find("\n\"" + std::string(name) + "\": ") != std::string::npos);
  }
  CHECK(json.find("\"GRAD_PARAM_INDICES\": [0]") != std::string::npos);  // source 1 is a buffer
}

TEST_CASE("malformed metadata is a PrecompileError that names the field") {
  const std::string json = to_json(full());
  const auto without = [&](const std::string& from, const std::string& to) {
    std::string text = json;
    const size_t at = text.find(from);
    REQUIRE(at != text.npos);
    return text.replace(at, from.size(), to);
  };
  CHECK_THROWS_WITH_AS(from_json(without("\"TRACER\"", "\"RACER\"")), doctest::Contains("TRACER"), PrecompileError);
  CHECK_THROWS_WITH_AS(from_json(without("\"BUFFER_NAMES\": [", "\"BUFFER_NAMES\": [\"more\",")),
                       doctest::Contains("BUFFER_SHAPES has another length"), PrecompileError);
  CHECK_THROWS_WITH_AS(from_json(without("\"f32\"", "\"f33\"")), doctest::Contains("dtype 'f33' is unknown"),
                       PrecompileError);
  CHECK_THROWS_WITH_AS(from_json(without("\"VERSION\": 1", "\"VERSION\": 99")), doctest::Contains("format version 99"),
                       PrecompileError);
  CHECK_THROWS_WITH_AS(from_json(without("\"VERSION\": 1", "\"VERSION\": 5.55e+51")),
                       doctest::Contains("the number 5.55e+51 is no integer"), PrecompileError);
  CHECK_THROWS_WITH_AS(from_json(without("\"PARTS\": ", "\"PARTS\": 1.5e")), doctest::Contains("malformed"),
                       PrecompileError);
  CHECK_THROWS_WITH_AS(from_json(without("\"WRITES\": [", "\"WRITES\": [7,")),
                       doctest::Contains("WRITES has a value of another kind"), PrecompileError);
  CHECK_THROWS_WITH_AS(from_json(without("\"OUT_SPEC\": \"", "\"OUT_SPEC\": \"?")),
                       doctest::Contains("OUT_SPEC is none"), PrecompileError);
  CHECK_THROWS_WITH_AS(from_json(without("\"IN_SPEC\": null", "\"IN_SPEC\": \"[*]\"")),
                       doctest::Contains("IN_SPEC has 1 leaves, and 9 are described"), PrecompileError);
  CHECK_THROWS_WITH_AS(from_json(without("precast artifact", "another artifact")), doctest::Contains("FORMAT"),
                       PrecompileError);
  CHECK_THROWS_AS(from_json("{"), PrecompileError);
  CHECK_THROWS_AS(from_json(""), PrecompileError);
  for (size_t n = 0; n < json.size(); n += 7) CHECK_THROWS_AS(from_json(json.substr(0, n)), PrecompileError);
}

TEST_CASE("each key of the metadata is missed by name") {
  const std::string json = to_json(full());
  int keys = 0;
  for (size_t at = json.find("\n\""); at != json.npos; at = json.find("\n\"", at + 1), ++keys) {
    const size_t end = json.find('\n', at + 1);
    const std::string key = json.substr(at + 2, json.find('"', at + 2) - at - 2);
    CAPTURE(key);
    std::string text = json.substr(0, at) + json.substr(end);
    if (text.ends_with(",\n}\n")) text.erase(text.size() - 4, 1);
    CHECK_THROWS_WITH_AS(from_json(text), doctest::Contains(key.c_str()), PrecompileError);
  }
  CHECK(keys > 40);
  CHECK_THROWS_WITH_AS(from_json("{\"FORMAT\": \"precast artifact\", \"VERSION\": 1}"),
                       doctest::Contains("lacks BACKEND, TRACER, "), PrecompileError);
}
