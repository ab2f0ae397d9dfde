// Warnings: one line each, to a sink that the program may replace.
// The default sink writes "precast: <message>" to stderr.
#pragma once
#include <functional>
#include <string_view>

namespace precast {

using WarningSink = std::function<void(std::string_view message)>;

void warn(std::string_view message);
/// Returns the sink that was set before; an empty function restores the default.
WarningSink set_warning_sink(WarningSink);

}  // namespace precast
