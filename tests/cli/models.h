// TorchScript files and pairs made once for all tests of this program, in one folder.
#pragma once
#include <string>
#include <vector>

#include "scratch.h"

/// Folder of this test run.
const Scratch& workspace();
/// Path of the TorchScript file of that name; see make_script.
std::string model(const std::string& name);

struct Pair {
  std::string cpp, cache;
};
/// Captures `name` with these arguments, once; fails the test if that fails.
const Pair& pair(const std::string& name, const std::vector<std::string>& arguments);
/// Weights of `name`, once.
std::string weights(const std::string& name, const std::vector<std::string>& arguments = {});

bool has(const std::string& text, const std::string& part);
