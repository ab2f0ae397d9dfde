// The subcommands on real TorchScript files, one after the other, each in a process of its own.
#include <doctest/doctest.h>

#include <cmath>
#include <cstring>
#include <nlohmann/json.hpp>

#include "child.h"
#include "io/npy.h"
#include "io/safetensors.h"
#include "models.h"

using namespace precast;
using Json = nlohmann::json;

namespace {

const std::vector<std::string> kNet = {"--input", "f32[2,6]"};

std::vector<float> floats(const io::Array& array) {
  REQUIRE(array.type.dtype == ir::Dtype::f32);
  const io::Array plain = io::contiguous(array);
  std::vector<float> values(static_cast<size_t>(plain.type.numel()));
  if (!values.empty()) std::memcpy(values.data(), plain.data, values.size() * sizeof(float));
  return values;
}

std::vector<float> npy(const std::filesystem::path& path) { return floats(io::read_npy(path)); }

void write_floats(const std::filesystem::path& path, ir::Dims sizes, const std::vector<float>& values) {
  io::Array array = io::allocate(ir::contiguous(ir::Dtype::f32, std::move(sizes)));
  std::memcpy(array.data, values.data(), values.size() * sizeof(float));
  io::write_npy(path, array);
}

std::string folder(const std::string& name) { return (workspace().path / name).string(); }

// Standalone: no LibTorch can be found, no variable is set, no compiler is in PATH.
Output run_alone(std::vector<std::string> args) {
  return run_program(PRECAST_PROGRAM, args, {"PATH=/nonexistent"}, true);
}

}  // namespace

TEST_CASE("capture writes a pair and says what to do next") {
  const std::string base = folder("first");
  const Output o = precast_program({"capture", model("net"), "--input", "f32[2,6]", "-o", base});
  REQUIRE_MESSAGE(o.code == 0, o.err);
  CHECK(has(o.out, "wrote " + base + ".cpp and " + base + ".cache"));
  CHECK(has(o.out, "runs without LibTorch; the cache belongs to the text"));
  CHECK(has(o.out, "next: precast info " + base + ".cpp"));
  CHECK(std::filesystem::file_size(base + ".cpp") > 0);
  CHECK(std::filesystem::file_size(base + ".cache") > 0);
}

TEST_CASE("weights: every tensor by the name that the artifact uses") {
  const auto tensors = io::read_safetensors(weights("net"));
  REQUIRE(tensors.size() == 2);
  for (const auto& t : tensors) CHECK((t.name == "weight" ? t.array.type.sizes.size() == 2 : t.name == "bias"));
}

TEST_CASE("run computes what the model computes, without LibTorch and without a compiler") {
  const Pair& p = pair("net", kNet);
  const std::string w = weights("net"), out = folder("run-net");
  const std::vector<float> x = {0.5f, -1, 2, 0, 1, 3, -2, 1, 0.25f, 4, -0.5f, 1};
  write_floats(workspace().path / "x.npy", {2, 6}, x);
  const Output o = run_alone({"run", p.cpp, p.cache, "--weights", w, "--input", folder("x.npy"), "-o", out});
  REQUIRE_MESSAGE(o.code == 0, o.err);
  CHECK(o.err == "precast: loading " + p.cpp +
                     ": an artifact and its cache are executable input; load only files that you made or trust\n");
  CHECK(has(o.out, "result: f32[2,4] -> " + out + "/0.npy"));

  std::vector<float> weight, bias;
  for (const auto& t : io::read_safetensors(w)) (t.name == "weight" ? weight : bias) = floats(t.array);
  const std::vector<float> y = npy(out + "/0.npy");
  REQUIRE(y.size() == 8);
  for (size_t i = 0; i < 2; ++i)
    for (size_t j = 0; j < 4; ++j) {
      float sum = bias[j];
      for (size_t k = 0; k < 6; ++k) sum += x[i * 6 + k] * weight[j * 6 + k];
      CHECK(std::abs(y[i * 4 + j] - std::max(sum, 0.f)) < 1e-5f);
    }
}

TEST_CASE("run lays inputs out as the artifact wants them") {
  const Pair& p = pair("net", kNet);
  // The same values in Fortran order.
  const std::string dict = "{'descr': '<f4', 'fortran_order': True, 'shape': (2, 6), }";
  std::string text = std::string("\x93NUMPY\x01", 7) + '\0' + static_cast<char>(dict.size()) + '\0' + dict;
  std::vector<float> columns, rows;
  for (int i = 0; i < 12; ++i)
    columns.push_back(static_cast<float>(i % 2 * 6 + i / 2)), rows.push_back(static_cast<float>(i));
  text.append(reinterpret_cast<const char*>(columns.data()), columns.size() * sizeof(float));
  workspace().write("fortran.npy", text);
  write_floats(workspace().path / "c.npy", {2, 6}, rows);
  for (const char* name : {"fortran", "c"}) {
    const Output o = precast_program({"run", p.cpp, p.cache, "--weights", weights("net"), "--input",
                                      folder(std::string(name) + ".npy"), "-o", folder(name)});
    REQUIRE_MESSAGE(o.code == 0, o.err);
  }
  CHECK(npy(folder("fortran") + "/0.npy") == npy(folder("c") + "/0.npy"));
}

TEST_CASE("run reports and keeps what the call changes") {
  const Pair& p = pair("counter", {"--input", "f32[3]"});
  const std::string w = weights("counter"), out = folder("counter"), w2 = folder("counter2.safetensors");
  write_floats(workspace().path / "x3.npy", {3}, {1, 2, 3});
  const Output o = precast_program(
      {"run", p.cpp, p.cache, "--weights", w, "--input", folder("x3.npy"), "-o", out, "--save-weights", w2});
  REQUIRE_MESSAGE(o.code == 0, o.err);
  CHECK(npy(out + "/0.npy") == std::vector<float>{3, 5, 7});
  CHECK(npy(out + "/input0.npy") == std::vector<float>{2, 4, 6});
  CHECK(has(o.out, "argument 1 was changed: f32[3] -> " + out + "/input0.npy"));
  CHECK(floats(io::read_safetensors(w2).at(0).array) == std::vector<float>{1});
  CHECK(floats(io::read_safetensors(w).at(0).array) == std::vector<float>{0});  // the file itself is not written
  const Output quiet = precast_program({"run", p.cpp, p.cache, "--weights", w, "--input", folder("x3.npy"), "-o", out});
  CHECK(has(quiet.out, "1 weight changed in memory only; --save-weights FILE keeps them"));
}

TEST_CASE("a submodule, another method, nested results, defaults") {
  const std::vector<std::string> target = {"--submodule", "part", "--method", "score"};
  const Pair& p = pair("nested", {"--submodule", "part", "--method", "score", "--input", "f32[2,3]"});
  const std::string w = weights("nested", {"--submodule", "part"}), out = folder("nested");
  write_floats(workspace().path / "n.npy", {2, 3}, {1, 1, 1, 2, 2, 2});
  const Output o = precast_program({"run", p.cpp, p.cache, "--weights", w, "--input", folder("n.npy"), "-o", out});
  REQUIRE_MESSAGE(o.code == 0, o.err);
  const std::vector<float> weight = floats(io::read_safetensors(w).at(0).array), y = npy(out + "/0.npy");
  for (size_t i = 0; i < 3; ++i) CHECK(std::abs(y[i] - 2 * weight[i]) < 1e-6f);
  CHECK(npy(out + "/1.npy") == std::vector<float>(y.begin(), y.begin() + 3));  // {'first': y[0], 'top': ...}
  CHECK(npy(out + "/2.npy").size() == 1);
  std::vector<std::string> check = {"check", model("nested"), p.cpp, p.cache};
  check.insert(check.end(), target.begin(), target.end());
  const Output c = precast_program(check);
  CHECK_MESSAGE(c.code == 0, c.err);
}

TEST_CASE("host ops and backend eager run through the plugin") {
  const Pair& random = pair("random", {"--input", "f32[100]:zeros"});
  const Output o =
      precast_program({"run", random.cpp, random.cache, "--input", "f32[100]:zeros", "-o", folder("random")});
  REQUIRE_MESSAGE(o.code == 0, o.err);
  const auto y = npy(folder("random") + "/0.npy");
  CHECK(*std::min_element(y.begin(), y.end()) >= 0);
  CHECK(*std::max_element(y.begin(), y.end()) < 1);
  CHECK(*std::max_element(y.begin(), y.end()) > *std::min_element(y.begin(), y.end()));

  const Pair& eager = pair("net", {"--input", "f32[2,6]", "--backend", "eager"});
  const Pair& compiled = pair("net", kNet);
  for (const auto& [p, name] : {std::pair{eager, "by-eager"}, {compiled, "by-kernels"}}) {
    const Output r = precast_program(
        {"run", p.cpp, p.cache, "--weights", weights("net"), "--input", "f32[2,6]", "-o", folder(name)});
    REQUIRE_MESSAGE(r.code == 0, r.err);
  }
  const auto a = npy(folder("by-eager") + "/0.npy"), b = npy(folder("by-kernels") + "/0.npy");
  REQUIRE(a.size() == b.size());
  for (size_t i = 0; i < a.size(); ++i) CHECK(std::abs(a[i] - b[i]) < 1e-5f);
}

TEST_CASE("check agrees with eager, and sees a difference where there is one") {
  const Pair& p = pair("net", kNet);
  const Output good = precast_program({"check", model("net"), p.cpp, p.cache});
  CHECK_MESSAGE(good.code == 0, good.err);
  CHECK(has(good.out, "result"));
  CHECK(has(good.out, "equal to eager over 3 rounds"));
  const Pair& counter = pair("counter", {"--input", "f32[3]"});
  const Output effects = precast_program({"check", model("counter"), counter.cpp, counter.cache});
  CHECK_MESSAGE(effects.code == 0, effects.err);
  CHECK(has(effects.out, "buffer 'calls'"));
  CHECK(has(effects.out, "input"));
  const Output bad = precast_program({"check", model("linear"), p.cpp, p.cache, "--rounds", "1"});
  CHECK(bad.code == 1);
  CHECK(has(bad.out, "DIFFERS"));
  CHECK(has(bad.err, "precast check: 1 of 1 compared tensors differ from eager"));
}

TEST_CASE("check: eager and artifact draw the same random numbers") {
  const Pair& random = pair("random", {"--input", "f32[100]:zeros"});
  const Output o = precast_program({"check", model("random"), random.cpp, random.cache});
  CHECK_MESSAGE(o.code == 0, o.out);
  CHECK(has(o.out, "equal to eager over 3 rounds"));
}

TEST_CASE("an integer serves where the method takes a float, and defaults are filled in") {
  const Pair& p = pair("typed", {"--input", "f32[3]:ones", "--input", "3"});
  const Output o = precast_program({"run", p.cpp, p.cache, "--input", "f32[3]:ones", "-o", folder("typed")});
  REQUIRE_MESSAGE(o.code == 0, o.err);
  CHECK(npy(folder("typed") + "/0.npy") == std::vector<float>{5, 5, 5});
  CHECK(precast_program({"check", model("typed"), p.cpp, p.cache}).code == 0);
}

TEST_CASE("with neither cache nor compiler, LibTorch runs the graph, and says so once") {
  const Pair& p = pair("net", kNet);
  workspace().write("useless.cache", "cut");
  const std::string cache = folder("useless.cache"), no_compiler = "PATH=/nonexistent";
  const Output run =
      precast_program({"run", p.cpp, cache, "--weights", weights("net"), "--input", "f32[2,6]", "-o", folder("graph")},
                      {no_compiler, "CXX="});
  REQUIRE_MESSAGE(run.code == 0, run.err);
  CHECK(has(run.err, "no C++ compiler was found"));
  CHECK(has(run.err, "the recorded graph is run op by op instead"));
  const Output good = precast_program(
      {"run", p.cpp, p.cache, "--weights", weights("net"), "--input", "f32[2,6]", "-o", folder("kernels")});
  const auto a = npy(folder("graph") + "/0.npy"), b = npy(folder("kernels") + "/0.npy");
  REQUIRE(a.size() == b.size());
  for (size_t i = 0; i < a.size(); ++i) CHECK(std::abs(a[i] - b[i]) < 1e-5f);
  const Output check = precast_program({"check", model("net"), p.cpp, cache}, {no_compiler, "CXX="});
  CHECK_MESSAGE(check.code == 0, check.err);
  CHECK(std::count(check.err.begin(), check.err.end(), '\n') == 2);  // that, and that files are executable input
}

TEST_CASE("a frozen file with constants and an assignment through an index") {
  const Pair& p = pair("frozen", {"--method", "assign", "--input", "f32[2,6]"});
  const Output c = precast_program({"check", model("frozen"), p.cpp, p.cache, "--method", "assign"});
  CHECK_MESSAGE(c.code == 0, c.err);
  const Output r = precast_program(
      {"run", p.cpp, p.cache, "--weights", weights("frozen", {}), "--input", "f32[2,6]", "-o", folder("frozen")});
  CHECK_MESSAGE(r.code == 0, r.err);
}

TEST_CASE("build makes a shared object with one function") {
  const Pair& p = pair("net", kNet);
  const std::string so = folder("net.so");
  const Output o = precast_program({"build", p.cpp, "-o", so});
  REQUIRE_MESSAGE(o.code == 0, o.err);
  CHECK(o.out == "wrote " + so + ": exports precast_model()\n");
  CHECK(has(run_program("/usr/bin/env", {"nm", "-D", "--defined-only", so}).out, " T precast_model\n"));
  const auto has_debug_info = [&] {
    return has(run_program("/usr/bin/env", {"readelf", "-S", so}).out, ".debug_info");
  };
  CHECK_FALSE(has_debug_info());
  CHECK(precast_program({"build", p.cpp, "-o", so, "--flag=-g"}).code == 0);
  CHECK(has_debug_info());
}

TEST_CASE("info tells about a pair, for people and for programs") {
  const Pair& p = pair("net", kNet);
  const Output o = precast_program({"info", p.cpp});
  REQUIRE_MESSAGE(o.code == 0, o.err);
  CHECK(o.out.starts_with("fully lowered: "));
  for (const char* part :
       {"call\n", "1 module", "2 parameters (28 values, 112 B)", "argument 1", "f32[2,6]", "result ", "f32[2,4]",
        "recorded ops: ", "kernels: ", "fused into it", "files\n", "exports precast_model()", "cache", "baseline"})
    CHECK_MESSAGE(has(o.out, part), part);

  const Json j = Json::parse(precast_program({"info", p.cpp, p.cache, "--json"}).out);
  CHECK(j["backend"] == "inductor");
  CHECK(j["needs_torch"] == false);
  CHECK(j["cache"]["belongs"] == true);
  CHECK(j["cache"]["usable_here"] == true);
  CHECK(j["parameters"].size() == 2);
  CHECK(j["arguments"][0]["input"] == "f32[2,6]");
  CHECK(j["host_ops"].empty());
  CHECK(j["kernels"].size() >= 1);

  const Output graph = precast_program({"info", p.cpp, "--graph"});
  CHECK(graph.out.starts_with("graph("));
}

TEST_CASE("info names host ops, why they are, and what to change") {
  const Pair& p = pair("random", {"--input", "f32[100]:zeros"});
  const Output o = precast_program({"info", p.cpp});
  CHECK(has(o.out, "host ops: 1, run by LibTorch"));
  CHECK(has(o.out, "aten::rand"));
  CHECK(has(o.out, "why: "));
  CHECK(has(o.out, "to change it: "));
  CHECK(has(o.out, "1 host op run by LibTorch"));
  const Json j = Json::parse(precast_program({"info", p.cpp, "--json"}).out);
  CHECK(j["needs_torch"] == true);
  CHECK(j["host_ops"][0]["count"] == 1);
}

TEST_CASE("info sees a pair that does not belong together, and a cache that is broken") {
  const Pair& a = pair("net", kNet);
  const Pair& b = pair("counter", {"--input", "f32[3]"});
  const Output mixed = precast_program({"info", a.cpp, b.cache});
  CHECK(mixed.code == 0);
  CHECK(has(mixed.out, "THE CACHE BELONGS TO ANOTHER TEXT (code_hash differs)"));
  workspace().write("cut.cache", workspace().read(std::filesystem::path(a.cache).filename()).substr(0, 100));
  const Output cut = precast_program({"info", a.cpp, folder("cut.cache")});
  CHECK(cut.code == 0);
  CHECK(has(cut.out, "the cache is of no use here"));
  CHECK(Json::parse(precast_program({"info", a.cpp, b.cache, "--json"}).out)["cache"]["belongs"] == false);
}

TEST_CASE("open sizes: one pair for batches of any size within the bounds") {
  const auto& p = pair("net", {"--input", "f32[2,6]", "--open", "0:0:1..50"});
  const Output info = precast_program({"info", p.cpp, p.cache});
  REQUIRE_MESSAGE(info.code == 0, info.err);
  CHECK(has(info.out, "f32[u0,6]"));
  CHECK(has(info.out, "a size of 1 to 50, 2 at capture"));
  const Json j = Json::parse(precast_program({"info", p.cpp, p.cache, "--json"}).out);
  CHECK(j.at("symbols").at(0).at("max") == 50);
  const Output check = precast_program({"check", model("net"), p.cpp, p.cache});
  CHECK_MESSAGE(check.code == 0, check.out << check.err);
  const Output nine = precast_program({"check", model("net"), p.cpp, p.cache, "--input", "f32[9,6]"});
  CHECK_MESSAGE(nine.code == 0, nine.out << nine.err);
  for (const char* n : {"1", "31"}) {
    const Output run = run_alone({"run", p.cpp, p.cache, "--weights", weights("net"), "--input",
                                  "f32[" + std::string(n) + ",6]", "-o", folder("open" + std::string(n))});
    CHECK_MESSAGE(run.code == 0, run.err);
    CHECK(has(run.out, "f32[" + std::string(n) + ","));
  }
  const Output beyond =
      run_alone({"run", p.cpp, p.cache, "--weights", weights("net"), "--input", "f32[51,6]", "-o", folder("open51")});
  CHECK(beyond.code != 0);
  CHECK(has(beyond.err, "expected a size of 1 to 50, found 51"));
  CHECK(has(precast_program({"capture", model("net"), "--input", "f32[2,6]", "--open", "0", "-o", folder("bad")}).err,
            "expected INPUT:DIM or INPUT:DIM:MIN..MAX"));
}
