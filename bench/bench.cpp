// make bench: eager LibTorch beside the artifact from its cache and beside a plain `g++ -O3 -shared -fPIC model.cpp`,
// interleaved call by call in one process; medians, as ratios and as fractions of this machine's roofline.
//   precast_bench [name...]
#include <precast/precast.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <iterator>

#include "artifact/cache.h"
#include "artifact/compose.h"
#include "cases.h"
#include "jit.h"
#include "machine.h"
#include "models/workload.h"
#include "threads.h"
#include "timing.h"

namespace {

using namespace precast;
using demo::AnyModule;
using demo::Clock;
using demo::seconds_since;
using demo::Tensors;
using demo::Workload;
using Call = std::function<void()>;
namespace fs = std::filesystem;

/// Median seconds of each call; the calls take turns, so that whatever else the machine does falls on all of them.
/// Calls shorter than a clock can tell are repeated.
std::vector<double> interleave(const std::vector<Call>& calls, double budget_s) {
  std::vector<std::vector<double>> times(calls.size());
  const auto first = Clock::now();
  for (const auto& call : calls) call();
  const double once = seconds_since(first) / static_cast<double>(calls.size());
  const int repeats = once > 20e-6 ? 1 : static_cast<int>(20e-6 / std::max(once, 1e-7)) + 1;
  const auto begin = Clock::now();
  while (times[0].size() < 5 || (seconds_since(begin) < budget_s && times[0].size() < 20000))
    for (size_t i = 0; i < calls.size(); ++i) {
      const auto start = Clock::now();
      for (int r = 0; r < repeats; ++r) calls[i]();
      times[i].push_back(seconds_since(start) / repeats);
    }
  std::vector<double> medians;
  for (auto& t : times) {
    std::nth_element(t.begin(), t.begin() + static_cast<std::ptrdiff_t>(t.size() / 2), t.end());
    medians.push_back(t[t.size() / 2]);
  }
  return medians;
}

std::vector<std::byte> read_bytes(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  const std::string text{std::istreambuf_iterator<char>(file), {}};
  const auto* begin = reinterpret_cast<const std::byte*>(text.data());
  return {begin, begin + text.size()};
}

/// A cache whose compiled form is what `g++ -O3 -shared -fPIC model.cpp` makes of the text. Returns the seconds it
/// took.
double plain_build(const PairPaths& pair, const fs::path& cache_path) {
  const fs::path library = cache_path.string() + ".so";
  const std::string command =
      "g++ -O3 -shared -fPIC -o '" + library.string() + "' '" + pair.artifact_path.string() + "'";
  const auto start = Clock::now();
  if (std::system(command.c_str()) != 0) throw std::runtime_error("failed: " + command);
  const double seconds = seconds_since(start);
  auto cache = artifact::read_cache(read_bytes(pair.cache_path));
  auto& variants = std::get<artifact::Cache>(cache).variants;
  if (!variants.empty()) variants = {variants[0]};
  for (auto& variant : variants) variant.payload = read_bytes(library);
  const auto bytes = artifact::write_cache(std::get<artifact::Cache>(cache));
  std::ofstream(cache_path, std::ios::binary)
      .write(reinterpret_cast<const char*>(bytes.data()), static_cast<std::streamsize>(bytes.size()));
  return seconds;
}

artifact::Metadata metadata_of(const fs::path& artifact_path) {
  const auto bytes = read_bytes(artifact_path);
  const std::string text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  return artifact::read_artifact_text(text, artifact_path.string()).metadata;
}

template <class Module>
void bench_as(const Workload& w, Module module, const bench::Machine& machine, const fs::path& folder) {
  const PairPaths pair{folder / (w.name + ".cpp"), folder / (w.name + ".cache")};
  const PairPaths plain{pair.artifact_path, folder / (w.name + ".plain.cache")};
  const auto inputs = w.make_inputs();
  AnyModule any = module;
  auto capture = precast::capture(
      [&w](Module m, Tensors in) {
        AnyModule module = std::move(m);
        return w.run(module, in);
      },
      pair);
  capture(module, inputs);
  const auto compile = Clock::now();
  capture.finish();
  const double compile_s = seconds_since(compile);
  plain_build(pair, plain.cache_path);

  const auto load = Clock::now();
  const auto f = precast::load<Tensors(Module, Tensors)>(pair);
  const double load_ms = 1e3 * seconds_since(load);
  const auto bound = f.bind(module);
  const auto plain_bound = precast::load<Tensors(Module, Tensors)>(plain).bind(module);
  const auto frozen = f.freeze(module);
  const auto t = interleave(
      {[&] { w.run(any, inputs); }, [&] { bound(inputs); }, [&] { plain_bound(inputs); }, [&] { frozen(inputs); }},
      1.0);

  const auto metadata = metadata_of(pair.artifact_path);
  double flops = 0, bytes = 0, ideal = 0;
  for (const auto& kernel : metadata.kernels) {
    flops += kernel.flops;
    bytes += kernel.bytes;
    ideal += std::max(kernel.flops / machine.flops, kernel.bytes / machine.bytes);
  }
  const bool compute_bound = flops / machine.flops > bytes / machine.bytes;
  const double rate = (compute_bound ? flops : bytes) / t[1] / 1e9;
  std::printf("%-15s %11.1f %11.1f %6.2fx %11.1f %6.2fx %11.1f %6.2fx %8.1f %s %5.0f%% %9.2f %8.1f", w.name.c_str(),
              1e6 * t[0], 1e6 * t[1], t[0] / t[1], 1e6 * t[2], t[0] / t[2], 1e6 * t[3], t[0] / t[3], rate,
              compute_bound ? "GF/s" : "GB/s", 100 * ideal / t[1], compile_s, load_ms);
  if (!metadata.host_ops.empty())
    std::printf("  %zu of %d ops run in LibTorch", metadata.host_ops.size(), metadata.total_ops);
  std::printf("\n");
}

/// The cost of a call itself: x + 1 on 8 numbers, beside an empty output.
void bench_overhead(const fs::path& folder) {
  const PairPaths pair{folder / "add-one.cpp", folder / "add-one.cache"};
  const at::Tensor x = torch::randn({8});
  const auto add_one = [](at::Tensor x) { return x + 1; };
  auto capture = precast::capture(add_one, pair);
  capture(x);
  capture.finish();
  const auto f = precast::load<at::Tensor(at::Tensor)>(pair);
  const auto t = interleave({[&] { add_one(x); }, [&] { f(x); }, [&] { torch::empty({8}); }}, 1.0);
  std::printf(
      "x + 1 on 8 numbers: eager %.2f us, artifact %.2f us, of which an empty output %.2f us: %.2f us above it\n\n",
      1e6 * t[0], 1e6 * t[1], 1e6 * t[2], 1e6 * (t[1] - t[2]));
}

void bench_one(const Workload& w, const bench::Machine& machine, const fs::path& folder) {
  try {
    std::visit([&](auto module) { bench_as(w, std::move(module), machine, folder); }, w.make_module());
  } catch (const std::exception& e) {
    std::printf("%-15s failed: %s\n", w.name.c_str(), e.what());
  }
  std::fflush(stdout);
}

}  // namespace

int main(int argc, char** argv) {
  const std::vector<std::string> wanted(argv + 1, argv + argc);
  if (wanted.size() == 3 && wanted[0] == "--first-calls") return bench::first_calls(wanted[1], wanted[2]);
  std::setvbuf(stdout, nullptr, _IOLBF, 0);  // progress shows in a pipe, too
  const fs::path folder = "out/bench";
  fs::create_directories(folder);
  const auto machine = bench::measure_machine(at::get_num_threads());
  std::printf("%d threads: %.0f GF/s of float32 multiply-adds, %.1f GB/s of memory; LibTorch %s\n\n", machine.threads,
              machine.flops / 1e9, machine.bytes / 1e9, TORCH_VERSION);
  bench_overhead(folder);
  std::printf("%-15s %11s %11s %7s %11s %7s %11s %7s %13s %6s %9s %8s\n", "", "eager us", "artifact us", "",
              "plain g++ us", "", "frozen us", "", "rate", "roof", "compile s", "load ms");
  for (const auto* table : {&bench::cases(), &demo::workloads()})
    for (const Workload& w : *table)
      if (wanted.empty() || std::find(wanted.begin(), wanted.end(), w.name) != wanted.end())
        bench_one(w, machine, folder);
  std::printf(
      "\nratios: eager time / that time. artifact: from the cache, weights read live. plain g++: the text built by\n"
      "hand with -O3 -shared -fPIC. frozen: weights packed once. roof: fraction of what this machine can do.\n");
  bench::bench_threads(wanted);
  bench::bench_jit(wanted);
}
