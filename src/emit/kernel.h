// The text of one kernel: loops, vector statements, stores.
#pragma once
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "ir/choices.h"
#include "loops/fusion.h"

namespace precast::emit {

/// A pointer argument: element `constant` of a buffer.
struct Pointer {
  loops::BufferId buffer = -1;
  ir::Size offset_bytes = 0;
  bool operator==(const Pointer&) const = default;
  std::strong_ordering operator<=>(const Pointer& p) const {  // any order, for sets
    if (buffer != p.buffer) return buffer <=> p.buffer;
    return ir::order(offset_bytes, p.offset_bytes);
  }
};

/// A matrix is packed once for all products that read it; they read `packed`.
struct Packing {
  std::string text;  // KERNEL(host, {packed, source})
  Pointer source;
  loops::BufferId packed = -1;
  bool constant = false;
};

/// How a matrix product reads its second matrix.
struct ProductConfig {
  bool pack_apart = false;  // another product reads the same one
  ir::Choices::Packing packing = ir::Choices::Packing::by_size;
};

struct KernelText {
  std::string text;               // the function is called KERNEL here; equal texts are one function
  std::vector<Pointer> pointers;  // what P[0], P[1], ... are
  bool can_fail = false;          // then comes a precast_fault*
  bool reads_sizes = false;       // and then the values of the symbols
  bool sized_product = false;     // calls the products whose sizes a call decides
  ir::Size workspace_bytes = 0;   // matrix products: before both
  std::optional<Packing> packing;
  double flops = 0, bytes = 0;
};

/// `kept` are the buffers read outside of the kernel: what is not among them need not be stored.
/// Buffers that turn out to need memory all the same stay Place::arena; others become Place::local.
/// `constants` are buffers that depend on parameters and buffers only.
KernelText kernel_text(loops::Kernel, loops::Program&, const std::set<loops::BufferId>& kept,
                       const std::set<loops::BufferId>& constants, const ProductConfig&);

/// The kernel of a step that is a routine.
KernelText routine_text(const loops::Step&, const std::vector<ir::Symbol>&);

}  // namespace precast::emit
