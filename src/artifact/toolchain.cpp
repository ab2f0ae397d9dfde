#include "artifact/toolchain.h"

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <exception>
#include <fstream>
#include <mutex>
#include <sstream>
#include <thread>

#include "artifact/compose.h"
#include "util/errors.h"
#include "util/files.h"
#include "util/process.h"
#include "util/temp_folder.h"

namespace precast::artifact {
namespace {

using Command = std::vector<std::string>;

Command operator+(Command a, const Command& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

std::string first_lines(const std::string& text, int n) {
  std::istringstream lines(text);
  std::string result, line;
  for (int i = 0; i < n && std::getline(lines, line); ++i) result += "\n  " + line;
  return result;
}

// A text of the user's, under the name that the user knows.
struct Source {
  std::string path, name;
  std::string in(std::string text) const {
    for (size_t at = 0; !name.empty() && (at = text.find(path, at)) != text.npos; at += name.size())
      text.replace(at, path.size(), name);
    return text;
  }
};

void run_compiler(const Command& command, const std::filesystem::path& made, const Source& source) {
  const ProcessResult result = run_process(command);
  if (result.exit_code == 0 || (result.exit_code < 0 && std::filesystem::exists(made))) return;
  std::string text;
  for (const std::string& word : command) text += (text.empty() ? "" : " ") + word;
  throw PrecompileError("the C++ compiler failed (exit code " + std::to_string(result.exit_code) +
                        "): " + source.in(text + first_lines(result.output, 12)));
}

// Calls job(i) for i in [0, n) on up to as many threads as there are cores; throws the first failure.
template <class Job>
void in_parallel(size_t n, const Job& job) {
  std::atomic<size_t> next{0};
  std::exception_ptr failure;
  std::mutex mutex;
  const auto work = [&] {
    for (size_t i; (i = next++) < n;) {
      try {
        job(i);
      } catch (...) {
        next = n;
        std::lock_guard lock(mutex);
        if (!failure) failure = std::current_exception();
      }
    }
  };
  std::vector<std::thread> threads;
  for (size_t t = 1; t < std::min<size_t>(n, std::max(1u, std::thread::hardware_concurrency())); ++t)
    threads.emplace_back(work);
  work();
  for (std::thread& t : threads) t.join();
  if (failure) std::rethrow_exception(failure);
}

}  // namespace

std::vector<std::string> find_compiler() {
  std::vector<Command> candidates = {{"c++"}, {"g++"}, {"clang++"}};
  if (const char* chosen = std::getenv("CXX")) {
    std::istringstream words(chosen);
    Command command;
    for (std::string word; words >> word;) command.push_back(word);
    if (!command.empty()) candidates.insert(candidates.begin(), command);
  }
  for (Command& command : candidates) {
    const std::string path = find_program(command[0]);
    if (path.empty()) continue;
    command[0] = path;
    return command;
  }
  return {};
}

std::string compiler_version(const std::vector<std::string>& compiler) {
  const std::string output = run_process(compiler + Command{"--version"}).output;
  return output.substr(0, output.find('\n'));
}

std::vector<std::byte> compile_artifact(std::string_view code, const std::vector<std::string>& extra_flags,
                                        const std::string& name) {
  const Command compiler = find_compiler();
  if (compiler.empty())
    throw PrecompileError(
        "no C++ compiler found: looked for $CXX, c++, g++ and clang++ in PATH. Install g++ or set CXX.");
  const std::vector<int> parts = parts_to_compile(read_artifact_text(code, "the text").metadata);

  const TempFolder folder;
  const auto in_folder = [&](const std::string& name) { return (folder.path() / name).string(); };
  const std::string source = in_folder("model.cpp"), shared = in_folder("model.so");
  const Source shown{source, name};
  std::ofstream file(source, std::ios::binary);
  file.write(code.data(), static_cast<std::streamsize>(code.size()));
  if (!file.flush())
    throw PrecompileError("cannot write " + source +
                          " for the compiler. Is the disk full? TMPDIR names another place.");

  // The text vectorizes by itself: -O3 runs as fast, and takes half as long again to compile.
  const Command flags = Command{"-std=c++17", "-O2", "-fPIC"} + extra_flags;
  const bool debug = std::any_of(extra_flags.begin(), extra_flags.end(), [](auto& f) { return f.starts_with("-g"); });
  const Command link = Command{"-shared"} + (debug ? Command{} : Command{"-s"}) + Command{"-o", shared};
  if (parts.empty()) {
    run_compiler(compiler + flags + link + Command{source}, shared, shown);
  } else {
    Command objects;
    for (const int part : parts) objects.push_back(in_folder(std::to_string(part) + ".o"));
    in_parallel(parts.size(), [&](size_t i) {
      run_compiler(
          compiler + flags + Command{"-DPRECAST_PART=" + std::to_string(parts[i]), "-c", source, "-o", objects[i]},
          objects[i], shown);
    });
    run_compiler(compiler + link + objects, shared, shown);
  }
  return read_binary_file(shared, "compiler's output");
}

}  // namespace precast::artifact
