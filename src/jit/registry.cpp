// Compiled functions of the process, by the type of the callable: functions of one type share what is compiled.
#include <cxxabi.h>

#include <cstdlib>
#include <map>
#include <mutex>
#include <typeindex>

#include "host_torch/step_memory.h"
#include "jit/compiled_function.h"
#include "precast/compile.h"
#include "trace/dispatch.h"
#include "util/sha256.h"

namespace precast {
namespace {

struct Registry {
  std::mutex mutex;
  std::map<std::tuple<std::type_index, const void*, std::string>, detail::CompiledPtr> shared;
  std::vector<std::weak_ptr<detail::CompiledFunction>> all;

  std::vector<detail::CompiledPtr> living() {
    const std::lock_guard lock(mutex);
    std::vector<detail::CompiledPtr> list;
    for (const auto& weak : all)
      if (auto f = weak.lock()) list.push_back(std::move(f));
    std::erase_if(all, [](const auto& weak) { return weak.expired(); });
    return list;
  }
};
/// Never destroyed: calls may come while the process ends. What is being compiled is waited for.
Registry& registry() {
  static Registry& r = *[] {
    sha256_hex("");  // libcrypto tidies up at exit, too: it must have registered for that before, to come after
    std::atexit([] {
      for (const auto& f : registry().living()) f->wait();
    });
    return new Registry;
  }();
  return r;
}

std::string readable(const std::string& mangled) {
  int status = 0;
  char* const text = abi::__cxa_demangle(mangled.c_str(), nullptr, nullptr, &status);
  std::string name = status == 0 ? text : mangled;
  std::free(text);  // NOLINT: as the ABI asks
  return name;
}

}  // namespace

namespace detail {

CompiledPtr compiled_function(const CallableIdentity& id, const CompileOptions& options) {
  jit::Settings settings = jit::settle(options);
  Registry& r = registry();
  const std::string name = readable(id.name);
  const std::lock_guard lock(r.mutex);
  const bool own = !id.code || (options.backend && options.backend->function());
  const auto key = std::make_tuple(std::type_index(id.code ? *id.code : typeid(void)), id.address, settings.key);
  if (const auto known = r.shared.find(key); !own && known != r.shared.end()) return known->second;
  if (settings.async && !settings.disable) {
    try {
      trace::prepare_recording();  // no call shall wait for it
    } catch (const PrecompileError&) {
      // The first recording says so.
    }
  }
  auto made = std::make_shared<CompiledFunction>(name, std::move(settings));
  if (!own) r.shared.emplace(key, made);
  r.all.push_back(made);
  return made;
}

bool call(CompiledFunction& f, const Arguments& a, std::span<const std::byte> closure, const EagerCall& eager,
          CompiledResult& out) {
  return f.call(a, closure, eager, out);
}
void call_unseen(CompiledFunction& f, const EagerCall& eager, const std::string& why) { f.call_unseen(eager, why); }
std::string explain(const CompiledFunction& f) { return f.explain(); }

void disabled_call() { trace::refuse_recording("it calls a function that is disabled (precast::disable)"); }

}  // namespace detail

void reset() {
  for (const auto& f : registry().living()) f->reset();
}
void cudagraph_mark_step_begin() { host_torch::begin_step(); }
bool is_compiling() { return trace::is_recording(); }

}  // namespace precast
