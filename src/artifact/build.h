// From a recorded graph and its lowered form to the pair: compose the text, compile it, seal it in the cache.
#pragma once
#include "artifact/compose.h"
#include "artifact/pair.h"

namespace precast::artifact {

/// `emitted` is null for backend="eager". Without a compiler the cache holds no compiled form and a warning says so.
PairBytes build_pair(const Signature&, const ir::Graph& recorded, const emit::Emitted* emitted, const ComposeOptions&);

}  // namespace precast::artifact
