// A private folder (mode 0700) that is removed with all it holds when the object dies.
#pragma once
#include <filesystem>

namespace precast {

class TempFolder {
 public:
  TempFolder();  // in $TMPDIR or /tmp; throws PrecompileError naming the place and the reason
  ~TempFolder();
  TempFolder(const TempFolder&) = delete;
  TempFolder& operator=(const TempFolder&) = delete;
  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

}  // namespace precast
