#include "util/temp_folder.h"

#include <stdlib.h>

#include <cerrno>
#include <cstring>
#include <string>

#include "precast/error.h"

namespace precast {

TempFolder::TempFolder() {
  const char* chosen = std::getenv("TMPDIR");
  std::string name = std::string(chosen && *chosen ? chosen : "/tmp") + "/precast-XXXXXX";
  if (::mkdtemp(name.data()) == nullptr)
    throw PrecompileError("cannot make a temporary folder " + name + ": " + std::strerror(errno) +
                          ". Set TMPDIR to a folder that can be written.");
  path_ = name;
}

TempFolder::~TempFolder() {
  std::error_code ignored;
  std::filesystem::remove_all(path_, ignored);
}

}  // namespace precast
