#include "api/support.h"

#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <fstream>
#include <sstream>

namespace precast::testing {

Folder::Folder() {
  std::string name = (std::filesystem::temp_directory_path() / "precast-test-XXXXXX").string();
  REQUIRE(mkdtemp(name.data()));
  path = name;
}
Folder::~Folder() { std::filesystem::remove_all(path); }

std::filesystem::path child_folder() { return std::getenv("PRECAST_TEST_FOLDER"); }

std::string run_in_fresh_process(const std::string& name, const std::filesystem::path& folder, int threads,
                                 const std::string& path) {
  const std::string self = std::filesystem::read_symlink("/proc/self/exe").string();
  const std::string filter = "--test-case=" + name, where = "PRECAST_TEST_FOLDER=" + folder.string(),
                    omp = "OMP_NUM_THREADS=" + std::to_string(threads), log = (folder / "child.log").string(),
                    search = "PATH=" + path;
  const char* const off = std::getenv("PRECAST_MUTATE");  // a check that is switched off is off there, too
  const std::string mutate = std::string("PRECAST_MUTATE=") + (off ? off : "");
  const char* const arguments[] = {self.c_str(), filter.c_str(), "--no-skip", nullptr};
  const char* const environment[] = {where.c_str(), omp.c_str(), search.c_str(), mutate.c_str(), nullptr};
  const pid_t child = fork();
  REQUIRE(child >= 0);
  if (child == 0) {
    const int out = open(log.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600);
    dup2(out, 1);
    dup2(out, 2);
    if (chdir("/") == 0)
      execve(self.c_str(), const_cast<char* const*>(arguments), const_cast<char* const*>(environment));
    _exit(127);
  }
  int status = 0;
  REQUIRE(waitpid(child, &status, 0) == child);
  std::stringstream text;
  text << std::ifstream(log).rdbuf();
  INFO("the other process printed:\n", text.str());
  REQUIRE(WIFEXITED(status));
  REQUIRE(WEXITSTATUS(status) == 0);
  REQUIRE(text.str().find("1 passed") != std::string::npos);
  return text.str();
}

}  // namespace precast::testing
