#include "jit/disk_cache.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <mutex>
#include <optional>

#include "precast/error.h"
#include "util/files.h"
#include "util/sha256.h"
#include "util/warn.h"

namespace precast::jit {
namespace {

namespace fs = std::filesystem;

std::mutex used_mutex;
std::map<std::string, Bytes>& used() {
  static auto& entries = *new std::map<std::string, Bytes>;  // background threads may outlive statics
  return entries;
}

std::string variable(const char* name) {
  const char* const value = std::getenv(name);
  return value ? value : "";
}

/// Ours, and nobody else's to write. Empty: there is no cache.
fs::path folder() {
  fs::path path;
  if (std::getenv("PRECAST_CACHE_DIR"))
    path = variable("PRECAST_CACHE_DIR");
  else if (const std::string xdg = variable("XDG_CACHE_HOME"); !xdg.empty())
    path = fs::path(xdg) / "precast";
  else if (const std::string home = variable("HOME"); !home.empty())
    path = fs::path(home) / ".cache" / "precast";
  if (path.empty()) return {};
  std::error_code error;
  fs::create_directories(path.parent_path(), error);
  ::mkdir(path.c_str(), 0700);
  struct stat s{};
  if (::stat(path.c_str(), &s) != 0 || !S_ISDIR(s.st_mode)) return {};
  if (s.st_uid != ::geteuid() || (s.st_mode & (S_IWGRP | S_IWOTH))) {
    static std::once_flag told;
    std::call_once(told, [&] {
      warn("compile: the cache folder " + path.string() +
           " is not used: others may write to it, and what it holds is executed (chmod 700)");
    });
    return {};
  }
  return path;
}

/// Held until the object dies, whatever happens to the process.
class Lock {
 public:
  explicit Lock(const fs::path& file) : fd_(::open(file.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600)) {
    while (fd_ >= 0 && ::flock(fd_, LOCK_EX) != 0 && errno == EINTR) {
    }
  }
  ~Lock() {
    if (fd_ >= 0) ::close(fd_);
  }
  Lock(const Lock&) = delete;
  Lock& operator=(const Lock&) = delete;

 private:
  int fd_;
};

/// The time that files get by themselves is that of the last tick: entries of one tick would have no order.
void mark_used(const fs::path& file) {
  std::error_code ignored;
  fs::last_write_time(file, fs::file_time_type::clock::now(), ignored);
}

/// The content behind its digest.
std::optional<Bytes> read(const fs::path& file, std::string& miss) {
  std::error_code error;
  if (!fs::exists(file, error)) return miss = "no entry", std::nullopt;
  try {
    Bytes all = read_binary_file(file, "cache entry");
    const size_t head = sizeof(Digest);
    if (all.size() >= head) {
      const Digest digest = sha256(std::span(all).subspan(head));
      if (std::equal(digest.begin(), digest.end(), all.begin())) {
        all.erase(all.begin(), all.begin() + head);
        mark_used(file);
        return all;
      }
    }
    miss = "the entry is damaged";
  } catch (const PrecompileError& e) {
    miss = e.what();
  }
  return std::nullopt;
}

void write(const fs::path& file, const Bytes& bytes) {
  const fs::path fresh = file.string() + "." + std::to_string(::getpid()) + ".new";
  {
    std::ofstream out(fresh, std::ios::binary);
    const Digest digest = sha256(bytes);
    out.write(reinterpret_cast<const char*>(digest.data()), static_cast<std::streamsize>(digest.size()));
    out.write(reinterpret_cast<const char*>(bytes.data()), static_cast<std::streamsize>(bytes.size()));
    if (!out.flush()) {  // a full disk: there is no entry then
      std::error_code ignored;
      fs::remove(fresh, ignored);
      return;
    }
  }
  mark_used(fresh);
  std::error_code error;
  fs::rename(fresh, file, error);
  if (error) fs::remove(fresh, error);
}

/// The oldest go until the rest fits.
void keep_small(const fs::path& dir) {
  const std::string limit_mb = variable("PRECAST_CACHE_MB");
  const uintmax_t limit = (limit_mb.empty() ? 1024 : std::strtoull(limit_mb.c_str(), nullptr, 10)) << 20;
  struct Entry {
    fs::file_time_type used;
    uintmax_t bytes;
    fs::path path;
  };
  std::vector<Entry> entries;
  uintmax_t total = 0;
  std::error_code error;
  for (const auto& e : fs::directory_iterator(dir, error))
    if (e.path().extension() == ".entry") {
      entries.push_back({e.last_write_time(error), e.file_size(error), e.path()});
      total += entries.back().bytes;
    }
  std::ranges::sort(entries, {}, &Entry::used);
  for (const Entry& e : entries) {
    if (total <= limit) return;
    fs::remove(e.path, error);
    fs::remove(fs::path(e.path).replace_extension(".lock"), error);
    total -= e.bytes;
  }
}

void remember(const std::string& key, const Bytes& bytes) {
  const std::lock_guard lock(used_mutex);
  used()[key] = bytes;
}

}  // namespace

Cached cached(const std::string& key, const std::function<Bytes()>& make) {
  Cached c;
  const fs::path dir = folder();
  if (dir.empty()) {
    c.miss = "there is no cache folder";
    c.bytes = make();
  } else {
    const fs::path file = dir / (key + ".entry");
    std::optional<Bytes> found = read(file, c.miss);
    if (!found) {
      const Lock lock(dir / (key + ".lock"));
      found = read(file, c.miss);  // another process has made it meanwhile
      if (!found) {
        c.bytes = make();
        write(file, c.bytes);
        keep_small(dir);
      }
    }
    if (found) c.bytes = std::move(*found), c.miss.clear();
  }
  remember(key, c.bytes);
  return c;
}

std::map<std::string, Bytes> used_entries() {
  const std::lock_guard lock(used_mutex);
  return used();
}

int add_entries(const std::map<std::string, Bytes>& entries) {
  const fs::path dir = folder();
  if (dir.empty()) return 0;
  int added = 0;
  for (const auto& [key, bytes] : entries) {
    const fs::path file = dir / (key + ".entry");
    std::string miss;
    if (key.find_first_not_of("0123456789abcdef") != key.npos || read(file, miss)) continue;
    write(file, bytes);
    ++added;
  }
  keep_small(dir);
  return added;
}

}  // namespace precast::jit
