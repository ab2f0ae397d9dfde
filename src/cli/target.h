// The options that name a method of a TorchScript file; the same on every subcommand that takes one.
#pragma once
#include <string>

#include "plugin/plugin_abi.h"

namespace CLI {
class App;
}

namespace precast::cli {

struct Target {
  std::string file, submodule, method = "forward";
  bool train = false;

  void add_options(CLI::App& command, bool with_method);
  precast_callable callable() const;  // points into this
};

}  // namespace precast::cli
