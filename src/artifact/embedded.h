// Files of this source tree as text, for the artifacts that carry a copy (see CMakeLists.txt).
#pragma once
#include <string_view>

namespace precast::artifact {
extern const std::string_view kAbiHeader;   // include/precast/artifact_abi.h
extern const std::string_view kDriverText;  // src/artifact/driver.inc
}  // namespace precast::artifact
