// What is timed besides the real models: small functions in the form of models/workload.h.
#pragma once
#include "models/workload.h"

namespace precast::bench {

const std::vector<demo::Workload>& cases();

}  // namespace precast::bench
