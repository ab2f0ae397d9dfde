// The table of functions that the program takes from this library.
#include <c10/util/Exception.h>
#include <torch/version.h>

#include <exception>
#include <memory>
#include <stdexcept>
#include <string>

#include "host_torch/save_weights.h"
#include "plugin/commands.h"
#include "plugin/host_ops.h"
#include "plugin/plugin_abi.h"
#include "plugin/script.h"

namespace precast::plugin {
namespace {

thread_local std::string last_error;

// Exceptions end here: nothing of C++ crosses the interface.
template <class F>
int guarded(F&& f) {
  try {
    f();
    return 0;
  } catch (const std::invalid_argument& e) {
    last_error = e.what();
    return 2;
  } catch (const c10::Error& e) {
    last_error = e.what_without_backtrace();
  } catch (const std::exception& e) {
    last_error = e.what();
  } catch (...) {
    last_error = "an unknown error";
  }
  return 1;
}

const precast_plugin kPlugin = {
    PRECAST_PLUGIN_VERSION,
    sizeof(precast_plugin),
    TORCH_VERSION,
    [] { return last_error.c_str(); },
    [](const precast_capture_request* request) { return guarded([&] { capture(*request); }); },
    [](const precast_callable* callable, const char* out_path, precast_i32* n) {
      return guarded([&] { *n = host_torch::save_weights({nullptr, &Script(*callable).module()}, out_path); });
    },
    [](const precast_check_request* request, void (*row)(void*, const precast_check_row*), void* context) {
      return guarded([&] { check(*request, row, context); });
    },
    [](const char* artifact_path) {
      void* made = nullptr;
      guarded([&] { made = new HostOps(artifact_path); });
      return made;
    },
    [](void* context, precast_i32 index, const precast_i64* symbols, void* const* in, void** out) {
      return guarded([&] { static_cast<HostOps*>(context)->run(index, symbols, in, out); });
    },
    [](void* context) { delete static_cast<HostOps*>(context); },
};

}  // namespace
}  // namespace precast::plugin

extern "C" const precast_plugin* precast_torch_plugin(void) { return &precast::plugin::kPlugin; }
