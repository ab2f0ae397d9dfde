// Runs a program in a fresh process with nothing of ours: its own environment, folder and output.
#pragma once
#include <filesystem>
#include <string>
#include <vector>

namespace precast::demo {

struct Finished {
  int code = 0;          // exit code; 128 + the signal that ended it
  std::string out, err;  // what it printed
};

/// `environment` holds "NAME=value" and is all that the program gets (env -i). Throws std::system_error when the
/// program cannot be started.
Finished run_process(const std::vector<std::string>& command, const std::vector<std::string>& environment,
                     const std::filesystem::path& folder);

/// The folder that this program was started from, where its sisters are.
std::filesystem::path program_folder();

}  // namespace precast::demo
