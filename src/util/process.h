// Runs another program without a shell and keeps what it prints.
#pragma once
#include <string>
#include <vector>

namespace precast {

struct ProcessResult {
  int exit_code = -1;  // 128 + n when signal n ended it; -1 unknown, because the host program ignores SIGCHLD
  std::string output;  // stdout and stderr
};

/// `command[0]` is found in PATH. Throws PrecompileError when it cannot be started.
ProcessResult run_process(const std::vector<std::string>& command);
/// Full path of a program in PATH (or itself, if it has a slash); empty when there is none.
std::string find_program(const std::string& name);

}  // namespace precast
