// Measures the emitted f32 functions against libm in double and prints the table of docs/accuracy.md.
//   precast_accuracy                            all 2^32 inputs of every function (about an hour)
//   precast_accuracy --only exp,tanh            some functions
//   precast_accuracy --sample 1000              every 1000th input
//   precast_accuracy --write docs/accuracy.md   puts the table between the two marks of that file, too
#include <CLI/CLI.hpp>
#include <atomic>
#include <cstdio>
#include <fstream>
#include <iostream>
#include <mutex>
#include <sstream>
#include <thread>

#include "../tests/emit/kernels.h"
#include "../tests/emit/loop_text.h"
#include "accuracy.h"
#include "accuracy_reference.h"

namespace {

using accuracy::Function;
using accuracy::Worst;
using Run = void (*)(const float*, float*, int64_t, bool);
using Sections = std::vector<std::unique_ptr<Kernels>>;

constexpr uint64_t kInputs = uint64_t{1} << 32;

// One worst a section. Slices are small, so that no thread waits for one that got the expensive inputs.
std::vector<Worst> measure(const Function& f, const Sections& sections, uint64_t step, unsigned threads) {
  std::vector<Run> forms;
  for (const auto& kernels : sections)
    forms.push_back(kernels->get<void(const float*, float*, int64_t, bool)>(std::string("run_") + f.name));
  const accuracy::References many = accuracy::references(f.name);
  const auto reference = [&](const double* x, double* y, size_t n) {
    if (many) return many(x, y, n);
    for (size_t i = 0; i < n; ++i) y[i] = f.reference(x[i]);
  };
  constexpr uint64_t kSlices = 1024;
  std::vector<Worst> worst(forms.size());
  std::atomic<uint64_t> next{0};
  std::mutex mutex;
  const auto work = [&] {
    for (uint64_t slice; (slice = next++) < kSlices;) {
      const uint64_t first = kInputs / kSlices * slice;
      const auto found =
          accuracy::sweep(reference, (first + step - 1) / step * step, first + kInputs / kSlices, step, forms);
      const std::lock_guard lock(mutex);
      for (size_t k = 0; k < forms.size(); ++k) worst[k].take(found[k]);
      std::cerr << "\r" << f.name << ": " << 100 * (slice + 1) / kSlices << " %   ";
    }
  };
  std::vector<std::thread> workers;
  for (unsigned t = 0; t < threads; ++t) workers.emplace_back(work);
  for (std::thread& w : workers) w.join();
  std::cerr << "\r                         \r";
  return worst;
}

std::string head(const std::vector<Section>& sections) {
  std::string names = "| function |", line = "| --- |";
  for (const Section& s : sections) names += std::string(" ") + s.name + " | at |", line += " ---: | ---: |";
  return names + "\n" + line + "\n";
}

std::string row(const Function& f, const std::vector<Worst>& worst) {
  std::string text = std::string("| ") + f.name + " |";
  char cells[64];
  for (const Worst& w : worst) {
    std::snprintf(cells, sizeof cells, " %.2f | %.9g |", w.ulp, static_cast<double>(w.at));
    text += cells;
  }
  return text + "\n";
}

void write_table(const std::string& path, const std::string& table) {
  const std::string begin = "<!-- table -->\n", end = "<!-- end of table -->";
  std::stringstream all;
  all << std::ifstream(path).rdbuf();
  std::string text = all.str();
  const size_t from = text.find(begin), to = text.find(end);
  if (from == text.npos || to == text.npos || to < from) throw std::runtime_error(path + " has no place for a table");
  text.replace(from + begin.size(), to - from - begin.size(), table);
  std::ofstream out(path);
  if (!(out << text).flush()) throw std::runtime_error(path + " cannot be written");
}

}  // namespace

int main(int argc, char** argv) {
  uint64_t step = 1;
  unsigned threads = std::max(1u, std::thread::hardware_concurrency());
  std::vector<std::string> only;
  std::string document;
  CLI::App app("Largest error of emitted f32 functions, in units of the last place");
  app.add_option("--sample", step, "test every n-th input only")->check(CLI::PositiveNumber);
  app.add_option("--threads", threads, "worker threads")->check(CLI::PositiveNumber);
  app.add_option("--only", only, "functions to measure")->delimiter(',');
  app.add_option("--write", document, "the document to put the table into")->check(CLI::ExistingFile);
  CLI11_PARSE(app, argc, argv);

  std::string text;
  std::vector<Function> chosen;
  for (const Function& f : accuracy::functions())
    if (only.empty() || std::find(only.begin(), only.end(), f.name) != only.end()) chosen.push_back(f);
  for (const Function& f : chosen)
    text += loop_text(std::string("run_") + f.name, {"f32"}, "f32", std::string(f.name) + "(v0)");

  Sections compiled;
  for (const Section& s : sections()) compiled.push_back(std::make_unique<Kernels>(s, "g++", text));
  std::string table = head(sections());
  std::cout << table << std::flush;
  for (const Function& f : chosen) {
    const std::string line = row(f, measure(f, compiled, step, threads));
    std::cout << line << std::flush;
    table += line;
  }
  try {
    if (!document.empty())
      write_table(document, table + (step > 1 ? "\nEvery " + std::to_string(step) + "th input.\n" : ""));
  } catch (const std::exception& e) {
    std::cerr << "accuracy: " << e.what() << "\n";
    return 1;
  }
}
