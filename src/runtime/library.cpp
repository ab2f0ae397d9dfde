#include "runtime/library.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <atomic>
#include <utility>

#include "precast/error.h"
#include "util/temp_folder.h"

namespace precast::runtime {
namespace {

bool write_all(int fd, std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t n = ::write(fd, bytes.data(), bytes.size());
    if (n <= 0) return false;
    bytes = bytes.subspan(static_cast<size_t>(n));
  }
  return true;
}

// The dynamic loader takes a path it has seen before for the library it loaded then, and descriptor numbers come
// back. So each path is spelled in its own way: the bits of a counter choose between "./" and ".//".
std::string unique_path(int fd) {
  static std::atomic<unsigned> counter{0};
  std::string path = "/proc/self/fd/";
  for (unsigned n = ++counter; n != 0; n >>= 1) path += n & 1 ? ".//" : "./";
  return path + std::to_string(fd);
}

void* open_in_memory(std::span<const std::byte> bytes) {
  const int fd = ::memfd_create("precast", MFD_CLOEXEC);
  if (fd < 0) return nullptr;
  void* handle = write_all(fd, bytes) ? ::dlopen(unique_path(fd).c_str(), RTLD_NOW | RTLD_LOCAL) : nullptr;
  ::close(fd);
  return handle;
}

// Where memory files are not there or may not be executed.
void* open_from_folder(std::span<const std::byte> bytes) {
  const TempFolder folder;
  const std::string path = (folder.path() / "model.so").string();
  const int fd = ::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0700);
  const bool written = fd >= 0 && write_all(fd, bytes);
  if (fd >= 0) ::close(fd);
  if (!written) throw PrecompileError("cannot write " + path + ". Is the disk full? TMPDIR names another place.");
  return ::dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
}

}  // namespace

Library::Library(std::span<const std::byte> shared_object) : handle_(open_in_memory(shared_object)) {
  if (handle_ == nullptr) handle_ = open_from_folder(shared_object);
  if (handle_ == nullptr) {
    const char* reason = ::dlerror();
    throw PrecompileError(std::string("the dynamic loader refused it: ") + (reason ? reason : "no reason given"));
  }
}

Library::~Library() {
  if (handle_ != nullptr) ::dlclose(handle_);
}

Library::Library(Library&& other) noexcept : handle_(std::exchange(other.handle_, nullptr)) {}

Library& Library::operator=(Library&& other) noexcept {
  std::swap(handle_, other.handle_);
  return *this;
}

void* Library::symbol(const std::string& name) const { return ::dlsym(handle_, name.c_str()); }

}  // namespace precast::runtime
