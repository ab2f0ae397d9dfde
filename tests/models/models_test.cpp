// The real inputs of the demo, in both backends: captured here, judged against eager in a fresh process that has an
// empty environment (no compiler in PATH), another folder and another number of threads.
#include "pair.h"

#include <doctest/doctest.h>

#include <filesystem>
#include <fstream>
#include <map>

using namespace precast::demo;

namespace {

const Captured& captured(const std::string& name, const std::string& backend) {
  static std::map<std::string, Captured> done;
  const std::string key = name + "-" + backend;
  if (!done.count(key))
    done[key] = capture_pair(name, backend, std::filesystem::temp_directory_path() / "precast-models");
  return done[key];
}

void check_workload(const std::string& name, const std::string& backend) {
  const Judged judged = judge(name, captured(name, backend), {.threads = 1, .environment = {}});
  INFO(name, ", backend ", backend, ": ", judged.why);
  CHECK(judged.equal);
}

}  // namespace

TEST_CASE("every real input equals eager in a fresh process, effects included") {
  for (const Listed& w : list_workloads())
    for (const char* backend : {"inductor", "eager"}) check_workload(w.name, backend);
}

TEST_CASE("digits are trained from the loaded artifact") {
  for (const char* backend : {"inductor", "eager"}) {
    const Judged trained = judge_training(captured("digits-train", backend));
    INFO(backend, ": ", trained.why);
    CHECK(trained.equal);  // the first 50 losses
    CHECK(trained.accuracy >= 0.97);
  }
}

TEST_CASE("the recorded voices stream through the voice-activity detector as in eager") {
  for (const char* backend : {"inductor", "eager"}) {
    const Judged streamed = judge_stream(captured("silero", backend));
    INFO(backend, ": ", streamed.why);
    CHECK(streamed.equal);
    CHECK(streamed.segments >= 8);  // one a voice at least
  }
}

TEST_CASE("without a usable cache the text is compiled, and without a compiler its graph is run") {
  Captured stripped = captured("traced", "inductor");
  stripped.cache += ".damaged";
  std::ofstream(stripped.cache) << "not a cache";
  const Judged compiled = judge("traced", stripped, {.threads = 2, .environment = {"PATH=/usr/bin:/bin"}});
  INFO(compiled.why);
  CHECK(compiled.equal);
  const Judged interpreted = judge("traced", stripped, {.threads = 2, .environment = {"PATH=/nowhere"}});
  INFO(interpreted.why);
  CHECK(interpreted.equal);
}
