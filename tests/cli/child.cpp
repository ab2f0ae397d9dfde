#include "child.h"

#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <stdexcept>

#include "scratch.h"

namespace {

std::vector<std::string> environment_with(const std::vector<std::string>& changes, bool clean) {
  std::vector<std::string> all;
  for (char** e = environ; !clean && *e; ++e) all.emplace_back(*e);
  for (const std::string& change : changes) {
    const std::string name = change.substr(0, change.find('=') + 1);
    std::erase_if(all, [&](const std::string& e) { return e.starts_with(name); });
    if (change.size() > name.size()) all.push_back(change);
  }
  return all;
}

std::vector<char*> pointers(const std::vector<std::string>& texts) {
  std::vector<char*> result;
  for (const std::string& text : texts) result.push_back(const_cast<char*>(text.c_str()));
  result.push_back(nullptr);
  return result;
}

void redirect(const std::filesystem::path& path, int to) {
  const int fd = ::open(path.c_str(), O_CREAT | O_WRONLY | O_TRUNC, 0600);
  ::dup2(fd, to);
  ::close(fd);
}

}  // namespace

Output run_program(const std::string& program, const std::vector<std::string>& args,
                   const std::vector<std::string>& env, bool clean) {
  const Scratch dir;
  std::vector<std::string> all = {program};
  all.insert(all.end(), args.begin(), args.end());
  const auto variables = environment_with(env, clean);
  const auto argv = pointers(all), envp = pointers(variables);
  const pid_t child = ::fork();
  if (child < 0) throw std::runtime_error("fork failed");
  if (child == 0) {
    redirect(dir.path / "out", 1);
    redirect(dir.path / "err", 2);
    ::execve(program.c_str(), argv.data(), envp.data());
    ::_exit(127);
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  return {WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status), dir.read("out"), dir.read("err")};
}

Output precast_program(const std::vector<std::string>& args, const std::vector<std::string>& env) {
  return run_program(PRECAST_PROGRAM, args, env);
}
