// precast_zoo: the networks as TorchScript files, and a table of them at full size.
#include <torch/torch.h>

#include <cstdio>
#include <filesystem>
#include <iostream>
#include <nlohmann/json.hpp>

#include "process.h"
#include "timing.h"
#include "trial.h"

namespace precast::zoo {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;
using demo::Clock;
using demo::seconds_since;

constexpr const char* kUsage =
    "precast_zoo make FOLDER [small]    write the networks as TorchScript files, at full size or small\n"
    "precast_zoo table [NAME...]        full size: capture, load in another process, compare with eager, time\n";

const Network& network(const std::string& name) {
  for (const Family& family : families())
    for (const Network& n : family.networks())
      if (n.name == name) return n;
  throw std::invalid_argument("no network '" + name + "'");
}

void make(const fs::path& folder, Size size) {
  fs::create_directories(folder);
  for (const Family& family : families())
    for (const Network& n : family.networks()) {
      const fs::path file = folder / (n.name + ".pt");
      make_module(n, size).save(file);
      std::cout << file.string();
      for (const std::string& words : n.example(size).inputs) std::cout << " --input '" << words << "'";
      std::cout << std::endl;
    }
}

/// The other process: one line of JSON.
void judge(const Task& task, const PairPaths& paths) {
  const auto start = Clock::now();
  const auto f = load<at::Tensor(Module, Tensors)>(paths);
  Json line = {{"load_ms", 1e3 * seconds_since(start)}};
  const Comparison c = compare_with_eager(task, [&](Module m, const Tensors& in) { return f(m, in); });
  line["why"] = c.why, line["difference"] = c.difference;
  const Module m = task.module();
  const Tensors in = task.inputs(0);
  const demo::Times t = demo::time_calls([&] { task(m, in); }, [&] { f(m, in); });
  line["eager_us"] = t.first_us, line["call_us"] = t.second_us;
  std::cout << line.dump() << std::endl;
}

bool print_row(const Task& task, const fs::path& folder) {
  const std::string& name = task.network.name;
  const std::string stem = fs::absolute(folder) / (name + (task.training ? "-train" : ""));
  const PairPaths paths{stem + ".cpp", stem + ".cache"};
  const Module module = task.module();
  auto cap = capture([&](Module m, Tensors in) { return task(std::move(m), in); }, paths);
  auto start = Clock::now();
  cap(module, task.inputs(0));
  const double capture_s = seconds_since(start);
  start = Clock::now();
  cap.finish();
  const double compile_s = seconds_since(start);
  const Coverage coverage = coverage_of(load(paths).metadata());
  int64_t parameters = 0;
  for (const auto& p : module.parameters()) parameters += p.numel();

  std::vector<std::string> environment;  // one thread measures better where others work too
  if (const char* threads = std::getenv("OMP_NUM_THREADS")) environment = {std::string("OMP_NUM_THREADS=") + threads};
  const demo::Finished child =
      demo::run_process({demo::program_folder() / "precast_zoo", "judge", name, task.training ? "train" : "call",
                         paths.artifact_path, paths.cache_path},
                        environment, "/");
  const Json line = Json::parse(child.out, nullptr, /*allow_exceptions=*/false);
  if (child.code != 0 || !line.is_object()) throw std::runtime_error(child.err);
  const double eager_us = line.at("eager_us"), call_us = line.at("call_us");
  std::printf("%-20s %-5s %5d %6.1fM %7.1f%% %7d %9.2f %9.2f %7.1f %9.0f %6.2fx %10.1e", name.c_str(),
              task.training ? "train" : "", coverage.ops, 1e-6 * static_cast<double>(parameters),
              100.0 * coverage.lowered / coverage.ops, coverage.kernels, capture_s, compile_s,
              line.at("load_ms").get<double>(), eager_us, eager_us / call_us, line.at("difference").get<double>());
  for (const std::string& op : coverage.host_ops) std::printf(" %s", op.c_str());
  const auto why = line.at("why").get<std::string>();
  const bool whole = coverage.ops >= 50 && parameters >= 1'000'000;
  std::printf("%s%s%s\n", why.empty() ? "" : "  NOT EQUAL: ", why.c_str(), whole ? "" : "  SMALL");
  return why.empty() && whole;
}

bool table(const std::vector<std::string>& wanted) {
  std::setvbuf(stdout, nullptr, _IOLBF, 0);  // a row shows when it is done, in a pipe too
  std::printf("%-26s %5s %7s %8s %7s %9s %9s %7s %9s %7s %10s\n", "network", "ops", "param.", "lowered", "kernels",
              "capture s", "compile s", "load ms", "eager us", "ratio", "difference");
  const fs::path folder = "out/zoo";
  fs::create_directories(folder);
  bool good = true;
  for (const Family& family : families())
    for (const Network& n : family.networks()) {
      if (!wanted.empty() && std::find(wanted.begin(), wanted.end(), n.name) == wanted.end()) continue;
      for (const bool training : {false, true}) try {
          good = print_row({n, Size::full, training}, folder) && good;
        } catch (const std::exception& e) {
          std::printf("%-20s %-5s FAILED: %s\n", n.name.c_str(), training ? "train" : "", e.what());
          good = false;
        }
    }
  return good;
}

int run(const std::vector<std::string>& args) {
  const std::string what = args.empty() ? "" : args[0];
  if (what == "make" && args.size() >= 2)
    make(args[1], args.size() > 2 && args[2] == "small" ? Size::small : Size::full);
  else if (what == "table")
    return table({args.begin() + 1, args.end()}) ? 0 : 1;
  else if (what == "judge" && args.size() == 5)
    judge({network(args[1]), Size::full, args[2] == "train"}, {args[3], args[4]});
  else
    return std::cerr << kUsage, 2;
  return 0;
}

}  // namespace
}  // namespace precast::zoo

int main(int argc, char** argv) {
  try {
    return precast::zoo::run({argv + 1, argv + argc});
  } catch (const std::exception& e) {
    std::cerr << "precast_zoo: " << e.what() << std::endl;
    return 1;
  }
}
