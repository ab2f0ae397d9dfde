// Files of this source tree as text (see CMakeLists.txt); artifacts carry a copy of the first two.
#pragma once
#include <string_view>

namespace precast::artifact {
extern const std::string_view kAbiHeader;      // include/precast/artifact_abi.h
extern const std::string_view kDriverText;     // src/artifact/driver.inc
extern const std::string_view kRuntimeHeader;  // include/precast/runtime.h, for its names
}  // namespace precast::artifact
