// Every way a job fails: exit code 1, one clear line on stderr that names the thing, nothing half-written.
#include <doctest/doctest.h>

#include <algorithm>

#include "child.h"
#include "io/input.h"
#include "io/npy.h"
#include "io/safetensors.h"
#include "models.h"

using namespace precast;

namespace {

std::string in(const std::string& name) { return (workspace().path / name).string(); }

struct Case {
  std::vector<std::string> args;
  std::string message;  // part of the line on stderr
};

void check_fails(const Case& c) {
  const Output o = precast_program(c.args);
  CAPTURE(o.err);
  CHECK(o.code == 1);
  CHECK(has(o.err, "precast " + c.args[0] + ": "));
  CHECK(has(o.err, c.message));
  CHECK(std::count(o.err.begin(), o.err.end(), '\n') <= 12);  // no stack of frames
}

}  // namespace

TEST_CASE("failures: capture") {
  workspace().write("text.pt", "not a model");
  const Case cases[] = {
      {{"capture", in("none.pt"), "-o", in("f")}, "none.pt: cannot be opened: No such file"},
      {{"capture", workspace().path.string(), "-o", in("f")}, "Is a directory"},
      {{"capture", model("pickle"), "-o", in("f")}, "it is a file of torch.save"},
      {{"capture", in("text.pt"), "-o", in("f")}, "text.pt is no TorchScript file that can be loaded"},
      {{"capture", model("nested"), "--submodule", "part.deep", "--input", "f32[3]", "-o", in("f")},
       "'part' has no module 'deep'; it has: none"},
      {{"capture", model("nested"), "--submodule", "head", "--input", "f32[3]", "-o", in("f")},
       "the model has no module 'head'; it has: part"},
      {{"capture", model("nested"), "--submodule", "part.", "--input", "f32[3]", "-o", in("f")},
       "'part' has no module ''"},
      {{"capture", model("net"), "--method", "infer", "--input", "f32[2,6]", "-o", in("f")},
       "method 'infer': the module has none of that name; it has: forward"},
      {{"capture", model("net"), "-o", in("f")}, "takes 1 argument (x: Tensor), and 0 were given"},
      {{"capture", model("net"), "--input", "f32[2,6]", "--input", "3", "-o", in("f")},
       "takes 1 argument (x: Tensor), and 2 were given"},
      {{"capture", model("typed"), "--input", "f32[3]", "-o", in("f")},
       "takes 2 to 4 arguments (x: Tensor, scale: float, "},
      {{"capture", model("typed"), "--input", "3", "--input", "3", "-o", in("f")},
       "argument 1 of 'forward' is x: Tensor, and was given a value of type int"},
      {{"capture", model("typed"), "--input", "f32[3]", "--input", "1.5", "--input", "2.5", "-o", in("f")},
       "argument 3 of 'forward' is n: int, and was given a value of type float"},
      {{"capture", model("typed"), "--method", "stack", "--input", "f32[3]", "-o", in("f")},
       "argument 1 of 'stack' is xs: Tensor[], and was given a value of type Tensor; the command line has tensors"},
      {{"capture", model("net"), "--input", in("none.npy"), "-o", in("f")}, "none.npy: cannot be opened"},
      {{"capture", model("net"), "--input", "f32[2,7]", "-o", in("f")}, "mat1 and mat2"},
      {{"capture", model("broken"), "--input", "f32[2]", "-o", in("f")}, "this model always fails"},
  };
  for (const Case& c : cases) check_fails(c);
  CHECK_FALSE(std::filesystem::exists(in("f.cpp")));
  CHECK_FALSE(std::filesystem::exists(in("f.cache")));
}

TEST_CASE("failures: wrong values of options are wrong usage") {
  const Case cases[] = {
      {{"capture", model("net"), "--input", "f32[2,6]", "--backend", "cuda", "-o", in("f")}, "backend"},
      {{"capture", model("net"), "--input", "f32[2,6]", "--isa", "sse9", "-o", in("f")}, "sse9"},
      {{"capture", model("net"), "--input", "f32[2,6]", "--symbol", "not an identifier", "-o", in("f")},
       "not an identifier"},
      {{"capture", model("net"), "--input", "f32[2,6]", "--symbol", "int", "-o", in("f")}, "is a word of C or C++"},
      {{"capture", model("net"), "--input", "f32[2,6]", "-o", in("")}, "--out: a file's name is missing"},
      {{"capture", model("net"), "--input", "f32[2,6]", "-o", ""}, "--out: a file's name is missing"},
      {{"capture", model("net"), "--input", "u8[3]:0..300", "-o", in("f")}, "gives numbers that u8 does not hold"},
      {{"capture", "", "-o", in("f")}, "model: a name is missing"},
      {{"weights", model("net"), "-o", ""}, "--out: a file's name is missing"},
      {{"info", ""}, "artifact: a name is missing"},
      {{"run", "a.cpp", "a.cache", "-o", ""}, "--out: a name is missing"},
      {{"check", "a.pt", "a.cpp", "a.cache", "--rounds", "0"}, "--rounds: must be a whole number from 1"},
      {{"check", "a.pt", "a.cpp", "a.cache", "--relative", "-1"}, "--relative: must be a number from 0"},
      {{"check", "a.pt", "a.cpp", "a.cache", "--absolute", "nan"}, "--absolute: must be a number from 0"},
  };
  for (const Case& c : cases) {
    const Output o = precast_program(c.args);
    CAPTURE(o.err);
    CHECK(o.code == 2);
    CHECK(has(o.err, c.message));
  }
  for (const char* name : {".cpp", ".cache", "f.cpp", "f.cache"}) CHECK_FALSE(std::filesystem::exists(in(name)));
}

TEST_CASE("failures: run refuses by name what does not fit") {
  const Pair& p = pair("net", {"--input", "f32[2,6]"});
  const Pair& other = pair("counter", {"--input", "f32[3]"});
  const std::string w = weights("net");
  workspace().write("text.cpp", "int main() {}\n");
  workspace().write("text.npy", "1,2,3\n");
  workspace().write("text.safetensors", "{}");
  const auto tensor = [](const char* text) { return *io::parse_input(text, 0).array; };
  io::write_safetensors(in("shape.safetensors"), {{"weight", tensor("f32[4,7]")}, {"bias", tensor("f32[4]")}});
  io::write_safetensors(in("dtype.safetensors"), {{"weight", tensor("f64[4,6]")}, {"bias", tensor("f32[4]")}});
  io::write_safetensors(in("lacks.safetensors"), {{"weight", tensor("f32[4,6]")}});
  io::write_safetensors(in("prefix.safetensors"),
                        {{"model.weight", tensor("f32[4,6]")}, {"model.bias", tensor("f32[4]")}});
  const std::vector<std::string> good = {"run", p.cpp, p.cache, "--weights", w, "--input", "f32[2,6]", "-o", in("r")};
  const auto with = [&](size_t at, const std::string& value) {
    Case c{good, ""};
    c.args[at] = value;
    return c.args;
  };
  std::vector<std::string> without_weights = good, without_input = good, two_inputs = good;
  without_weights.erase(without_weights.begin() + 3, without_weights.begin() + 5);
  without_input.erase(without_input.begin() + 5, without_input.begin() + 7);
  two_inputs.insert(two_inputs.end(), {"--input", "f32[2,6]"});
  const Case cases[] = {
      {with(1, in("none.cpp")), "none.cpp: cannot be opened: No such file"},
      {with(1, in("text.cpp")), "text.cpp"},
      {with(2, in("none.cache")), "none.cache"},
      {with(2, other.cache), "does not belong to this artifact: code_hash"},
      {with(4, in("none.safetensors")), "none.safetensors: cannot be opened"},
      {with(4, in("text.safetensors")), "not a readable .safetensors file"},
      {with(4, in("shape.safetensors")), "weight"},
      {with(4, in("dtype.safetensors")), "weight"},
      {with(4, in("lacks.safetensors")), "has no tensor 'bias'"},
      {with(4, in("prefix.safetensors")), "it has 'model.weight': save the weights with --submodule model"},
      {with(6, "f32[2,7]"), "argument 1"},
      {with(6, "f64[2,6]"), "argument 1"},
      {with(6, in("text.npy")), "not a readable .npy file"},
      {without_weights, "the artifact needs weights: parameter 'weight'; give a .safetensors file"},
      {without_input,
       "the artifact takes 1 tensor, and 0 inputs were given; expected:\n  --input 'f32[2,6]'    (argument 1)"},
      {two_inputs, "the artifact takes 1 tensor, and 2 inputs were given"},
  };
  for (const Case& c : cases) check_fails(c);
  CHECK_FALSE(std::filesystem::exists(in("r")));
}

TEST_CASE("failures: info, check, weights, build") {
  const Pair& p = pair("net", {"--input", "f32[2,6]"});
  const Pair& eager = pair("net", {"--input", "f32[2,6]", "--backend", "eager"});
  const Pair& counter = pair("counter", {"--input", "f32[3]"});
  workspace().write("text.cpp", "int main() {}\n");
  const Case cases[] = {
      {{"info", in("none.cpp")}, "none.cpp: cannot be opened: No such file"},
      {{"info", in("text.cpp")}, "text.cpp"},
      {{"info", p.cpp, in("none.cache")}, "none.cache: cannot be opened"},
      {{"info", workspace().path.string()}, "Is a directory"},
      {{"weights", in("none.pt"), "-o", in("w")}, "none.pt"},
      {{"weights", model("net"), "-o", in("no/w")}, "no/w: cannot be created: No such file"},
      {{"build", in("text.cpp"), "-o", in("b.so")}, "text.cpp"},
      {{"build", eager.cpp, "-o", in("b.so")}, "backend \"eager\": it holds a graph and no kernels"},
      {{"build", p.cpp, "-o", in("b.so"), "--flag=-no-such-flag"}, "no-such-flag"},
      {{"build", p.cpp, "-o", in("b.so"), "--flag=-Dnamespace=oops", "--flag=-fmax-errors=1"}, p.cpp + ":"},
      {{"check", model("net"), counter.cpp, counter.cache}, ""},
      {{"check", model("net"), p.cpp, counter.cache}, "does not belong to this artifact"},
  };
  for (const Case& c : cases) check_fails(c);
  CHECK_FALSE(std::filesystem::exists(in("b.so")));
}

TEST_CASE("failures: without a compiler, and without a plugin, the line says so") {
  const Pair& p = pair("net", {"--input", "f32[2,6]"});
  const Output build = run_program(PRECAST_PROGRAM, {"build", p.cpp, "-o", in("c.so")}, {"PATH=/nonexistent"}, true);
  CHECK(build.code == 1);
  CHECK(has(build.err, "compiler"));
  // A copy of the program with nothing beside it.
  std::filesystem::create_directories(in("alone"));
  std::filesystem::copy_file(PRECAST_PROGRAM, in("alone/precast"), std::filesystem::copy_options::overwrite_existing);
  const Output capture =
      run_program(in("alone/precast"), {"capture", model("net"), "--input", "f32[2,6]", "-o", in("z")});
  CHECK(capture.code == 1);
  CHECK(has(capture.err, "precast capture: capturing a model needs LibTorch, and its plugin was found neither at " +
                             in("alone/libprecast_torch_plugin.so")));
  workspace().write("alone/libprecast_torch_plugin.so", "not a library");
  const Output broken =
      run_program(in("alone/precast"), {"capture", model("net"), "--input", "f32[2,6]", "-o", in("z")});
  CHECK(broken.code == 1);
  CHECK(has(broken.err, "the plugin that brings it cannot be loaded"));
  const Output info = run_program(in("alone/precast"), {"info", p.cpp});
  CHECK(info.code == 0);
  std::filesystem::remove(in("alone/libprecast_torch_plugin.so"));
  workspace().write("cut.cache", "cut");
  const Output run =
      run_program(in("alone/precast"),
                  {"run", p.cpp, in("cut.cache"), "--weights", weights("net"), "--input", "f32[2,6]", "-o", in("q")},
                  {"PATH=/nonexistent"}, true);
  CHECK(run.code == 1);
  CHECK(has(run.err, "no C++ compiler was found"));
}

TEST_CASE("failures: what cannot be printed is a failure") {
  const Output o = run_program("/bin/sh", {"-c", std::string(PRECAST_PROGRAM) + " info " +
                                                     pair("net", {"--input", "f32[2,6]"}).cpp + " >/dev/full"});
  CHECK(o.code == 1);
  CHECK(has(o.err, "precast info: standard output cannot be written"));
}
