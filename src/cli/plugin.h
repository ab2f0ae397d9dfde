// Loads the LibTorch plugin when a subcommand needs it; the program itself does not link LibTorch.
#pragma once
#include <string>

#include "plugin/plugin_abi.h"

namespace precast::cli {

/// Looked for beside the program, then in ../lib; loaded once. `why` says what needs it.
/// Throws PrecompileError when it, or LibTorch, cannot be loaded.
const precast_plugin& torch_plugin(const std::string& why);
/// Whether its file is there; LibTorch may still be missing.
bool has_torch_plugin();

/// Throws PrecompileError, or std::invalid_argument for a wrong option, with the plugin's reason when `code` is not 0.
void check_plugin(const precast_plugin& plugin, int code);

}  // namespace precast::cli
