#include "artifact/pair.h"

#include <doctest/doctest.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <set>
#include <stdexcept>
#include <thread>

#include "../scratch.h"
#include "precast/error.h"

using namespace precast;
using namespace precast::artifact;

namespace {

std::vector<std::byte> bytes(const std::string& s) {
  const auto* p = reinterpret_cast<const std::byte*>(s.data());
  return {p, p + s.size()};
}

struct Folder : Scratch {
  std::filesystem::path cpp = path / "m.cpp", cache = path / "m.cache";
  void put(const std::string& version, const WriteHook& hook = {}) const {
    write_pair(cpp, cache, "code " + version, bytes("cache " + version), hook);
  }
  std::string state() const { return read("m.cpp") + ", " + read("m.cache"); }
  size_t files() const {
    size_t n = 0;
    for (const auto& entry : std::filesystem::directory_iterator(path)) n += entry.exists();
    return n;
  }
};

}  // namespace

TEST_CASE("a pair is written, replaced and read") {
  const Folder folder;
  folder.put("1");
  CHECK(folder.state() == "code 1, cache 1");
  folder.put("2");
  CHECK(folder.state() == "code 2, cache 2");
  CHECK(folder.files() == 2);
  const PairBytes pair = read_pair(folder.cpp, folder.cache);
  CHECK(pair.code == "code 2");
  CHECK(pair.cache == bytes("cache 2"));
}

TEST_CASE("a failure at any step leaves the old pair whole and nothing else") {
  std::set<std::string> steps;
  const Folder probe;
  probe.put("1", [&](std::string_view step) { steps.emplace(step); });
  CHECK(steps.size() == 11);
  for (const bool old_pair : {true, false})
    for (const std::string& step : steps) {
      CAPTURE(step);
      const Folder folder;
      if (old_pair) folder.put("old");
      CHECK_THROWS_WITH(folder.put("new",
                                   [&](std::string_view now) {
                                     if (now == step) throw std::runtime_error("injected");
                                   }),
                        "injected");
      CHECK(folder.state() == (old_pair ? "code old, cache old" : ", "));
      CHECK(folder.files() == (old_pair ? 2 : 0));
    }
}

TEST_CASE("a crash at any step leaves the old pair, the new one, or none") {
  std::set<std::string> steps;
  const Folder probe;
  probe.put("1", [&](std::string_view step) { steps.emplace(step); });
  for (const std::string& step : steps) {
    CAPTURE(step);
    const Folder folder;
    folder.put("old");
    const pid_t child = ::fork();
    if (child == 0) {
      folder.put("new", [&](std::string_view now) {
        if (now == step) ::_exit(7);
      });
      ::_exit(0);
    }
    int status = 0;
    ::waitpid(child, &status, 0);
    CHECK(WEXITSTATUS(status) == 7);
    const std::string code = folder.read("m.cpp"), cache = folder.read("m.cache");
    const bool whole = (code == "code old" && cache == "cache old") || (code == "code new" && cache == "cache new");
    const bool none = code.empty() || cache.empty();
    CHECK((whole || none));
  }
}

TEST_CASE("a full disk is an error that names the file, and the old pair stays") {
  const Folder folder;
  folder.put("old");
  const pid_t child = ::fork();
  if (child == 0) {  // a limit on file size stands for the full disk
    ::signal(SIGXFSZ, SIG_IGN);
    const rlimit limit{1000, 1000};
    ::setrlimit(RLIMIT_FSIZE, &limit);
    try {
      write_pair(folder.cpp, folder.cache, "code new", bytes(std::string(5000, 'x')));
      ::_exit(1);
    } catch (const PrecompileError& error) {
      const std::string message = error.what();
      ::_exit(message.starts_with("cannot write the cache " + folder.cache.string() + ": ") &&
                      message.ends_with("Nothing was changed.")
                  ? 7
                  : 2);
    }
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  CHECK(WEXITSTATUS(status) == 7);
  CHECK(folder.state() == "code old, cache old");
  CHECK(folder.files() == 2);
}

TEST_CASE("targets that cannot be replaced are refused before anything is written") {
  const Folder folder;
  std::filesystem::create_directory(folder.cpp);
  CHECK_THROWS_WITH_AS(folder.put("1"), doctest::Contains("not a regular file"), PrecompileError);
  CHECK(folder.files() == 1);
  CHECK_THROWS_WITH_AS(write_pair("/dev/full", folder.cache, "", {}),
                       doctest::Contains("/dev/full: there is something that is not a regular file"), PrecompileError);
  folder.write("file", "");
  CHECK_THROWS_WITH_AS(write_pair(folder.path / "file" / "m.cpp", folder.cache, "", {}),
                       doctest::Contains("its folder cannot be made"), PrecompileError);
  CHECK_THROWS_WITH_AS(write_pair(folder.path / "", folder.cache, "", {}), doctest::Contains("names no file"),
                       PrecompileError);
}

TEST_CASE("one file under two names is refused") {
  const Folder folder;
  CHECK_THROWS_AS(write_pair(folder.cpp, folder.cpp, "", {}), std::invalid_argument);
  CHECK_THROWS_AS(write_pair(folder.cpp, folder.path / "." / "x" / ".." / "m.cpp", "", {}), std::invalid_argument);
  folder.put("1");
  std::filesystem::create_symlink(folder.cpp, folder.path / "link");
  CHECK_THROWS_WITH_AS(write_pair(folder.cpp, folder.path / "link", "", {}), doctest::Contains("name the same file"),
                       std::invalid_argument);
  std::filesystem::create_hard_link(folder.cpp, folder.path / "hard");
  CHECK_THROWS_AS(write_pair(folder.cpp, folder.path / "hard", "", {}), std::invalid_argument);
}

TEST_CASE("folders are made, permissions kept, symbolic links written through") {
  const Scratch scratch;
  const auto cpp = scratch.path / "a" / "b" / "m.cpp", cache = scratch.path / "c" / "m.cache";
  write_pair(cpp, cache, "1", bytes("1"));
  std::filesystem::permissions(cpp, std::filesystem::perms(0640));
  std::filesystem::create_symlink(cpp, scratch.path / "link.cpp");
  write_pair(scratch.path / "link.cpp", cache, "2", bytes("2"));
  CHECK(std::filesystem::is_symlink(scratch.path / "link.cpp"));
  CHECK(scratch.read("a/b/m.cpp") == "2");
  CHECK((std::filesystem::status(cpp).permissions() & std::filesystem::perms(07777)) == std::filesystem::perms(0640));
}

TEST_CASE("two processes that write and one that reads never see a mixed pair") {
  const Folder folder;
  folder.put("0");
  std::vector<pid_t> children;
  for (const char* name : {"a", "b"}) {
    const pid_t child = ::fork();
    if (child == 0) {
      for (int i = 0; i < 12; ++i) folder.put(name + std::to_string(i));
      ::_exit(0);
    }
    children.push_back(child);
  }
  int mixed = 0;
  for (int i = 0; i < 2000; ++i) {
    const PairBytes pair = read_pair(folder.cpp, folder.cache);
    mixed += bytes("cache " + pair.code.substr(5)) != pair.cache;
  }
  for (const pid_t child : children) {
    int status = 0;
    ::waitpid(child, &status, 0);
    CHECK(status == 0);
  }
  CHECK(mixed == 0);
  CHECK(folder.files() == 2);
}

TEST_CASE("a file that is missing is named, with the reason") {
  const Folder folder;
  CHECK_THROWS_WITH_AS(
      read_pair(folder.cpp, folder.cache),
      doctest::Contains(("cannot read the artifact " + folder.cpp.string() + ": No such file").c_str()),
      PrecompileError);
  folder.write("m.cpp", "");
  CHECK_THROWS_WITH_AS(read_pair(folder.cpp, folder.cache),
                       doctest::Contains(("cannot read the cache " + folder.cache.string() + ": No such file").c_str()),
                       PrecompileError);
  CHECK_THROWS_WITH_AS(read_pair(folder.path, folder.cache), doctest::Contains("Is a directory"), PrecompileError);
}
