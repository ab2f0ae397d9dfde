// The cache of compiled forms on disk.
#include "jit/disk_cache.h"

#include <doctest/doctest.h>
#include <precast/compile.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "util/temp_folder.h"
#include "util/warn.h"

using namespace precast;
namespace fs = std::filesystem;

namespace {

struct Folder {
  TempFolder temp;
  fs::path path = temp.path() / "cache";
  std::string before = std::getenv("PRECAST_CACHE_DIR") ? std::getenv("PRECAST_CACHE_DIR") : "";
  Folder() { ::setenv("PRECAST_CACHE_DIR", path.c_str(), 1); }
  ~Folder() {
    before.empty() ? ::unsetenv("PRECAST_CACHE_DIR") : ::setenv("PRECAST_CACHE_DIR", before.c_str(), 1);
    ::unsetenv("PRECAST_CACHE_MB");
  }
  int entries() const {
    int n = 0;
    for (const auto& e : fs::directory_iterator(path)) n += e.path().extension() == ".entry";
    return n;
  }
};

jit::Bytes bytes(size_t n, int value) { return jit::Bytes(n, static_cast<std::byte>(value)); }

}  // namespace

TEST_CASE("disk cache: made once, damaged entries are made again, a small limit keeps the newest") {
  const Folder folder;
  int made = 0;
  const auto get = [&](const std::string& key, size_t size = 10) {
    return jit::cached(key, [&] { return ++made, bytes(size, made); });
  };
  CHECK(get("a").miss == "no entry");
  CHECK(get("a").miss.empty());
  CHECK(made == 1);
  struct stat s{};
  REQUIRE(::stat(folder.path.c_str(), &s) == 0);
  CHECK((s.st_mode & 0777) == 0700);
  {
    std::fstream file(folder.path / "a.entry", std::ios::in | std::ios::out | std::ios::binary);
    file.seekp(34);
    file.put('x');
  }
  CHECK(get("a").miss == "the entry is damaged");
  CHECK((get("a").bytes == bytes(10, 2)));
  ::setenv("PRECAST_CACHE_MB", "1", 1);
  get("b", 700 << 10), get("c", 700 << 10);
  CHECK(folder.entries() == 1);
  CHECK(get("c").miss.empty());
}

TEST_CASE("disk cache: a folder that others may write to is not used") {
  const Folder folder;
  fs::create_directories(folder.path);
  ::chmod(folder.path.c_str(), 0777);
  std::vector<std::string> seen;
  const auto before = set_warning_sink([&](std::string_view w) { seen.emplace_back(w); });
  CHECK(jit::cached("a", [] { return bytes(1, 1); }).miss == "there is no cache folder");
  set_warning_sink(before);
  CHECK(folder.entries() == 0);
  REQUIRE(seen.size() == 1);
  CHECK(seen[0].find("others may write to it") != std::string::npos);
}

TEST_CASE("disk cache: a second compilation starts no compiler; entries travel as a blob") {
  const at::Tensor x = torch::randn({3, 4});
  const auto compiles = [&] {
    const auto f = compile([](at::Tensor x) { return x.tanh() * 3 - 1; });
    f(x);
    CHECK(at::allclose(f(x), x.tanh() * 3 - 1));
    return f.explain();
  };
  std::optional<std::vector<std::byte>> blob;
  {
    const Folder first;
    CHECK(compiles().find("disk cache: miss, no entry") != std::string::npos);
    reset();
    CHECK(compiles().find("disk cache: hit") != std::string::npos);
    blob = save_cache_artifacts();
    reset();
  }
  REQUIRE(blob);
  const Folder second;
  CHECK(load_cache_artifacts(*blob) > 0);
  CHECK(load_cache_artifacts(*blob) == 0);
  CHECK(compiles().find("disk cache: hit") != std::string::npos);
  std::vector<std::byte> damaged = *blob;
  damaged[damaged.size() / 2] ^= std::byte{1};
  CHECK_THROWS_WITH_AS(load_cache_artifacts(damaged), doctest::Contains("checksum"), PrecompileError);
  CHECK_THROWS_AS(load_cache_artifacts(std::span(*blob).first(5)), PrecompileError);
}
