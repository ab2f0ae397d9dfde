// precast_fuzz: random programs, judged by plain eager. `make fuzz` runs it until it is stopped.
//
//   precast_fuzz --programs 500            that many programs, then a grid of what they covered
//   precast_fuzz --programs 500 --grid     then a program for each op and dtype that is still missing
//   precast_fuzz --jit 100                 that many through compile() instead, in this process
//   precast_fuzz --forever                 until stopped (Ctrl-C)
//   precast_fuzz --replay 1234:1101:01:b   one program, with its text and what differs
//
// One program in twenty has open sizes (open.h): it is captured alone as well, and called at other sizes.
//
// The driver only starts workers: one process captures a batch, another one loads it. A failure is shrunk by trying
// smaller programs in workers of their own, so that a crash is a failure like any other.
#include <c10/util/Exception.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <set>
#include <sstream>
#include <stdexcept>

#include "batch.h"
#include "coverage.h"
#include "generate.h"
#include "jit.h"
#include "open.h"
#include "reduce.h"
#include "targets.h"

namespace {

namespace fs = std::filesystem;
using namespace precast::fuzz;

volatile std::sig_atomic_t stopped = 0;

// How a batch is judged: most take the quick way, each fifth one another.
struct Setup {
  std::string isa = "native";
  bool recompile = false;  // load once more from the text alone
  int threads = 1;         // of the process that loads; the one that captures has one
};

struct Options {
  int programs = 500;  // -1: until stopped
  int batch = 50;
  uint64_t seed = 1;
  bool grid = false;
  int jit = 0;
  std::string replay, dir;
  std::string worker, report;  // of a worker
  Setup setup;
  std::vector<std::string> names;
};

// ---- Workers ----

struct Quiet : c10::WarningHandler {  // degenerate programs are warned about, and are programs
  void process(const c10::Warning&) override {}
};

std::string in_a_line(std::string text) {
  for (char& c : text)
    if (c == '\n' || c == '\t') c = ' ';
  return text;
}

double seconds_since(std::chrono::steady_clock::time_point started) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - started).count();
}

int work(const Options& o) {
  Quiet quiet;
  const c10::WarningUtils::WarningHandlerGuard guard(&quiet);
  std::vector<Program> programs;
  for (const std::string& name : o.names) programs.push_back(parse_program(name));
  std::ofstream out(o.report, std::ios::app);
  const Report report = [&](const Failure& f) {
    out << "fail\t" << f.program << "\t" << f.stage << "\t" << in_a_line(f.what.substr(0, 600)) << std::endl;
  };
  if (o.worker == "save") {
    for (const auto& [op, counts] : coverage(programs))
      for (const auto& [dtype, n] : counts) out << "cover\t" << op << "\t" << dtype << "\t" << n << std::endl;
    save_batch(programs, o.dir, {o.setup.isa}, report);
    OpenCounts open;
    const auto started = std::chrono::steady_clock::now();
    save_open(programs, o.dir, {o.setup.isa}, report, open);
    out << "open\t" << open.marked << "\t" << open.captured << "\t" << open.refused << std::endl;
    out << "open time\t" << seconds_since(started) << std::endl;
    for (const std::string& why : open.why) out << "refusal\t" << in_a_line(why) << std::endl;
  } else if (o.worker == "plan") {  // which targets have a program
    for (size_t i = 0; i < programs.size(); ++i)
      out << (programs[i].steps.empty() ? "hole\t" : "possible\t") << o.names[i] << "\t"
          << in_a_line(programs[i].why_not) << std::endl;
  } else if (o.worker == "load") {
    load_batch(programs, o.dir, o.setup.recompile, report);
    const auto started = std::chrono::steady_clock::now();
    OpenCounts open;
    load_open(programs, o.dir, report, open);
    out << "open calls\t" << open.calls << "\t" << open.refused_calls << std::endl;
    out << "open time\t" << seconds_since(started) << std::endl;
  } else {
    run_batch(programs);
  }
  return 0;
}

// Exit status as waitpid gives it.
int start(const std::vector<std::string>& args, const std::string& errors, int threads) {
  const pid_t child = ::fork();
  if (child < 0) throw std::runtime_error("fork failed");
  if (child == 0) {
    if (std::freopen(errors.c_str(), "w", stderr) == nullptr) ::_exit(127);
    ::alarm(600);  // a program that does not end is a failure
    ::setenv("OMP_NUM_THREADS", std::to_string(threads).c_str(), 1);
    ::setenv("OMP_WAIT_POLICY", "passive", 1);  // threads that spin would be most of the time
    std::vector<char*> argv;
    for (const std::string& a : args) argv.push_back(const_cast<char*>(a.c_str()));
    argv.push_back(nullptr);
    ::execv("/proc/self/exe", argv.data());
    ::_exit(127);
  }
  int status = 0;
  while (::waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  return status;
}

std::string last_line(const std::string& path) {
  std::ifstream in(path);
  std::string last;
  for (std::string line; std::getline(in, line);) last = line;
  return last;
}

// ---- Driver ----

class Driver {
 public:
  explicit Driver(const Options& o) : options_(o) {}

  int run() {
    const auto begin = std::chrono::steady_clock::now();
    uint64_t seed = options_.seed;
    for (int done = 0; !stopped && (options_.programs < 0 || done < options_.programs);) {
      std::vector<std::string> names;
      for (int i = 0; i < options_.batch && (options_.programs < 0 || done < options_.programs); ++i, ++done)
        names.push_back(std::to_string(seed++));
      run_batch(names);
    }
    if (options_.grid && !stopped) fill_grid();
    std::cout << "\n";
    print_grid(coverage_, holes_, std::cout);
    std::printf("%d programs with open sizes: %d captured, %d refused; %d calls, %d of them refused; %.0f s\n",
                open_.marked, open_.captured, open_.refused, open_.calls, open_.refused_calls, open_.seconds);
    std::printf("%d programs in %.0f s: %d failed\n", programs_, seconds_since(begin), failed_);
    return failed_ ? 1 : 0;
  }

  void run_batch(const std::vector<std::string>& names) {
    const auto started = std::chrono::steady_clock::now();
    const int before = failed_, n = batches_++;
    handle(names, {n % 5 == 1 ? "baseline" : "native", n % 5 == 0, n % 5 == 2 ? 3 : 1}, true);
    programs_ += static_cast<int>(names.size());
    std::printf("programs %s to %s: %s (%.1f s)\n", names.front().c_str(), names.back().c_str(),
                failed_ == before ? "ok" : (std::to_string(failed_ - before) + " failed").c_str(),
                seconds_since(started));
    std::fflush(stdout);
  }

  // A program for each cell that no random one has filled.
  void fill_grid() {
    std::vector<std::string> missing, possible;
    for (size_t i = 0; i < targets().size(); ++i)
      if (!coverage_[targets()[i].op].contains(dtype_name(targets()[i].dtype)))
        missing.push_back(std::to_string(kFirstTarget + i));
    fs::remove_all(options_.dir);
    fs::create_directories(options_.dir);
    if (run_worker("plan", missing, {}) != 0)
      throw std::runtime_error("the process that plans the grid failed: " + last_line(options_.dir + "/errors"));
    std::ifstream in(options_.dir + "/report");
    for (std::string kind, name, why;
         std::getline(in, kind, '\t') && std::getline(in, name, '\t') && std::getline(in, why);) {
      const size_t i = std::stoull(name) - kFirstTarget;
      if (kind == "possible")
        possible.push_back(name);
      else
        holes_[targets()[i].op][dtype_name(targets()[i].dtype)] = why;
    }
    const auto batch = static_cast<size_t>(2 * options_.batch);  // of small programs
    for (size_t at = 0; !stopped && at < possible.size(); at += batch)
      run_batch({possible.begin() + static_cast<std::ptrdiff_t>(at),
                 possible.begin() + static_cast<std::ptrdiff_t>(std::min(possible.size(), at + batch))});
  }

  std::vector<Failure> judge(const std::vector<std::string>& names, const Setup& setup, bool count = false) {
    fs::remove_all(options_.dir);
    fs::create_directories(options_.dir);
    std::vector<Failure> failures;
    for (const char* worker : {"save", "load"}) {
      const int status = run_worker(worker, names, setup);
      const std::string report = options_.dir + "/report";
      read(report, failures, count);
      fs::remove(report);
      if (status != 0)
        failures.push_back(
            {-1, std::string(worker) + " process",
             (WIFSIGNALED(status) ? std::string("died: ") + ::strsignal(WTERMSIG(status)) : "ended with an error") +
                 ": " + last_line(options_.dir + "/errors")});
      if (!failures.empty()) break;
    }
    return failures;
  }

  void explain(const std::string& name, const Failure& failure, const Setup& setup) {
    ++failed_;
    std::cout << "\nFAILED: program " << name << ", " << failure.stage << ": " << failure.what << "\n";
    if (failed_ > 10) return;  // enough to work on; shrinking takes its time
    const Program p = parse_program(name);
    const Reduction least = shrink(p, [&](const Reduction& r) {
      for (const Failure& f : judge({print(r)}, setup))
        if (f.stage == failure.stage) return true;
      return false;
    });
    const Program smallest = *apply(p, least);
    const fs::path file = fs::path(options_.dir).parent_path() / ("fuzz-" + std::to_string(p.seed) + ".cpp");
    const Variant variant =
        failure.stage.find("nasty") != std::string::npos || failure.stage.find("refuses") != std::string::npos
            ? Variant::nasty
        : failure.stage.find("other values") != std::string::npos || !open_sizes_in(failure.stage).empty()
            ? Variant::other
            : Variant::capture;
    const char* backend = failure.stage.find("eager") != std::string::npos ? "eager" : "inductor";
    const auto again = judge({print(least)}, setup);
    std::cout << print_steps(smallest) << (again.empty() ? "" : again[0].stage + ": " + again[0].what + "\n")
              << "replay: precast_fuzz --replay " << print(least) << "\nas C++: " << file.string() << "\n\n";
    std::ofstream(file) << print_cpp(smallest, variant, backend, failure.stage + ": " + failure.what,
                                     open_sizes_in(failure.stage));
  }

  const OpenCounts& open() const { return open_; }

 private:
  int run_worker(const std::string& worker, const std::vector<std::string>& names, const Setup& setup) {
    std::vector<std::string> args = {"precast_fuzz", "--worker", worker, "--dir", options_.dir};
    args.insert(args.end(), {"--report", options_.dir + "/report", "--isa", setup.isa});
    if (setup.recompile) args.push_back("--recompile");
    args.insert(args.end(), names.begin(), names.end());
    return start(args, options_.dir + "/errors", worker == "load" ? setup.threads : 1);
  }

  // A failure of a batch as a whole is looked for in its halves. Whether anything was found.
  bool handle(const std::vector<std::string>& names, const Setup& setup, bool count) {
    const auto failures = judge(names, setup, count);
    std::set<int> explained;
    for (const Failure& f : failures) {
      if (f.program >= 0) {
        if (explained.insert(f.program).second) explain(names[static_cast<size_t>(f.program)], f, setup);
        continue;
      }
      if (names.size() == 1 && f.stage.ends_with(" process") && run_worker("eager", names, setup) != 0) {
        std::cout << "program " << names[0] << ": eager itself " << f.what << "\n";
      } else if (names.size() == 1) {
        explain(names[0], f, setup);
      } else {
        const auto middle = names.begin() + static_cast<std::ptrdiff_t>(names.size() / 2);
        const bool first = handle({names.begin(), middle}, setup, false);
        const bool second = handle({middle, names.end()}, setup, false);
        if (!first && !second) {
          ++failed_;
          std::cout << "\nFAILED only together: programs " << names.front() << " to " << names.back() << ", " << f.stage
                    << ": " << f.what << "\n";
        }
      }
      break;
    }
    return !failures.empty();
  }

  void read(const std::string& report, std::vector<Failure>& failures, bool count) {
    std::ifstream in(report);
    for (std::string line; std::getline(in, line);) {
      std::istringstream fields(line);
      std::string kind, a, b, c;
      std::getline(fields, kind, '\t');
      std::getline(fields, a, '\t');
      std::getline(fields, b, '\t');
      std::getline(fields, c, '\t');
      if (kind == "fail") failures.push_back({std::stoi(a), b, c});
      if (kind == "refusal") open_.why.push_back(a);
      if (!count) continue;
      if (kind == "cover") coverage_[a][b] += std::stoi(c);
      if (kind == "open") open_.marked += std::stoi(a), open_.captured += std::stoi(b), open_.refused += std::stoi(c);
      if (kind == "open time") open_.seconds += std::stod(a);
      if (kind == "open calls") open_.calls += std::stoi(a), open_.refused_calls += std::stoi(b);
    }
  }

  Options options_;
  Coverage coverage_;
  Holes holes_;
  OpenCounts open_;
  int failed_ = 0, programs_ = 0, batches_ = 0;
};

int replay(const Options& o) {
  const Program p = parse_program(o.replay);
  std::cout << print_steps(p);
  Driver driver(o);
  const auto failures = driver.judge({o.replay}, {o.setup.isa, true});
  for (const std::string& why : driver.open().why) std::cout << "its marks are refused: " << why << "\n";
  for (const Failure& f : failures) std::cout << f.stage << ": " << f.what << "\n";
  if (failures.empty()) std::cout << "ok\n";
  return failures.empty() ? 0 : 1;
}

Options parse(int argc, char** argv) {
  Options o;
  o.dir = (fs::temp_directory_path() / ("precast-fuzz-" + std::to_string(::getpid()) + "/batch")).string();
  for (int i = 1; i < argc; ++i) {
    const std::string flag = argv[i];
    const auto value = [&] {
      if (++i == argc) throw std::invalid_argument(flag + " needs a value");
      return std::string(argv[i]);
    };
    if (flag == "--programs")
      o.programs = std::stoi(value());
    else if (flag == "--forever")
      o.programs = -1;
    else if (flag == "--grid")
      o.grid = true;
    else if (flag == "--jit")
      o.jit = std::stoi(value());
    else if (flag == "--batch")
      o.batch = std::stoi(value());
    else if (flag == "--seed")
      o.seed = std::stoull(value());
    else if (flag == "--replay")
      o.replay = value();
    else if (flag == "--dir")
      o.dir = value() + "/batch";
    else if (flag == "--worker")
      o.worker = value();
    else if (flag == "--report")
      o.report = value();
    else if (flag == "--recompile")
      o.setup.recompile = true;
    else if (flag == "--isa")
      o.setup.isa = value();
    else if (flag.starts_with("-"))
      throw std::invalid_argument(
          "unknown option " + flag +
          "; there are --programs N, --grid, --jit N, --forever, --batch N, --seed N, --replay PROGRAM, --dir DIR");
    else
      o.names.push_back(flag);
  }
  if (!o.worker.empty()) o.dir = fs::path(o.dir).parent_path().string();
  return o;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    const Options o = parse(argc, argv);
    if (!o.worker.empty()) return work(o);
    if (o.jit > 0) {
      Quiet quiet;
      const c10::WarningUtils::WarningHandlerGuard guard(&quiet);
      return run_jit(o.seed, o.jit) ? 1 : 0;
    }
    std::signal(SIGINT, [](int) { stopped = 1; });
    return o.replay.empty() ? Driver(o).run() : replay(o);
  } catch (const std::invalid_argument& e) {
    std::cerr << "precast_fuzz: " << e.what() << "\n";
    return 2;
  } catch (const std::exception& e) {
    std::cerr << "precast_fuzz: " << e.what() << "\n";
    return 1;
  }
}
