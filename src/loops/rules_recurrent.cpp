// Recurrent layers.
#include "loops/lowering.h"

namespace precast::loops {

void add_recurrent_rules(Rules&) {}

}  // namespace precast::loops
