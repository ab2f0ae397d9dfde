// Compiles emitted text as an artifact would (in the section of one instruction set) and loads it, for tests.
#pragma once
#include <dlfcn.h>

#include <cstdlib>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "artifact/embedded.h"
#include "emit/preamble.h"
#include "precast/artifact_abi.h"
#include "scratch.h"

struct Section {
  const char* name;
  const char* target;
  int isa, vector_bytes;
};
inline const Section kBaseline{"baseline", "", 0, 16};
inline const Section kAvx2{"avx2", "avx2,fma,f16c", 2, 32};
inline const Section kAvx512{"avx512", "avx512f,avx512bw,avx512dq,avx512vl,avx2,fma,f16c", 3, 64};

/// The sections this CPU runs.
inline std::vector<Section> sections() {
  std::vector<Section> all{kBaseline};
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) all.push_back(kAvx2);
  if (__builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq"))
    all.push_back(kAvx512);
  return all;
}
inline std::vector<std::string> compilers() {
  std::vector<std::string> found;
  for (const char* name : {"g++", "clang++"})
    if (std::system((std::string("command -v ") + name + " > /dev/null").c_str()) == 0) found.push_back(name);
  return found;
}

inline std::string in_section(const Section& s, const std::string& body) {
  const std::string target = s.target;
  std::string text = std::string(precast::artifact::kAbiHeader) + "#define PRECAST_ISA " + std::to_string(s.isa) +
                     "\n#define PRECAST_VECTOR_BYTES " + std::to_string(s.vector_bytes) + "\n";
  if (!target.empty())
    text += "#if defined(__clang__)\n#pragma clang attribute push(__attribute__((target(\"" + target +
            "\"))), apply_to = function)\n#else\n#pragma GCC push_options\n#pragma GCC target(\"" + target +
            "\")\n#endif\n";
  text += "namespace precast_" + std::string(s.name) + " {\n" + std::string(precast::emit::preamble()) + body + "}\n";
  if (!target.empty())
    text += "#if defined(__clang__)\n#pragma clang attribute pop\n#else\n#pragma GCC pop_options\n#endif\n";
  return text;
}

/// `body` stands in the section after the preamble; what it exports is extern "C".
class Kernels {
 public:
  Kernels(const Section& section, const std::string& compiler, const std::string& body,
          const std::string& flags = "-O3") {
    scratch_.write("kernels.cpp", in_section(section, body));
    const std::string at = scratch_.path.string() + "/";
    const std::string command = compiler + " " + flags + " -Wall -Wextra -shared -fPIC " + at + "kernels.cpp -o " + at +
                                "kernels.so 2> " + at + "log";
    const bool failed = std::system(command.c_str()) != 0;
    log = scratch_.read("log");
    if (failed) throw std::runtime_error(command + "\n" + log.substr(0, 4000));
    handle_ = dlopen((at + "kernels.so").c_str(), RTLD_NOW | RTLD_LOCAL);
    if (!handle_) throw std::runtime_error(dlerror());
  }
  Kernels(const Kernels&) = delete;
  Kernels& operator=(const Kernels&) = delete;
  ~Kernels() { dlclose(handle_); }

  template <class F>
  F* get(const std::string& name) const {
    void* symbol = dlsym(handle_, name.c_str());
    if (!symbol) throw std::runtime_error("no symbol " + name);
    return reinterpret_cast<F*>(symbol);
  }
  std::string library() const { return (scratch_.path / "kernels.so").string(); }

  std::string log;  // the compiler's warnings

 private:
  Scratch scratch_;
  void* handle_ = nullptr;
};

/// A host with nothing but threads.
struct ThreadHost : precast_host {
  explicit ThreadHost(int threads) : precast_host{} {
    num_threads = threads;
    context = this;
    parallel_for = [](void* context, precast_i64 count, precast_i64 grain, void (*fn)(void*, precast_i64, precast_i64),
                      void* arg) {
      const precast_i64 most = (count + grain - 1) / grain, threads = static_cast<ThreadHost*>(context)->num_threads;
      const precast_i64 pieces = most < threads ? most : threads;
      std::vector<std::thread> others;
      for (precast_i64 i = 1; i < pieces; ++i)
        others.emplace_back([=] { fn(arg, count * i / pieces, count * (i + 1) / pieces); });
      fn(arg, 0, count / pieces);
      for (std::thread& t : others) t.join();
    };
  }
};
