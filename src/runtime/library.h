// A shared object loaded from memory.
#pragma once
#include <cstddef>
#include <span>
#include <string>

namespace precast::runtime {

class Library {
 public:
  Library() = default;
  /// Throws PrecompileError with the loader's reason.
  explicit Library(std::span<const std::byte> shared_object);
  ~Library();
  Library(Library&&) noexcept;
  Library& operator=(Library&&) noexcept;
  void* symbol(const std::string& name) const;  // null if absent

 private:
  void* handle_ = nullptr;
};

}  // namespace precast::runtime
