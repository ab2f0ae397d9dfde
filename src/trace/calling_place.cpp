// Who asked: the op and the user's source line, from the stack.
#include <cxxabi.h>
#include <dlfcn.h>
#include <elf.h>
#include <execinfo.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <map>
#include <memory>
#include <mutex>

#include "trace/symbols.h"

namespace precast::trace {

namespace {

std::string demangled(const char* name) {
  int status = 0;
  const std::unique_ptr<char, void (*)(void*)> text(abi::__cxa_demangle(name, nullptr, nullptr, &status), std::free);
  return status == 0 ? text.get() : name;
}

/// "model.cpp:12" of an address in a binary with debug information; empty where that is not known.
std::string source_line(const char* binary, uintptr_t offset) {
  const std::string path = binary;
  if (path.find('\'') != path.npos) return {};
  std::array<char, 512> line{};
  std::array<char, 32> hex{};
  std::snprintf(hex.data(), hex.size(), "0x%zx", static_cast<size_t>(offset));
  const std::unique_ptr<FILE, int (*)(FILE*)> out(
      popen(("addr2line -e '" + path + "' " + hex.data() + " 2>/dev/null").c_str(), "r"), pclose);
  if (!out || !std::fgets(line.data(), line.size(), out.get())) return {};
  std::string text = line.data();
  text = text.substr(0, text.find_first_of(" \n"));
  return text.starts_with("?") || text.ends_with(":?") || text.ends_with(":0") ? "" : text;
}

bool holds(const std::string& text, std::initializer_list<const char*> words) {
  for (const char* w : words)
    if (text.find(w) != text.npos) return true;
  return false;
}

/// Functions of a binary by their offset, those of no dynamic symbol included.
class Functions {
 public:
  explicit Functions(const char* path) {
    std::ifstream file(path, std::ios::binary);
    const auto read = [&](uint64_t at, void* to, size_t size) {
      file.seekg(static_cast<std::streamoff>(at));
      return static_cast<bool>(file.read(static_cast<char*>(to), static_cast<std::streamsize>(size)));
    };
    Elf64_Ehdr header{};
    if (!read(0, &header, sizeof header) || std::memcmp(header.e_ident, ELFMAG, SELFMAG) != 0 ||
        header.e_ident[EI_CLASS] != ELFCLASS64 || header.e_shentsize != sizeof(Elf64_Shdr))
      return;
    is_fixed_ = header.e_type == ET_EXEC;
    std::vector<Elf64_Shdr> sections(header.e_shnum);
    if (!read(header.e_shoff, sections.data(), sections.size() * sizeof(Elf64_Shdr))) return;
    for (const Elf64_Shdr& table : sections) {
      if (table.sh_type != SHT_SYMTAB || table.sh_link >= sections.size()) continue;
      std::vector<Elf64_Sym> symbols(table.sh_size / sizeof(Elf64_Sym));
      const Elf64_Shdr& text = sections[table.sh_link];
      std::vector<char> names(text.sh_size + 1);
      if (!read(table.sh_offset, symbols.data(), symbols.size() * sizeof(Elf64_Sym)) ||
          !read(text.sh_offset, names.data(), text.sh_size))
        return;
      for (const Elf64_Sym& s : symbols)
        if (ELF64_ST_TYPE(s.st_info) == STT_FUNC && s.st_size && s.st_name < text.sh_size)
          functions_[s.st_value] = {s.st_size, names.data() + s.st_name};
    }
  }
  std::string name(uintptr_t offset, uintptr_t base) const {
    const uintptr_t value = is_fixed_ ? offset + base : offset;
    auto at = functions_.upper_bound(value);
    if (at == functions_.begin()) return {};
    --at;
    return value < at->first + at->second.first ? demangled(at->second.second.c_str()) : "";
  }

 private:
  bool is_fixed_ = false;
  std::map<uintptr_t, std::pair<uint64_t, std::string>> functions_;
};

std::string function_at(const Dl_info& info, uintptr_t offset) {
  if (info.dli_sname) return demangled(info.dli_sname);
  static std::mutex mutex;
  static std::map<std::string, Functions> binaries;
  std::lock_guard lock(mutex);
  return binaries.try_emplace(info.dli_fname, info.dli_fname)
      .first->second.name(offset, reinterpret_cast<uintptr_t>(info.dli_fbase));
}

/// f(name, binary, offset) for each caller, innermost first; f returns false to stop.
template <class F>
void for_each_caller(F&& f) {
  std::array<void*, 128> frames{};
  const int n = backtrace(frames.data(), static_cast<int>(frames.size()));
  for (int i = 1; i < n; ++i) {
    void* frame = frames[static_cast<size_t>(i)];
    Dl_info info{};
    if (!dladdr(frame, &info) || !info.dli_fname) continue;
    const auto offset = reinterpret_cast<uintptr_t>(frame) - 1 - reinterpret_cast<uintptr_t>(info.dli_fbase);
    if (!f(function_at(info, offset), info.dli_fname, offset)) return;
  }
}

std::string op_of(const std::string& function) {
  constexpr std::string_view kOps = "at::_ops::";
  const size_t at = function.find(kOps);
  if (at == function.npos) return {};
  const size_t begin = at + kOps.size();
  return "aten::" + function.substr(begin, function.find("::", begin) - begin);
}

}  // namespace

std::string calling_op() {
  std::string op;
  for_each_caller([&](const std::string& name, const char*, uintptr_t) { return (op = op_of(name)).empty(); });
  return op;
}

/// As people call it: without parameters, and a lambda by where it stands.
static std::string short_name(const std::string& function) {
  const size_t lambda = function.find("::{lambda"), end = function.find('(');
  return lambda == function.npos ? function.substr(0, end) : "a lambda in " + function.substr(0, std::min(lambda, end));
}

bool is_called_by(std::string_view function) {
  bool found = false;
  for_each_caller([&](const std::string& name, const char*, uintptr_t) {
    found = name.find(function) != name.npos;
    return !found && op_of(name).empty() && name.find("precast::trace::record") == name.npos;
  });
  return found;
}

std::string calling_optimizer() {
  constexpr std::string_view kOptimizers = "torch::optim::";
  std::string found;
  for_each_caller([&](const std::string& name, const char*, uintptr_t) {
    const size_t at = name.find(kOptimizers), end = at == name.npos ? at : name.find("::step", at);
    if (end != name.npos) found = name.substr(at, end - at);
    return found.empty() && name.find("precast::trace::record") == name.npos;
  });
  return found;
}

std::string calling_place() {
  std::string op, place, function, own;
  for_each_caller([&](std::string name, const char* binary, uintptr_t offset) {
    if (name.starts_with("void ")) name.erase(0, 5);
    if (op.empty() && function.empty()) op = op_of(name);
    if (function.empty() && name.starts_with("torch::nn::")) function = short_name(name);
    if (holds(binary, {"/libtorch", "/libc10", "/libstdc++", "/libc.so"}) || name.starts_with("precast::trace::") ||
        name.starts_with("c10::") || name.starts_with("at::") || name.starts_with("torch::"))
      return true;
    if (own.empty()) own = name;
    place = source_line(binary, offset);
    if (holds(place, {"src/trace/", "/c10/", "/ATen/", "include/torch/", "/c++/"})) place.clear();
    return place.empty();
  });
  if (!place.empty()) place = place.substr(place.rfind('/') + 1);
  if (op.empty()) op = function;
  return (op.empty() ? "" : " in " + op) + (!place.empty() ? " at " + place
                                            : own.empty()  ? ""
                                                           : " called by " + short_name(own));
}

}  // namespace precast::trace
