// What the compiler decides by rules of thumb, and a measurement on the machine can decide better.
#pragma once

namespace precast::ir {

struct Choices {
  bool epilogues = true;       // what follows a matrix product element by element runs in its kernel
  bool joint_products = true;  // independent products with one matrix are one
  bool free_layouts = true;    // values inside the graph lie as the products leave them
  bool padded_rows = false;    // rows of such values do not begin whole pages apart: those share the cache's sets
  enum class Packing { by_size, always, never } packing = Packing::by_size;  // of a product's second matrix

  bool operator==(const Choices&) const = default;
};

}  // namespace precast::ir
