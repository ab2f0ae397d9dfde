// The C++ compiler of this machine: found, run without a shell, and its messages kept.
#pragma once
#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace precast::artifact {

/// The command of the compiler: $CXX (which may carry arguments: "ccache g++"), else c++, g++, clang++ in PATH.
/// Empty when there is none.
std::vector<std::string> find_compiler();
/// First line of `compiler --version`.
std::string compiler_version(const std::vector<std::string>& compiler);

/// Compiles the text of an artifact to a shared object and returns its bytes. Parts compile in parallel.
/// Throws PrecompileError with the first lines of the compiler's output, or when there is no compiler; messages call
/// the text `name`, if it has one.
std::vector<std::byte> compile_artifact(std::string_view code, const std::vector<std::string>& extra_flags = {},
                                        const std::string& name = {});

}  // namespace precast::artifact
