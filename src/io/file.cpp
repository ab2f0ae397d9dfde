#include "io/file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstring>

#include "util/errors.h"

namespace precast::io {
namespace {

[[noreturn]] void fail(const std::filesystem::path& path, const char* what, int error) {
  throw PrecompileError(path.string() + ": " + what + ": " + std::strerror(error));
}

struct Descriptor {
  int fd;
  ~Descriptor() {
    if (fd >= 0) ::close(fd);
  }
};

void write_all(int fd, std::span<const std::byte> bytes, const std::filesystem::path& path) {
  while (!bytes.empty()) {
    const ssize_t n = ::write(fd, bytes.data(), bytes.size());
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) fail(path, "cannot be written", errno);
    bytes = bytes.subspan(static_cast<size_t>(n));
  }
}

}  // namespace

MappedFile map_file(const std::filesystem::path& path) {
  Descriptor file{::open(path.c_str(), O_RDONLY | O_CLOEXEC)};
  if (file.fd < 0) fail(path, "cannot be opened", errno);
  struct stat info;
  if (::fstat(file.fd, &info) != 0) fail(path, "cannot be read", errno);
  if (S_ISDIR(info.st_mode)) fail(path, "cannot be read", EISDIR);
  const auto size = static_cast<size_t>(info.st_size);
  if (size == 0) return {};
  void* address = ::mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE, file.fd, 0);
  if (address == MAP_FAILED) fail(path, "cannot be mapped into memory", errno);
  return {std::shared_ptr<void>(address, [size](void* p) { ::munmap(p, size); }),
          {static_cast<std::byte*>(address), size}};
}

void write_file(const std::filesystem::path& path, const std::vector<std::span<const std::byte>>& pieces) {
  std::error_code ignored;
  std::filesystem::path target = path;  // what a link points to is replaced, not the link
  if (std::filesystem::is_symlink(path, ignored) && std::filesystem::exists(path, ignored))
    target = std::filesystem::canonical(path, ignored);
  struct stat old{};
  const bool replaces = ::stat(target.c_str(), &old) == 0;
  if (replaces && S_ISDIR(old.st_mode)) fail(path, "cannot be written", EISDIR);
  if (replaces && !S_ISREG(old.st_mode))
    throw PrecompileError(path.string() + ": cannot be written: it is not a regular file");
  static std::atomic<unsigned> counter{0};
  const std::string fresh =
      target.string() + "." + std::to_string(::getpid()) + "." + std::to_string(counter++) + ".new";
  Descriptor file{::open(fresh.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666)};
  if (file.fd < 0) fail(path, "cannot be created", errno);
  try {
    for (const auto& piece : pieces) write_all(file.fd, piece, path);
    if (replaces && ::fchmod(file.fd, old.st_mode & 07777) != 0) fail(path, "cannot be written", errno);
    if (::fsync(file.fd) != 0) fail(path, "cannot be written", errno);
    if (::rename(fresh.c_str(), target.c_str()) != 0) fail(path, "cannot be put in place", errno);
  } catch (...) {
    ::unlink(fresh.c_str());
    throw;
  }
}

}  // namespace precast::io
