#include "util/files.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "util/errors.h"

namespace precast {
namespace {

[[noreturn]] void cannot_read(const std::filesystem::path& path, std::string_view what, int error) {
  throw PrecompileError("cannot read the " + std::string(what) + " " + path.string() + ": " + std::strerror(error));
}

template <class Container>
Container read_whole(const std::filesystem::path& path, std::string_view what) {
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) cannot_read(path, what, errno);
  struct stat info{};
  int error = ::fstat(fd, &info) != 0 ? errno : S_ISDIR(info.st_mode) ? EISDIR : 0;
  Container content;
  content.resize(error == 0 ? static_cast<size_t>(info.st_size) + 1 : 0);  // one more byte finds the end at once
  size_t done = 0;
  while (error == 0) {
    if (done == content.size()) content.resize(2 * done);
    const ssize_t n = ::read(fd, content.data() + done, content.size() - done);
    if (n == 0) break;
    if (n > 0) done += static_cast<size_t>(n);
    if (n < 0 && errno != EINTR) error = errno;
  }
  ::close(fd);
  if (error != 0) cannot_read(path, what, error);
  content.resize(done);
  return content;
}

}  // namespace

std::string read_text_file(const std::filesystem::path& path, std::string_view what) {
  return read_whole<std::string>(path, what);
}

std::vector<std::byte> read_binary_file(const std::filesystem::path& path, std::string_view what) {
  return read_whole<std::vector<std::byte>>(path, what);
}

}  // namespace precast
