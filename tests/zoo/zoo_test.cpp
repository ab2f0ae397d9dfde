// Small networks through everything: TorchScript file, `precast capture`, the pair in another process, and the training
// step through the C++ interface. ZOO=name runs the networks whose names contain it.
#include <doctest/doctest.h>
#include <torch/torch.h>

#include <cstdlib>

#include "cli/child.h"
#include "host_torch/host_op.h"
#include "io/npy.h"
#include "scratch.h"
#include "trial.h"

using namespace precast;
using namespace precast::zoo;

namespace {

const char* const kSeed = "11";

void check_coverage(const Coverage& coverage) {
  for (const std::string& op : coverage.host_ops) FAIL_CHECK("no rule lowers " << op);
}

Output precast_program(const std::vector<std::string>& args) { return run_program(PRECAST_PROGRAM, args); }

void require(const Output& o) { REQUIRE_MESSAGE(o.code == 0, o.err << o.out); }

std::vector<std::string> with_inputs(std::vector<std::string> args, const Network& n) {
  for (const std::string& words : n.example(Size::small).inputs) args.insert(args.end(), {"--input", words});
  return args;
}

/// By the command line alone, each step in a process of its own.
void check_inference(const Network& n, const Scratch& dir) {
  const std::string base = dir.path / n.name, file = base + ".pt", cpp = base + ".cpp", cache = base + ".cache";
  Task task{n, Size::small, false};
  task.module().save(file);
  require(precast_program(with_inputs({"capture", file, "-o", base}, n)));
  const Coverage coverage = coverage_of(load({cpp, cache}).metadata());
  check_coverage(coverage);
  CHECK(coverage.ops >= 20);

  const Output check = precast_program(with_inputs({"check", file, cpp, cache, "--rounds", "2"}, n));
  CHECK_MESSAGE(check.code == 0, check.out << check.err);
  if (coverage.needs_torch) return;
  // Without host ops neither LibTorch nor a compiler is needed: none can be found.
  const std::string weights = base + ".safetensors";
  require(precast_program({"weights", file, "-o", weights}));
  const auto run = with_inputs({"run", cpp, cache, "--weights", weights, "--seed", kSeed, "-o", base}, n);
  require(run_program(PRECAST_PROGRAM, run, {"PATH=/nonexistent"}, /*clean=*/true));
  const io::Array array = io::read_npy(base + "/0.npy");
  Comparison c;
  c.compare("the result", task(task.module(), task.inputs(std::stoul(kSeed))).contiguous(),
            host_torch::borrow(array.data, array.type));
  CHECK_MESSAGE(c.equal(), c.why);
}

/// Forward, loss and backward on the module of TorchScript.
void check_training(const Network& n, const Scratch& dir) {
  const Task task{n, Size::small, true};
  const PairPaths paths{dir.path / (n.name + "-train.cpp"), dir.path / (n.name + "-train.cache")};
  auto cap = capture([&](Module m, Tensors in) { return task(std::move(m), in); }, paths, {.isa = {"native"}});
  cap(task.module(), task.inputs(0));
  cap.finish();
  const auto f = load<at::Tensor(Module, Tensors)>(paths);
  check_coverage(coverage_of(f.metadata()));
  const Comparison c = compare_with_eager(task, [&](Module m, const Tensors& in) { return f(m, in); });
  CHECK_MESSAGE(c.equal(), c.why);
}

void check_family(const std::string& name) {
  const char* only = std::getenv("ZOO");
  for (const Family& family : families()) {
    if (family.name != name) continue;
    for (const Network& n : family.networks()) {
      if (only && n.name.find(only) == std::string::npos) continue;
      INFO("network: ", n.name);
      const Scratch dir;
      try {
        check_inference(n, dir);
        check_training(n, dir);
      } catch (const std::exception& e) {
        FAIL_CHECK("it throws: " << std::string(e.what()));
      }
    }
  }
}

}  // namespace

TEST_CASE("networks of images") { check_family("image"); }
TEST_CASE("networks of pictures") { check_family("picture"); }
TEST_CASE("networks of text") { check_family("text"); }
TEST_CASE("networks of signals") { check_family("signal"); }
TEST_CASE("networks of structures") { check_family("structure"); }

TEST_CASE("at full size a network has a million parameters") {
  for (const Family& family : families())
    for (const Network& n : family.networks()) {
      int64_t parameters = 0;
      for (const auto& p : make_module(n, Size::full).parameters()) parameters += p.numel();
      CHECK_MESSAGE(parameters >= 1'000'000, n.name << ": " << parameters);
    }
}
