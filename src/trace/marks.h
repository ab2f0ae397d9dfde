// The marks that callers put on tensors (precast/dynamic.h), by object.
#pragma once
#include <map>

#include "precast/dynamic.h"

namespace precast::trace {

struct Marks {
  std::map<int64_t, Mark> unbacked;  // by dim
  bool dynamic = false;              // mark_dynamic
  bool any() const { return dynamic || !unbacked.empty(); }
};
Marks marks_of(const at::Tensor&);
void set_marks(const at::Tensor&, Marks);

}  // namespace precast::trace
