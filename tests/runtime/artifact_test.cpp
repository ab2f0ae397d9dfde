// Pairs of files as a user meets them: loaded, called, damaged, swapped, without a compiler.
#include "runtime/artifact.h"

#include <doctest/doctest.h>

#include <cstdlib>
#include <thread>

#include "../artifact/sample.h"
#include "../scratch.h"
#include "artifact/build.h"
#include "artifact/cache.h"
#include "artifact/isa.h"
#include "artifact/tables.h"
#include "artifact/toolchain.h"
#include "fake_host.h"
#include "precast/error.h"
#include "util/sha256.h"
#include "util/warn.h"

using namespace precast;
using namespace precast::artifact;
using namespace precast::runtime;

namespace {

struct Warnings {
  std::vector<std::string> all;
  WarningSink before;
  Warnings()
      : before(set_warning_sink([this](std::string_view m) {
          if (!m.starts_with("loading ")) all.emplace_back(m);  // said at each load
        })) {}
  ~Warnings() { set_warning_sink(before); }
};

struct Environment {  // one variable, set for a scope
  std::string name, value;
  bool was_set;
  Environment(const char* n, const char* v)
      : name(n), value(std::getenv(n) ? std::getenv(n) : ""), was_set(std::getenv(n) != nullptr) {
    v ? ::setenv(n, v, 1) : ::unsetenv(n);
  }
  ~Environment() { was_set ? ::setenv(name.c_str(), value.c_str(), 1) : ::unsetenv(name.c_str()); }
};

struct NoCompiler {
  Environment path{"PATH", ""}, cxx{"CXX", nullptr};
};

// Compiling takes a while, so all tests share one pair of each backend.
const PairBytes& inductor_pair() {
  static const PairBytes pair = [] {
    const Sample s = sample();
    return build_pair(s.signature, s.graph, &s.emitted, {});
  }();
  return pair;
}

PairBytes eager_pair() {
  Sample s = sample();
  s.signature.backend = "eager";
  return build_pair(s.signature, s.graph, nullptr, {});
}

Cache cache_of(const PairBytes& pair) { return std::get<Cache>(read_cache(pair.cache)); }

// Calls the sample: y = x * weight + 1, count = y.
struct SampleCall {
  static constexpr precast_i64 sizes[] = {8}, strides[] = {1};
  std::vector<float> weight = {1, 2, 3, 4, 5, 6, 7, 8}, count = std::vector<float>(8), x = {1, 1, 1, 1, 2, 2, 2, 2};
  FakeHost host;
  std::vector<precast_named> entries;
  precast_leaf leaf{};
  precast_tensor output{};

  static precast_tensor tensor(std::vector<float>& data) {
    return {data.data(), sizes, strides, &data, nullptr, 1, 6, 0, -1, 0, 0};
  }
  SampleCall() {
    entries = {{"weight", 0, 0, tensor(weight)}, {"tied", 0, 0, tensor(weight)}, {"count", 0, 1, tensor(count)}};
    leaf.kind = PRECAST_TENSOR, leaf.t = tensor(x);
    host.op = [](int index, void* const* in, void** out) {  // the graph, as a host with LibTorch would run it
      if (index != -1) return 1;
      const auto *w = static_cast<const float*>(static_cast<const precast_tensor*>(in[0])->data),
                 *x = static_cast<const float*>(static_cast<const precast_tensor*>(in[1])->data);
      static thread_local std::vector<float> y(8);
      for (size_t i = 0; i < 8; ++i) y[i] = x[i] * w[i] + 1;
      static_cast<precast_tensor*>(out[0])->data = y.data();
      return 0;
    };
  }
  std::string run(const Artifact& artifact, char* prepared = nullptr) {
    int slot_of[2];
    host.message.clear();
    if (artifact.check_modules(host.host, entries.data(), static_cast<int>(entries.size()), slot_of))
      return host.message;
    const precast_tensor bound[] = {entries[static_cast<size_t>(slot_of[0])].tensor,
                                    entries[static_cast<size_t>(slot_of[1])].tensor};
    const int positions[] = {0};
    precast_call call{};
    call.n_positional = 2, call.n_modules = 1, call.module_positions = positions, call.in_spec = "(*,)";
    call.n_leaves = 1, call.leaves = &leaf, call.n_bound = 2, call.bound = bound, call.outputs = &output;
    call.prepared = prepared;
    const int code = artifact.call(host.host, call);
    return code == PRECAST_OK ? "" : host.message.empty() ? "code " + std::to_string(code) : host.message;
  }
  std::vector<float> result() const {
    const auto* y = static_cast<const float*>(output.data);
    return {y, y + 8};
  }
};

const std::vector<float> right = {2, 3, 4, 5, 11, 13, 15, 17};

std::string message_of(const PairBytes& pair, const LoadOptions& options = {}) {
  try {
    load_from_memory(pair.code, pair.cache, options);
  } catch (const PrecompileError& error) {
    return error.what();
  }
  return "";
}

}  // namespace

TEST_CASE("a pair loads from its cache, without a compiler, and computes") {
  const PairBytes& pair = inductor_pair();
  const NoCompiler none;
  const Warnings warnings;
  const ArtifactPtr artifact = load_from_memory(pair.code, pair.cache);
  CHECK(warnings.all.empty());
  CHECK(artifact->mode() == Mode::compiled);
  CHECK(cpu_runs(artifact->isa()));
  SampleCall call;
  CHECK(call.run(*artifact) == "");
  CHECK(call.result() == right);
  CHECK(call.count == right);  // the write-back
  call.x[0] = 5;
  CHECK(call.run(*artifact) == "");
  CHECK(call.result()[0] == 6);
}

TEST_CASE("what is prepared once is a snapshot") {
  const ArtifactPtr artifact = load_from_memory(inductor_pair().code, inductor_pair().cache);
  REQUIRE(artifact->prepared_bytes() == 32);
  SampleCall call;
  alignas(64) char prepared[32];
  const precast_tensor bound[] = {call.entries[0].tensor, call.entries[2].tensor};
  precast_call c{};
  c.n_bound = 2, c.bound = bound;
  CHECK(artifact->prepare(call.host.host, c, prepared) == PRECAST_OK);
  call.weight[0] = 100;
  CHECK(call.run(*artifact, prepared) == "");
  CHECK(call.result() == right);
  CHECK(call.run(*artifact) == "");
  CHECK(call.result()[0] == 101);
}

TEST_CASE("the driver in the artifact says what the driver in the runtime says") {
  const ArtifactPtr compiled = load_from_memory(inductor_pair().code, inductor_pair().cache);
  const Warnings warnings;
  const NoCompiler none;
  const ArtifactPtr graph = load_from_memory(inductor_pair().code, {}, {});
  REQUIRE(graph->mode() == Mode::graph);
  const auto both = [&](const std::string& what, auto&& change) {
    CAPTURE(what);
    SampleCall a, b;
    change(a), change(b);
    const std::string message = a.run(*compiled);
    CAPTURE(message);
    CHECK(message == b.run(*graph));
    CHECK(!message.empty());
    CHECK(a.host.allocations == 0);  // refused before anything runs
    return message;
  };
  static const precast_i64 nine[] = {9}, two[] = {2};
  both("shape", [](auto& c) { c.leaf.t.sizes = nine; });
  both("strides", [](auto& c) { c.leaf.t.strides = two; });
  both("dtype", [](auto& c) { c.leaf.t.dtype = 5; });
  both("kind", [](auto& c) { c.leaf.kind = PRECAST_INT; });
  both("names", [](auto& c) { c.entries.erase(c.entries.begin()); });
  both("tying", [](auto& c) { c.entries[1].tensor.identity = &c.leaf; });
  both("memory", [](auto& c) { c.leaf.t.data = c.count.data(); });
}

TEST_CASE("the tables in the text and those built from metadata agree") {
  const ArtifactPtr artifact = load_from_memory(inductor_pair().code, inductor_pair().cache);
  const Text text = read_artifact_text(inductor_pair().code, "");
  const Tables tables(text.metadata);
  CHECK(print_tables(artifact->spec()) == print_tables(tables.spec()));
  CHECK(&artifact->spec() != &tables.spec());
  CHECK(artifact->spec().n_params == 1);
}

TEST_CASE("a host that fails to allocate") {
  const ArtifactPtr artifact = load_from_memory(inductor_pair().code, inductor_pair().cache);
  SampleCall call;
  call.host.fail_allocation = 0;
  CHECK(call.run(*artifact) == "code 4");
  CHECK(call.count == std::vector<float>(8));
}

TEST_CASE("calls from many threads do not disturb each other") {
  const ArtifactPtr artifact = load_from_memory(inductor_pair().code, inductor_pair().cache);
  std::atomic<int> wrong{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([&, t] {
      SampleCall call;
      call.x.assign(8, static_cast<float>(t));
      for (int i = 0; i < 500; ++i) {
        wrong += !call.run(*artifact).empty();
        for (size_t k = 0; k < 8; ++k) wrong += call.result()[k] != static_cast<float>(t) * call.weight[k] + 1;
      }
    });
  for (auto& thread : threads) thread.join();
  CHECK(wrong == 0);
}

TEST_CASE("backend=\"eager\": the host runs the graph, no compiler is needed") {
  const NoCompiler none;
  const Warnings warnings;
  const PairBytes pair = eager_pair();
  const ArtifactPtr artifact = load_from_memory(pair.code, pair.cache);
  CHECK(warnings.all.empty());
  CHECK(artifact->mode() == Mode::graph);
  SampleCall call;
  CHECK(call.run(*artifact) == "");
  CHECK(call.result() == right);
  CHECK(call.count == right);
}

TEST_CASE("a pair that does not belong together is refused by field") {
  const PairBytes& pair = inductor_pair();
  const std::string advice = ". Pass the two files that one capture wrote; a text that was edited or cut belongs to no cache.";
  PairBytes other = pair;
  other.code += "\n";
  CHECK(message_of(other) == "the cache does not belong to this artifact: code_hash: expected '" +
                                 sha256_hex(other.code) + "', found '" + sha256_hex(pair.code) + "'" + advice);
  const auto with = [&](auto&& change) {
    Cache cache = cache_of(pair);
    change(cache);
    return message_of({pair.code, write_cache(cache)});
  };
  CHECK(with([](Cache& c) { c.backend = "eager"; }) ==
        "the cache does not belong to this artifact: backend: expected 'inductor', found 'eager'" + advice);
  CHECK(with([](Cache& c) { c.tracer = "dynamo"; }) ==
        "the cache does not belong to this artifact: tracer: expected 'make_fx', found 'dynamo'" + advice);
  CHECK(message_of({pair.code, eager_pair().cache}).find("backend: expected 'inductor', found 'eager'") !=
        std::string::npos);
  CHECK(message_of({eager_pair().code, pair.cache}).find("backend: expected 'eager', found 'inductor'") !=
        std::string::npos);
}

TEST_CASE("text that is no artifact, and files that are missing") {
  CHECK(message_of({"int main() {}", inductor_pair().cache})
            .find("the artifact text is not a precast artifact: expected a text that begins with") == 0);
  const Scratch scratch;
  CHECK_THROWS_WITH_AS(load(scratch.path / "m.cpp", scratch.path / "m.cache"),
                       doctest::Contains("cannot read the artifact"), PrecompileError);
  scratch.write("m.cpp", inductor_pair().code);
  CHECK_THROWS_WITH_AS(load(scratch.path / "m.cpp", scratch.path / "m.cache"),
                       doctest::Contains("cannot read the cache"), PrecompileError);
}

TEST_CASE("an unusable cache is one warning that names the field, then the text is compiled") {
  const PairBytes& pair = inductor_pair();
  const auto warning = [&](std::span<const std::byte> cache) {
    const Warnings warnings;
    const ArtifactPtr artifact = load_from_memory(pair.code, cache);
    CHECK(artifact->mode() == Mode::compiled);
    SampleCall call;
    CHECK(call.run(*artifact) == "");
    CHECK(call.result() == right);
    CHECK(warnings.all.size() == 1);
    return warnings.all.at(0);
  };
  const std::string then = "); the artifact is compiled from its text, which takes longer";
  CHECK(warning({}) ==
        "the cache is not used (format: expected a file that begins with \"precast cache\", found an empty file" +
            then);
  auto bytes = pair.cache;
  bytes[16] = std::byte{2};
  CHECK(warning(bytes) == "the cache is not used (version: expected 1, found 2" + then);
  bytes = pair.cache;
  bytes[bytes.size() / 2] ^= std::byte{1};
  CHECK(warning(bytes).find("the cache is not used (checksum: expected") == 0);
  CHECK(warning(std::span(pair.cache).first(pair.cache.size() - 1)).find("(checksum:") != std::string::npos);
}

TEST_CASE("a cache for another machine is not loaded") {
  const NoCompiler none;
  const auto warning = [&](auto&& change) {
    Cache cache = cache_of(inductor_pair());
    change(cache);
    const Warnings warnings;
    const ArtifactPtr artifact = load_from_memory(inductor_pair().code, write_cache(cache));
    CHECK(artifact->mode() == Mode::graph);
    SampleCall call;
    CHECK(call.run(*artifact) == "");  // interpreted, and right
    CHECK(call.result() == right);
    CHECK(warnings.all.size() == 1);
    return warnings.all.at(0);
  };
  const std::string then =
      "no C++ compiler was found ($CXX, c++, g++, clang++ in PATH); the recorded graph is run op by op instead, which "
      "is right but slower";
  CHECK(warning([](Cache& c) { c.variants[0].target = "riscv64-linux"; }) ==
        "the cache is not used (target: expected " + target_name() + ", found riscv64-linux); " + then);
  CHECK(warning([](Cache& c) { c.variants[0].isa = {"sve2", "amx"}; }) ==
        "the cache is not used (isa: expected one that this processor runs, found sve2, amx); " + then);
  CHECK(warning([](Cache& c) { c.variants.clear(); }) ==
        "the cache is not used (payload: expected a compiled form, found none); " + then);
  CHECK(warning([](Cache& c) {
          c.variants[0].payload.resize(100);
        }).find("the cache is not used (payload: the dynamic loader refused it: ") == 0);
  CHECK(warning([](Cache& c) { c.variants[0].payload.clear(); }).find("(payload: the dynamic loader refused it") !=
        std::string::npos);
}

TEST_CASE("among several variants the one for this machine is taken") {
  Cache cache = cache_of(inductor_pair());
  CacheVariant strange = cache.variants[0];
  strange.target = "riscv64-linux", strange.payload.clear();
  cache.variants.insert(cache.variants.begin(), strange);
  const Warnings warnings;
  CHECK(load_from_memory(inductor_pair().code, write_cache(cache))->mode() == Mode::compiled);
  CHECK(warnings.all.empty());
}

TEST_CASE("without kernels and without a host that runs graphs, loading fails with what to do") {
  const NoCompiler none;
  LoadOptions standalone;
  standalone.host_runs_graphs = false;
  const std::string message = message_of({inductor_pair().code, {}}, standalone);
  CHECK(message.find("the cache is not used (format:") == 0);
  CHECK(message.find("no C++ compiler was found") != std::string::npos);
  CHECK(message.ends_with("Without LibTorch an artifact needs a cache made for this machine, or a compiler."));
}

TEST_CASE("a compiler that fails is quoted") {
  const Scratch scratch;
  scratch.write("bad++", "#!/bin/sh\necho \"$0: no license\"\nexit 3\n");
  std::filesystem::permissions(scratch.path / "bad++", std::filesystem::perms(0700));
  const Environment cxx("CXX", (scratch.path / "bad++").c_str());
  CHECK_THROWS_WITH_AS(compile_artifact(inductor_pair().code),
                       doctest::Contains("the C++ compiler failed (exit code 3): "), PrecompileError);
  CHECK_THROWS_WITH_AS(compile_artifact(inductor_pair().code), doctest::Contains("bad++: no license"), PrecompileError);
}

TEST_CASE("capture without a compiler: a warning, and a pair that compiles later") {
  PairBytes pair;
  {
    const NoCompiler none;
    const Warnings warnings;
    const Sample s = sample();
    pair = build_pair(s.signature, s.graph, &s.emitted, {});
    CHECK(warnings.all.size() == 1);
    CHECK(warnings.all.at(0).find("no C++ compiler found") == 0);
  }
  const Warnings warnings;
  CHECK(load_from_memory(pair.code, pair.cache)->mode() == Mode::compiled);
  CHECK(warnings.all.size() == 1);
}

TEST_CASE("parts compiled in parallel make the same artifact, with g++ and clang++") {
  Sample s = sample();
  s.emitted.kernels.resize(30, s.emitted.kernels[0]);  // enough to be worth several processes
  const std::string code = compose(s.signature, s.graph, &s.emitted, {});
  REQUIRE(parts_to_compile(read_artifact_text(code, "").metadata).size() > 2);
  for (const char* compiler : {"g++", "clang++"}) {
    const Environment cxx("CXX", compiler);
    LoadOptions options;
    options.use_cache = false;
    const ArtifactPtr artifact = load_from_memory(code, {}, options);
    REQUIRE(artifact->mode() == Mode::compiled);
    SampleCall call;
    CHECK(call.run(*artifact) == "");
    CHECK(call.result() == right);
  }
}

TEST_CASE("artifacts loaded one after another are not mixed up") {
  for (int64_t round = 0; round < 4; ++round) {
    Sample s = sample();
    s.emitted.parts[1] = "void k1_add(const float* a, float* y) {\n  for (int i = 0; i < 8; ++i) y[i] = a[i] + " +
                         std::to_string(round) + ";\n}";
    ComposeOptions options;
    options.isa = {"baseline"};
    const PairBytes pair = build_pair(s.signature, s.graph, &s.emitted, options);
    const ArtifactPtr artifact = load_from_memory(pair.code, pair.cache);
    CHECK(artifact->isa() == std::string("baseline"));
    SampleCall call;
    CHECK(call.run(*artifact) == "");
    CHECK(call.result()[0] == static_cast<float>(1 + round));
  }
}
