#include "process.h"

#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <fstream>
#include <sstream>
#include <system_error>

namespace precast::demo {
namespace {

/// A temporary file that takes a stream of the child.
class Sink {
 public:
  Sink() : path_((std::filesystem::temp_directory_path() / "precast-XXXXXX").string()) {
    file_ = ::mkstemp(path_.data());
    if (file_ < 0) throw std::system_error(errno, std::generic_category(), path_);
  }
  ~Sink() {
    ::close(file_);
    ::unlink(path_.c_str());
  }
  Sink(const Sink&) = delete;
  Sink& operator=(const Sink&) = delete;
  int file() const { return file_; }
  std::string text() const {
    std::ostringstream all;
    all << std::ifstream(path_).rdbuf();
    return all.str();
  }

 private:
  std::string path_;
  int file_;
};

std::vector<char*> pointers(const std::vector<std::string>& strings) {
  std::vector<char*> list;
  for (const auto& s : strings) list.push_back(const_cast<char*>(s.c_str()));
  list.push_back(nullptr);
  return list;
}

}  // namespace

Finished run_process(const std::vector<std::string>& command, const std::vector<std::string>& environment,
                     const std::filesystem::path& folder) {
  Sink out, err;
  posix_spawn_file_actions_t actions;
  ::posix_spawn_file_actions_init(&actions);
  ::posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
  ::posix_spawn_file_actions_adddup2(&actions, out.file(), STDOUT_FILENO);
  ::posix_spawn_file_actions_adddup2(&actions, err.file(), STDERR_FILENO);
  ::posix_spawn_file_actions_addchdir_np(&actions, folder.c_str());
  pid_t child = 0;
  const int failed = ::posix_spawn(&child, command.at(0).c_str(), &actions, nullptr, pointers(command).data(),
                                   pointers(environment).data());
  ::posix_spawn_file_actions_destroy(&actions);
  if (failed) throw std::system_error(failed, std::generic_category(), command[0]);

  int status = 0;
  while (::waitpid(child, &status, 0) < 0)
    if (errno != EINTR) throw std::system_error(errno, std::generic_category(), "waitpid");
  return {WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status), out.text(), err.text()};
}

std::filesystem::path program_folder() { return std::filesystem::read_symlink("/proc/self/exe").parent_path(); }

}  // namespace precast::demo
