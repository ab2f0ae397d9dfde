// Arguments of the command line as the leaves that artifacts and the plugin take.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "io/input.h"
#include "precast/artifact_abi.h"

namespace precast::cli {

/// Input i is filled from seed + i, so equal types get different values.
std::vector<io::Input> parse_inputs(const std::vector<std::string>& texts, uint64_t seed);

/// Points into `input`, which must outlive it.
precast_leaf to_leaf(const io::Input& input);
std::vector<precast_leaf> to_leaves(const std::vector<io::Input>& inputs);

/// What --input takes, for the help of each subcommand that has it.
extern const char* const kInputHelp;

}  // namespace precast::cli
