// What the plugin does for the program; see plugin_abi.h. Failures are exceptions here.
#pragma once
#include "plugin/plugin_abi.h"

namespace precast::plugin {

void capture(const precast_capture_request&);
void check(const precast_check_request&, void (*row)(void* context, const precast_check_row*), void* context);

}  // namespace precast::plugin
