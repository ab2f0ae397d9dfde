#include <dlfcn.h>
#include <doctest/doctest.h>

#include <cstring>
#include <string>

#include "../artifact/sample.h"
#include "../scratch.h"
#include "artifact/build.h"
#include "artifact/embedded.h"
#include "io/safetensors.h"
#include "precast/runtime.h"
#include "util/process.h"

using namespace precast;
using namespace precast::artifact;

namespace {

// The sample with more kinds of results: y, a view of it, the parameter, a number; and a gradient.
PairBytes rich_pair() {
  Sample s = sample();
  using R = Result::Kind;
  s.signature.out_spec = "(*, *, *, *)";
  s.signature.results = {{R::output, 0, 0, {}, {}, false},
                         {R::output_view, 0, 8, {ir::Dtype::f32, {3}, {2}, {}, false, false}, {}, false},
                         {R::source, 0, 0, {}, {}, false},
                         {R::integer, 0, 0, {}, int64_t{42}, false}};
  s.signature.grads = {{0, 0, true}};
  return build_pair(s.signature, s.graph, &s.emitted, {});
}

struct Weights {
  float weight[8] = {1, 2, 3, 4, 5, 6, 7, 8}, count[8] = {};
  precast_i64 sizes[1] = {8}, strides[1] = {1};
  precast_tensor tensor(float* data) { return {data, sizes, strides, data, nullptr, 1, 6, 0, -1, 0, 0}; }
};

const float* floats(const precast_leaf* leaf) { return static_cast<const float*>(leaf->t.data); }

}  // namespace

TEST_CASE("a program without LibTorch loads a pair, binds weights, calls, and reads results") {
  const Scratch scratch;
  const PairBytes pair = rich_pair();
  const std::string cpp = (scratch.path / "m.cpp").string(), cache = (scratch.path / "m.cache").string();
  write_pair(cpp, cache, pair.code, pair.cache);

  precast_runnable* model = nullptr;
  REQUIRE(precast_load(cpp.c_str(), cache.c_str(), &model) == PRECAST_OK);
  CHECK(std::string(precast_metadata(model)).find("\"PARAM_NAMES\"") != std::string::npos);
  REQUIRE(precast_num_leaves(model) == 1);
  CHECK(precast_expected_leaf(model, 0)->t.sizes[0] == 8);
  CHECK(precast_expected_leaf(model, 1) == nullptr);

  Weights w;
  precast_binding* binding = nullptr;
  {
    precast_named entries[] = {
        {"weight", 0, 0, w.tensor(w.weight)}, {"tied", 0, 0, w.tensor(w.weight)}, {"count", 0, 1, w.tensor(w.count)}};
    CHECK(precast_bind(model, entries, 2, &binding) == PRECAST_CONTRACT);
    CHECK(binding == nullptr);
    CHECK(std::string(precast_last_error()).find("the model (argument 0) has no buffer 'count'") == 0);
    entries[1].tensor.data = nullptr;
    CHECK(precast_bind(model, entries, 3, &binding) == PRECAST_CONTRACT);
    CHECK(std::string(precast_last_error()) == "weight 'tied': data is NULL, and the tensor has elements");
    entries[1].tensor.data = w.weight;
    REQUIRE(precast_bind(model, entries, 3, &binding) == PRECAST_OK);
    CHECK(std::string(precast_last_error()).empty());
  }
  precast_free_runnable(model);  // the binding keeps what it needs

  Weights x;
  precast_leaf leaf{};
  leaf.kind = PRECAST_TENSOR, leaf.t = x.tensor(x.weight);
  precast_outputs* out = nullptr;
  REQUIRE(precast_call_model(binding, &leaf, 1, nullptr, &out) == PRECAST_OK);
  REQUIRE(precast_num_outputs(out) == 4);
  for (int i = 0; i < 8; ++i) CHECK(floats(precast_output(out, 0))[i] == static_cast<float>((i + 1) * (i + 1) + 1));
  CHECK(w.count[2] == 10);
  const precast_leaf* view = precast_output(out, 1);
  CHECK(floats(view) == floats(precast_output(out, 0)) + 2);
  CHECK(view->t.sizes[0] == 3);
  CHECK(view->t.strides[0] == 2);
  CHECK(floats(precast_output(out, 2)) == w.weight);
  CHECK(precast_output(out, 3)->i == 42);
  CHECK(precast_output(out, 4) == nullptr);
  REQUIRE(precast_num_gradients(out) == 1);
  int accumulate = 0;
  CHECK(precast_gradient(out, 0, &accumulate)->name == std::string("weight"));
  CHECK(accumulate == 1);
  precast_free_outputs(out);

  leaf.t.dtype = 7;
  CHECK(precast_call_model(binding, &leaf, 1, nullptr, &out) == PRECAST_CONTRACT);
  CHECK(out == nullptr);
  CHECK(std::string(precast_last_error()) ==
        "argument 1: expected dtype float32, found float64. Convert the tensor, or capture again with this dtype.");
  leaf.t.dtype = 6;
  CHECK(precast_call_model(binding, &leaf, 1, "(*, *)", &out) == PRECAST_CONTRACT);
  CHECK(std::string(precast_last_error()).find("argument 2: expected no more items, found a single value") == 0);
  precast_leaf nothing = leaf;
  nothing.t.data = nullptr;
  CHECK(precast_call_model(binding, &nothing, 1, nullptr, &out) == PRECAST_CONTRACT);
  CHECK(std::string(precast_last_error()) == "leaf 0: data is NULL, and the tensor has elements");
  nothing = leaf;
  nothing.t.strides = nullptr;
  CHECK(precast_call_model(binding, &nothing, 1, nullptr, &out) == PRECAST_CONTRACT);
  CHECK(std::string(precast_last_error()) == "leaf 0: sizes or strides are NULL");
  precast_free_binding(binding);
}

TEST_CASE("what needs LibTorch is refused when it is loaded") {
  const Scratch scratch;
  const std::string cpp = (scratch.path / "m.cpp").string(), cache = (scratch.path / "m.cache").string();
  const auto refusal = [&](const PairBytes& pair) {
    write_pair(cpp, cache, pair.code, pair.cache);
    precast_runnable* model = nullptr;
    CHECK(precast_load(cpp.c_str(), cache.c_str(), &model) == PRECAST_CONTRACT);
    CHECK(model == nullptr);
    return std::string(precast_last_error());
  };
  Sample s = sample();
  s.signature.backend = "eager";
  CHECK(refusal(build_pair(s.signature, s.graph, nullptr, {})) ==
        "the artifact has no kernels (backend=\"eager\"), so it needs LibTorch. Capture with backend=\"inductor\" to "
        "run without.");
  s.signature.backend = "inductor";
  s.emitted.host_ops = {{"aten::sort", "no lowering rule", s.graph}};
  CHECK(refusal(build_pair(s.signature, s.graph, &s.emitted, {})) ==
        "the artifact needs LibTorch for 1 host ops, first aten::sort (no lowering rule). `precast info` lists them.");
  precast_runnable* model = nullptr;
  CHECK(precast_load("/nowhere/m.cpp", "/nowhere/m.cache", &model) == PRECAST_CONTRACT);
  CHECK(std::string(precast_last_error()).find("cannot read the artifact /nowhere/m.cpp: No such file") == 0);
}

TEST_CASE("warnings go to the sink of the program") {
  const Scratch scratch;
  const PairBytes pair = rich_pair();
  scratch.write("m.cpp", pair.code);
  scratch.write("m.cache", "damaged");
  std::string heard;
  precast_on_warning([](const char* message, void* context) { *static_cast<std::string*>(context) += message; },
                     &heard);
  precast_runnable* model = nullptr;
  CHECK(precast_load((scratch.path / "m.cpp").c_str(), (scratch.path / "m.cache").c_str(), &model) == PRECAST_OK);
  precast_on_warning(nullptr, nullptr);
  CHECK(heard.find("m.cache is not used (format: ") != std::string::npos);
  precast_free_runnable(model);
}

TEST_CASE("two artifacts link into one program with their own symbols") {
  const Scratch scratch;
  for (const char* compiler : {"g++", "clang++"}) {
    if (find_program(compiler).empty()) continue;
    CAPTURE(compiler);
    for (const int n : {1, 2}) {
      Sample s = sample();
      s.emitted.parts[1] = "void k1_add(const float* a, float* y) {\n  for (int i = 0; i < 8; ++i) y[i] = a[i] + " +
                           std::to_string(n * 100) + ";\n}";
      ComposeOptions options;
      options.symbol = "model_" + std::to_string(n);
      scratch.write(options.symbol + ".cpp", compose(s.signature, s.graph, &s.emitted, options));
    }
    scratch.write("artifact_abi.h", std::string(kAbiHeader));
    scratch.write("main.c", R"(
#include <stdio.h>
#include <stdlib.h>
#include "artifact_abi.h"
const precast_artifact* model_1(void);
const precast_artifact* model_2(void);
static int allocate(void* c, precast_tensor* t) { (void)c; t->data = malloc(64); return 0; }
static void fail(void* c, precast_i32 kind, const char* m) { (void)c; printf("%d %s\n", kind, m); }
static void run(const precast_artifact* a) {
  static const precast_i64 sizes[] = {8}, strides[] = {1};
  static const int positions[] = {0};
  float w[8] = {2}, count[8], x[8] = {3};
  precast_tensor t = {0, sizes, strides, 0, 0, 1, 6, 0, -1, 0, 0}, bound[2] = {t, t}, out;
  precast_leaf leaf = {PRECAST_TENSOR, 0, 0, 0, 0, t};
  precast_host host = {PRECAST_ABI_VERSION, sizeof host, 0, 0, allocate, 0, 0, fail, 1, 0};
  precast_call call = {2, 1, positions, 0, 1, 2, &leaf, bound, 0, 0, &out};
  bound[0].data = w, bound[1].data = count, leaf.t.data = x;
  call.arena = aligned_alloc(64, (size_t)(a->arena_bytes + 63) / 64 * 64);
  int code = a->call(&host, &call);
  printf("%d %g %g\n", code, ((float*)out.data)[0], count[1]);
}
int main(void) { run(model_1()); run(model_2()); return 0; }
)");
    const std::string program = (scratch.path / "program").string();
    const auto file = [&](const char* name) { return (scratch.path / name).string(); };
    const ProcessResult built = run_process({compiler, "-O1", "-I", scratch.path.string(), "-x", "c", file("main.c"),
                                             "-x", "c++", file("model_1.cpp"), file("model_2.cpp"), "-o", program});
    CAPTURE(built.output);
    REQUIRE(built.exit_code == 0);
    CHECK(run_process({program}).output == "0 106 100\n0 206 200\n");
  }
}

TEST_CASE("an artifact that is part of the program is used through its entry") {
  const Scratch scratch;
  const Sample s = sample();
  scratch.write("m.cpp", compose(s.signature, s.graph, &s.emitted, {}));
  const std::string shared = (scratch.path / "m.so").string();
  REQUIRE(run_process({"g++", "-O1", "-shared", "-fPIC", (scratch.path / "m.cpp").string(), "-o", shared}).exit_code ==
          0);
  void* library = ::dlopen(shared.c_str(), RTLD_NOW);
  REQUIRE(library != nullptr);
  precast_runnable* model = nullptr;
  REQUIRE(precast_link(reinterpret_cast<precast_entry>(::dlsym(library, "precast_model")), &model) == PRECAST_OK);
  CHECK(precast_num_leaves(model) == 1);
  precast_free_runnable(model);
  ::dlclose(library);
  CHECK(precast_link([]() -> const precast_artifact* { return nullptr; }, &model) == PRECAST_CONTRACT);
  CHECK(std::string(precast_last_error()).find("has no section for this processor") != std::string::npos);
}

TEST_CASE("weights come from a file, change in memory, and are saved by name") {
  const Scratch scratch;
  const PairBytes pair = rich_pair();
  const std::string cpp = (scratch.path / "m.cpp").string(), cache = (scratch.path / "m.cache").string();
  const std::string file = (scratch.path / "w.safetensors").string(), saved = (scratch.path / "s.safetensors").string();
  write_pair(cpp, cache, pair.code, pair.cache);
  precast_runnable* model = nullptr;
  REQUIRE(precast_load(cpp.c_str(), cache.c_str(), &model) == PRECAST_OK);

  precast_binding* binding = nullptr;
  CHECK(precast_bind_file(model, nullptr, &binding) == PRECAST_CONTRACT);
  CHECK(std::string(precast_last_error()).find("the artifact needs weights: parameter 'weight'") == 0);
  CHECK(precast_bind_file(model, file.c_str(), &binding) == PRECAST_CONTRACT);
  CHECK(std::string(precast_last_error()).find(file) != std::string::npos);
  io::Array weight = io::allocate(ir::contiguous(ir::Dtype::f32, {8})), count = io::allocate(weight.type);
  for (int i = 0; i < 8; ++i) reinterpret_cast<float*>(weight.data)[i] = static_cast<float>(i);
  io::write_safetensors(file, {{"weight", weight}});
  CHECK(precast_bind_file(model, file.c_str(), &binding) == PRECAST_CONTRACT);
  CHECK(std::string(precast_last_error()) ==
        file + " has no tensor 'count', which the artifact needs as buffer 'count'");
  CHECK(binding == nullptr);
  io::write_safetensors(file, {{"count", count}, {"weight", weight}});
  REQUIRE(precast_bind_file(model, file.c_str(), &binding) == PRECAST_OK);

  Weights x;
  precast_leaf leaf{};
  leaf.kind = PRECAST_TENSOR, leaf.t = x.tensor(x.weight);
  precast_outputs* out = nullptr;
  REQUIRE(precast_call_model(binding, &leaf, 1, nullptr, &out) == PRECAST_OK);
  CHECK(floats(precast_output(out, 2))[3] == 3);
  precast_free_outputs(out);
  REQUIRE(precast_save_weights(binding, saved.c_str()) == PRECAST_OK);
  for (const auto& [name, array] : io::read_safetensors(saved)) {
    CAPTURE(name);
    CHECK(reinterpret_cast<const float*>(array.data)[2] == (name == "weight" ? 2 : 7));
  }
  CHECK(reinterpret_cast<const float*>(io::read_safetensors(file)[0].array.data)[2] == 0);
  precast_free_binding(binding);

  precast_named entries[] = {
      {"weight", 0, 0, x.tensor(x.weight)}, {"tied", 0, 0, x.tensor(x.weight)}, {"count", 0, 1, x.tensor(x.count)}};
  REQUIRE(precast_bind(model, entries, 3, &binding) == PRECAST_OK);
  CHECK(precast_save_weights(binding, saved.c_str()) == PRECAST_CONTRACT);
  CHECK(precast_num_weights(binding) == 0);
  precast_free_binding(binding);

  REQUIRE(precast_bind_zeros(model, &binding) == PRECAST_OK);
  REQUIRE(precast_num_weights(binding) == 2);
  CHECK(precast_weight(binding, 2) == nullptr);
  CHECK(std::string(precast_weight(binding, 0)->name) == "weight");
  CHECK(std::string(precast_weight(binding, 1)->name) == "count");
  static_cast<float*>(precast_weight(binding, 0)->tensor.data)[0] = 5;
  REQUIRE(precast_call_model(binding, &leaf, 1, nullptr, &out) == PRECAST_OK);
  CHECK(floats(precast_output(out, 0))[0] == 6);
  CHECK(floats(precast_output(out, 0))[1] == 1);
  precast_free_outputs(out);
  precast_free_binding(binding);
  precast_free_runnable(model);
}
