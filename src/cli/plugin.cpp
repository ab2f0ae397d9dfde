#include "cli/plugin.h"

#include <dlfcn.h>

#include <algorithm>
#include <filesystem>
#include <stdexcept>
#include <vector>

#include "precast/error.h"

namespace precast::cli {
namespace {

namespace fs = std::filesystem;

std::vector<fs::path> possible_places() {
  const fs::path here = fs::read_symlink("/proc/self/exe").parent_path();
  return {here / PRECAST_PLUGIN_FILE, here.parent_path() / "lib" / PRECAST_PLUGIN_FILE};
}

const precast_plugin& load(const std::string& why) {
  const std::vector<fs::path> places = possible_places();
  for (const fs::path& place : places) {
    if (!fs::exists(place)) continue;
    void* library = ::dlopen(place.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (!library)
      throw PrecompileError(why + " needs LibTorch, and the plugin that brings it cannot be loaded: " + ::dlerror() +
                            ". If LibTorch has moved, put its lib folder into LD_LIBRARY_PATH");
    auto* entry = reinterpret_cast<precast_plugin_entry>(::dlsym(library, PRECAST_PLUGIN_ENTRY));
    if (!entry) throw PrecompileError(place.string() + " is not a plugin of precast");
    const precast_plugin& plugin = *entry();
    if (plugin.abi_version != PRECAST_PLUGIN_VERSION || plugin.struct_size < sizeof(precast_plugin))
      throw PrecompileError(place.string() + " belongs to another version of precast: found interface " +
                            std::to_string(plugin.abi_version) + ", expected " +
                            std::to_string(PRECAST_PLUGIN_VERSION));
    return plugin;
  }
  throw PrecompileError(why + " needs LibTorch, and its plugin was found neither at " + places[0].string() +
                        " nor at " + places[1].string() + ". Install precast with LibTorch (see README)");
}

}  // namespace

const precast_plugin& torch_plugin(const std::string& why) {
  static const precast_plugin& plugin = load(why);
  return plugin;
}

bool has_torch_plugin() {
  const auto places = possible_places();
  return std::any_of(places.begin(), places.end(), [](const fs::path& place) { return fs::exists(place); });
}

void check_plugin(const precast_plugin& plugin, int code) {
  if (code == 2) throw std::invalid_argument(plugin.last_error());
  if (code != 0) throw PrecompileError(plugin.last_error());
}

}  // namespace precast::cli
