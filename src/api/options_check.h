// Refuses wrong options with std::invalid_argument that lists the valid ones.
#pragma once
#include "precast/options.h"

namespace precast::api {

void check(const LowerOptions&);
void check(const PairPaths&);

}  // namespace precast::api
