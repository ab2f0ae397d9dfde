// Runs a program as a child process and keeps what it said.
#pragma once
#include <string>
#include <vector>

struct Output {
  int code = -1;  // exit code; 128 + signal if it died
  std::string out, err;
};

/// `program` is a path. `env` replaces single variables ("NAME=value", "NAME=" unsets); `clean` starts from nothing
/// else.
Output run_program(const std::string& program, const std::vector<std::string>& args,
                   const std::vector<std::string>& env = {}, bool clean = false);

/// The `precast` program of this build.
Output precast_program(const std::vector<std::string>& args, const std::vector<std::string>& env = {});
