// make demo: each real input through both backends, loaded and judged in a fresh process; then a table.
#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <string>
#include <vector>

#include "pair.h"

namespace {

using namespace precast::demo;

struct Row {
  std::string name;
  Captured captured;
  Judged judged, eager_backend;
};

void say(const char* what) {
  std::printf(" %s", what);
  std::fflush(stdout);
}

Row run(const Listed& w, const std::filesystem::path& folder) {
  std::printf("  %-15s %-36s", w.name.c_str(), w.what.c_str());
  Row row{w.name, {}, {}, {}};
  try {
    say("record, compile;");
    row.captured = capture_pair(w.name, "inductor", folder);
    say("load elsewhere;");
    row.judged = judge(w.name, row.captured, {.threads = 1, .environment = {"PATH=/usr/bin:/bin"}});
    say("eager backend;");
    row.eager_backend = judge(w.name, capture_pair(w.name, "eager", folder), {.threads = 2, .environment = {}});
    if (row.judged.equal && !row.eager_backend.equal) {
      row.judged.equal = false;
      row.judged.why = "backend eager: " + row.eager_backend.why;
    }
  } catch (const std::exception& e) {
    row.judged.why = e.what();
  }
  while (!row.judged.why.empty() && row.judged.why.back() == '\n') row.judged.why.pop_back();
  std::printf(" %s\n", row.judged.equal ? "equal" : ("NOT EQUAL: " + row.judged.why).c_str());
  return row;
}

void print_table(const std::vector<Row>& rows) {
  std::printf("\n%-15s %5s %8s %7s %10s %10s %8s %11s %11s %7s %10s\n", "model", "ops", "lowered", "kernels",
              "capture s", "compile s", "load ms", "eager us", "artifact us", "ratio", "difference");
  for (const Row& r : rows) {
    if (r.judged.call_us == 0) {
      std::printf("%-15s failed\n", r.name.c_str());
      continue;
    }
    std::printf("%-15s %5d %7.0f%% %7d %10.2f %10.2f %8.1f %11.1f %11.1f %6.2fx %10.1e%s\n", r.name.c_str(),
                r.captured.ops, 100.0 * r.captured.lowered / r.captured.ops, r.captured.kernels, r.captured.record_s,
                r.captured.compile_s, r.judged.load_ms, r.judged.eager_us, r.judged.call_us,
                r.judged.eager_us / r.judged.call_us, r.judged.difference, r.judged.equal ? "" : "  NOT EQUAL");
  }
}

/// The two long stories: training from the artifact, and a stream with carried state.
bool tell_stories(const std::vector<Row>& rows) {
  bool good = true;
  for (const Row& r : rows) {
    if (r.captured.ops == 0) continue;
    if (r.name == "digits-train") {
      const Judged t = judge_training(r.captured, {.threads = 1, .environment = {}});
      std::printf(
          "\nDigits: trained from the artifact in a fresh process; the first 50 losses within %.1e of eager's;"
          " test accuracy %.1f %%%s\n",
          t.difference, 100 * t.accuracy, t.equal ? "" : ("\n  " + t.why).c_str());
      good = good && t.equal && t.accuracy >= 0.97;
    } else if (r.name == "silero") {
      const Judged s = judge_stream(r.captured, {.threads = 1, .environment = {}});
      std::printf("Silero VAD: %d speech segments in the recorded voices, as in eager; probabilities within %.1e%s\n",
                  s.segments, s.difference, s.equal ? "" : ("\n  " + s.why).c_str());
      good = good && s.equal && s.segments > 0;
    }
  }
  return good;
}

void print_next(const std::filesystem::path& folder, const std::string& model) {
  const auto program = std::filesystem::relative("/proc/self/exe").parent_path() / "precast";
  const auto stem = (folder / (model + "-inductor")).string();
  std::printf(
      "\nThe pairs are in %s. Try next:\n"
      "  %s info %s.cpp %s.cache    what was lowered, what not, and why\n"
      "  less %s.cpp    the program itself: metadata, graph, kernels\n"
      "  make bench     speed beside eager, with roofline fractions\n"
      "  make help      the rest\n",
      folder.c_str(), program.c_str(), stem.c_str(), stem.c_str(), stem.c_str());
}

}  // namespace

int main(int argc, char** argv) {
  const std::vector<std::string> wanted(argv + 1, argv + argc);
  std::setvbuf(stdout, nullptr, _IOLBF, 0);  // progress shows in a pipe, too
  const std::filesystem::path folder = "out/demo";
  std::vector<Row> rows;
  std::printf(
      "Each model is recorded and compiled here, then loaded and compared with eager in another process with an\n"
      "empty environment, another folder and another number of threads.\n\n");
  try {
    for (const Listed& w : list_workloads())
      if (wanted.empty() || std::find(wanted.begin(), wanted.end(), w.name) != wanted.end())
        rows.push_back(run(w, folder));
    print_table(rows);
    bool good = tell_stories(rows);
    for (const Row& r : rows) good = good && r.judged.equal;
    if (!rows.empty()) print_next(folder, rows[rows.size() / 2].name);
    return good ? 0 : 1;
  } catch (const std::exception& e) {
    std::fprintf(stderr, "precast_demo: %s\n", e.what());
    return 1;
  }
}
