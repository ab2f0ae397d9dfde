// Whole files: written all at once or not at all.
#include "io/file.h"

#include <doctest/doctest.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include <fstream>

#include "precast/error.h"
#include "scratch.h"

using namespace precast;
using namespace precast::io;

namespace {

void write(const std::filesystem::path& path, const std::string& text) { write_file(path, {as_bytes(text)}); }

std::string message_of(const std::filesystem::path& path, const std::string& text = "new") {
  try {
    write(path, text);
  } catch (const PrecompileError& e) {
    return e.what();
  }
  return "no error";
}

mode_t mode_of(const std::filesystem::path& path) {
  struct stat info{};
  REQUIRE(::stat(path.c_str(), &info) == 0);
  return info.st_mode & 07777;
}

size_t entries(const std::filesystem::path& folder) {
  return static_cast<size_t>(std::distance(std::filesystem::directory_iterator(folder), {}));
}

}  // namespace

TEST_CASE("file: a new file has the mode that the umask leaves, a replaced one keeps its own") {
  const Scratch dir;
  const mode_t before = ::umask(027);
  write(dir.path / "a", "one");
  ::umask(before);
  CHECK(mode_of(dir.path / "a") == 0640);
  ::chmod((dir.path / "a").c_str(), 0600);
  write(dir.path / "a", "two");
  CHECK(mode_of(dir.path / "a") == 0600);
  CHECK(dir.read("a") == "two");
  CHECK(entries(dir.path) == 1);
}

TEST_CASE("file: through a link, the file that it points to is replaced") {
  const Scratch dir;
  dir.write("target", "old");
  std::filesystem::create_symlink("target", dir.path / "link");
  write(dir.path / "link", "new");
  CHECK(std::filesystem::is_symlink(dir.path / "link"));
  CHECK(dir.read("target") == "new");
}

TEST_CASE("file: what is no regular file stays as it is") {
  const Scratch dir;
  std::filesystem::create_directory(dir.path / "folder");
  REQUIRE(::mkfifo((dir.path / "pipe").c_str(), 0600) == 0);
  CHECK(message_of(dir.path / "folder") == (dir.path / "folder").string() + ": cannot be written: Is a directory");
  CHECK(message_of(dir.path / "pipe") ==
        (dir.path / "pipe").string() + ": cannot be written: it is not a regular file");
  CHECK(std::filesystem::is_fifo(dir.path / "pipe"));
  CHECK(message_of(dir.path / "no" / "x") ==
        (dir.path / "no" / "x").string() + ": cannot be created: No such file or directory");
  CHECK(entries(dir.path) == 2);
}

TEST_CASE("file: a full disk leaves the old content and nothing else") {
  const Scratch dir;
  dir.write("x", "old");
  const auto handler = ::signal(SIGXFSZ, SIG_IGN);
  rlimit old{}, small{};
  ::getrlimit(RLIMIT_FSIZE, &old);
  small = old;
  small.rlim_cur = 1000;
  ::setrlimit(RLIMIT_FSIZE, &small);
  const std::string message = message_of(dir.path / "x", std::string(5000, 'x'));
  ::setrlimit(RLIMIT_FSIZE, &old);
  ::signal(SIGXFSZ, handler);
  CHECK(message == (dir.path / "x").string() + ": cannot be written: File too large");
  CHECK(dir.read("x") == "old");
  CHECK(entries(dir.path) == 1);
}
