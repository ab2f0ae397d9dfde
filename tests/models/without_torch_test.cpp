// The inference artifacts run where LibTorch is not: a copy of the program, alone in a folder, from a fresh process.
#include <doctest/doctest.h>

#include <cmath>
#include <filesystem>

#include "io/npy.h"
#include "pair.h"
#include "process.h"

using namespace precast;
using namespace precast::demo;

namespace {

// The largest |a - b| beyond 1e-5 + 1e-4 |a|; below zero is equal.
double beyond_bounds(const std::filesystem::path& expected, const std::filesystem::path& found) {
  const io::Array a = io::contiguous(io::read_npy(expected)), b = io::contiguous(io::read_npy(found));
  REQUIRE(a.type.sizes == b.type.sizes);
  REQUIRE(a.type.dtype == ir::Dtype::f32);
  REQUIRE(b.type.dtype == ir::Dtype::f32);
  const auto *x = reinterpret_cast<const float*>(a.data), *y = reinterpret_cast<const float*>(b.data);
  double worst = -1;
  for (int64_t i = 0; i < a.type.numel(); ++i)
    worst = std::max(worst, std::isfinite(y[i]) ? std::abs(x[i] - y[i]) - 1e-5 - 1e-4 * std::abs(x[i]) : 1e30);
  return worst;
}

}  // namespace

TEST_CASE("inference artifacts run without LibTorch") {
  const auto folder = std::filesystem::temp_directory_path() / "precast-without-torch";
  std::filesystem::remove_all(folder);
  std::filesystem::create_directories(folder);
  const auto program = folder / "precast";  // alone: nothing beside it, no plugin
  std::filesystem::copy_file(program_folder() / "precast", program);
  const Finished libraries = run_process({"/usr/bin/ldd", program}, {"LC_ALL=C"}, folder);
  REQUIRE(libraries.code == 0);
  CHECK(libraries.out.find("torch") == std::string::npos);
  CHECK(libraries.out.find("c10") == std::string::npos);

  for (const char* name : {"resnet18-b1", "gpt", "lstm", "silero"}) {
    INFO(std::string(name));
    const Captured pair = capture_pair(name, "inductor", folder / name);
    CHECK(pair.host_ops == 0);
    const Arrays arrays = write_arrays(name, folder / name);
    std::vector<std::string> command = {program, "run", pair.artifact, pair.cache, "--weights", arrays.weights};
    for (const auto& input : arrays.inputs) command.insert(command.end(), {"--input", input});
    command.insert(command.end(), {"-o", folder / name / "out"});
    const Finished run = run_process(command, {}, "/");
    INFO(run.err);
    REQUIRE(run.code == 0);
    for (size_t i = 0; i < arrays.results.size(); ++i)
      CHECK(beyond_bounds(arrays.results[i], folder / name / "out" / (std::to_string(i) + ".npy")) <= 0);
  }
  std::filesystem::remove_all(folder);
}
