#include "pair.h"

#include <precast/precast.h>

#include <cstdlib>
#include <nlohmann/json.hpp>

#include "models/workload.h"
#include "process.h"
#include "timing.h"

namespace precast::demo {
namespace {

template <class Module>
void capture_as(const Workload& w, Module module, Captured& captured, const LowerOptions& options) {
  auto capture = precast::capture(
      [&w](Module m, Tensors inputs) {
        AnyModule any = std::move(m);
        return w.run(any, inputs);
      },
      PairPaths{captured.artifact, captured.cache}, options);
  const auto inputs = w.make_inputs();
  const auto start = Clock::now();
  capture(module, inputs);
  captured.record_s = seconds_since(start);
  capture.finish();
  captured.compile_s = seconds_since(start) - captured.record_s;
}

Judged judge_in_process(const std::string& what, const std::string& workload, const Captured& captured,
                        const Elsewhere& elsewhere) {
  auto environment = elsewhere.environment;
  if (const char* data = std::getenv("PRECAST_DATA")) environment.push_back(std::string("PRECAST_DATA=") + data);
  const Finished child = run_process({program_folder() / "precast_judge", what, workload, captured.artifact,
                                      captured.cache, std::to_string(elsewhere.threads)},
                                     environment, "/");
  Judged judged;
  const auto line = nlohmann::json::parse(child.out, nullptr, /*allow_exceptions=*/false);
  if (child.code != 0 || !line.is_object()) {
    judged.why = child.err.empty() ? "the process ended with code " + std::to_string(child.code) : child.err;
    return judged;
  }
  line.at("equal").get_to(judged.equal);
  line.at("why").get_to(judged.why);
  line.at("difference").get_to(judged.difference);
  line.at("load_ms").get_to(judged.load_ms);
  judged.eager_us = line.value("eager_us", 0.0);
  judged.call_us = line.value("call_us", 0.0);
  judged.accuracy = line.value("accuracy", 0.0);
  judged.segments = line.value("segments", 0);
  return judged;
}

}  // namespace

std::vector<Listed> list_workloads() {
  std::vector<Listed> list;
  for (const Workload& w : workloads()) list.push_back({w.name, w.what});
  return list;
}

Captured capture_pair(const std::string& name, const std::string& backend, const std::filesystem::path& folder) {
  std::filesystem::create_directories(folder);
  const auto stem = std::filesystem::absolute(folder) / (name + "-" + backend);
  Captured captured;
  captured.artifact = stem.string() + ".cpp";
  captured.cache = stem.string() + ".cache";
  LowerOptions options;
  options.backend = backend;
  const Workload& w = workload(name);
  std::visit([&](auto module) { capture_as(w, std::move(module), captured, options); }, w.make_module());

  const auto metadata = nlohmann::json::parse(precast::load({captured.artifact, captured.cache}).metadata());
  captured.ops = metadata.at("TOTAL_OPS");
  captured.lowered = metadata.at("LOWERED_OPS");
  captured.kernels = static_cast<int>(metadata.at("KERNELS").size());
  captured.host_ops = static_cast<int>(metadata.at("HOST_OPS").size());
  return captured;
}

Judged judge(const std::string& name, const Captured& captured, const Elsewhere& elsewhere) {
  return judge_in_process("call", name, captured, elsewhere);
}
Judged judge_training(const Captured& captured, const Elsewhere& elsewhere) {
  return judge_in_process("train", "digits-train", captured, elsewhere);
}
Judged judge_stream(const Captured& captured, const Elsewhere& elsewhere) {
  return judge_in_process("stream", "silero", captured, elsewhere);
}

}  // namespace precast::demo
