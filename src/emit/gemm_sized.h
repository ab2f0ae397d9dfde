// Matrix products whose sizes or strides are expressions of symbols: see gemm.h. Operands are in memory.
#pragma once
#include <string>

#include "emit/gemm.h"

namespace precast::emit {

std::string sized_kernel(const GemmSpec&);
ir::Size sized_workspace_bytes(const GemmSpec&);

}  // namespace precast::emit
