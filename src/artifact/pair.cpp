#include "artifact/pair.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstring>
#include <stdexcept>

#include "precast/error.h"
#include "util/files.h"

namespace precast::artifact {
namespace {

namespace fs = std::filesystem;

struct Fd {
  int fd;
  explicit Fd(int fd) : fd(fd) {}
  ~Fd() {
    if (fd >= 0) ::close(fd);
  }
  Fd(const Fd&) = delete;
  Fd& operator=(const Fd&) = delete;
};

fs::path folder_of(const fs::path& file) { return file.parent_path().empty() ? "." : file.parent_path(); }

// Folders of a pair, locked (advisory, released by the kernel whatever happens) so that a pair is renamed and read as
// one.
class FolderLocks {
 public:
  FolderLocks(const fs::path& a, const fs::path& b, int how) : a_(open_folder(a)), b_(open_folder(b)) {
    struct stat sa{}, sb{};
    if (a_.fd < 0 || b_.fd < 0 || ::fstat(a_.fd, &sa) != 0 || ::fstat(b_.fd, &sb) != 0) return;
    const bool same = sa.st_dev == sb.st_dev && sa.st_ino == sb.st_ino;
    const bool swap = std::pair(sb.st_dev, sb.st_ino) < std::pair(sa.st_dev, sa.st_ino);  // one order for everybody
    lock(swap ? b_.fd : a_.fd, how);
    if (!same) lock(swap ? a_.fd : b_.fd, how);
  }
  const Fd& a() const { return a_; }
  const Fd& b() const { return b_; }

 private:
  static int open_folder(const fs::path& file) {
    return ::open(folder_of(file).c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  }
  static void lock(int fd, int how) {
    while (::flock(fd, how) != 0 && errno == EINTR) {
    }
  }
  Fd a_, b_;
};

// One of the two files on its way: written beside the target, then moved in.
struct Staged {
  std::string what;
  fs::path target, fresh, aside;
  bool is_written = false, is_aside = false, is_in = false;
  mode_t mode = 0;  // of the file that is replaced; 0 if there is none

  Staged(std::string what, const fs::path& path) : what(std::move(what)), target(path) {
    static std::atomic<unsigned> counter{0};
    std::error_code ignored;
    if (fs::is_symlink(path, ignored) && fs::exists(path, ignored)) target = fs::canonical(path, ignored);
    const std::string unique =
        "." + target.filename().string() + "." + std::to_string(::getpid()) + "." + std::to_string(counter++);
    fresh = folder_of(target) / (unique + ".new");
    aside = folder_of(target) / (unique + ".old");
  }

  [[noreturn]] void fail(const std::string& reason) const {
    throw PrecompileError("cannot write the " + what + " " + target.string() + ": " + reason +
                          ". Nothing was changed.");
  }
  void need(bool ok) const {
    if (!ok) fail(std::strerror(errno));
  }

  void prepare() {
    if (target.filename().empty()) fail("the path names no file");
    std::error_code error;
    fs::create_directories(folder_of(target), error);
    if (error) fail("its folder cannot be made: " + error.message());
    struct stat info{};
    if (::stat(target.c_str(), &info) != 0) return;
    if (!S_ISREG(info.st_mode)) fail("there is something that is not a regular file");
    mode = info.st_mode & 07777;
  }

  void write(std::span<const std::byte> bytes, const WriteHook& hook) {
    const auto step = [&](const char* name) {
      if (hook) hook(std::string(name) + " " + what);
    };
    step("open");
    const Fd file(::open(fresh.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666));
    need(file.fd >= 0);
    is_written = true;
    step("write");
    while (!bytes.empty()) {
      const ssize_t n = ::write(file.fd, bytes.data(), bytes.size());
      need(n >= 0 || errno == EINTR);
      if (n > 0) bytes = bytes.subspan(static_cast<size_t>(n));
    }
    if (mode != 0) need(::fchmod(file.fd, mode) == 0);
    step("sync");
    need(::fsync(file.fd) == 0);
  }

  void move_aside() {
    if (::rename(target.c_str(), aside.c_str()) == 0)
      is_aside = true;
    else
      need(errno == ENOENT);
  }
  void move_in() {
    need(::rename(fresh.c_str(), target.c_str()) == 0);
    is_in = true;
  }
  void undo() const {
    if (is_aside)
      ::rename(aside.c_str(), target.c_str());
    else if (is_in)
      ::unlink(target.c_str());
    if (is_written && !is_in) ::unlink(fresh.c_str());
  }
  void sync_folder(const Fd& folder) const { need(::fsync(folder.fd) == 0 || errno == EINVAL); }
};

bool same_file(const fs::path& a, const fs::path& b) {
  std::error_code error;
  if (fs::equivalent(a, b, error)) return true;
  const auto resolved = [](const fs::path& path) {
    std::error_code failed;
    const fs::path canonical = fs::weakly_canonical(path, failed);
    return failed ? fs::absolute(path).lexically_normal() : canonical;
  };
  return resolved(a) == resolved(b);
}

}  // namespace

void write_pair(const fs::path& artifact_path, const fs::path& cache_path, std::string_view code,
                std::span<const std::byte> cache, const WriteHook& hook) {
  if (same_file(artifact_path, cache_path))
    throw std::invalid_argument("artifact_path and cache_path name the same file, " + artifact_path.string() +
                                ". Give each its own name, for example m.cpp and m.cache.");
  Staged a("artifact", artifact_path), c("cache", cache_path);
  const auto step = [&](const char* name) {
    if (hook) hook(name);
  };
  try {
    a.prepare();
    c.prepare();
    a.write(std::as_bytes(std::span(code)), hook);
    c.write(cache, hook);
    const FolderLocks folders(a.target, c.target, LOCK_EX);
    step("move old cache aside");
    c.move_aside();
    step("move old artifact aside");
    a.move_aside();
    step("rename artifact");
    a.move_in();
    step("rename cache");
    c.move_in();
    step("sync folders");
    a.sync_folder(folders.a());
    c.sync_folder(folders.b());
  } catch (...) {
    a.undo();
    c.undo();
    throw;
  }
  if (a.is_aside) ::unlink(a.aside.c_str());
  if (c.is_aside) ::unlink(c.aside.c_str());
}

PairBytes read_pair(const fs::path& artifact_path, const fs::path& cache_path) {
  const FolderLocks folders(artifact_path, cache_path, LOCK_SH);
  return {read_text_file(artifact_path, "artifact"), read_binary_file(cache_path, "cache")};
}

}  // namespace precast::artifact
