// Structure strings as the flat nodes that the public templates read.
#pragma once
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "artifact/spec.h"
#include "precast/detail/leaf.h"

namespace precast::api {

/// Nodes in depth-first order; keys and names point into the tree, which lives with them.
class StructureNodes {
 public:
  /// One kind per leaf.
  StructureNodes(artifact::Tree tree, std::span<const detail::Kind> leaves);
  const artifact::Tree& tree() const { return *tree_; }
  std::span<const detail::Node> nodes() const { return nodes_; }
  /// The nodes from those of the root's child `i` on.
  std::span<const detail::Node> child(int i) const;

 private:
  void add(const artifact::Tree&, std::string_view key, std::span<const detail::Kind> leaves, size_t& leaf);
  std::unique_ptr<const artifact::Tree> tree_;
  std::vector<detail::Node> nodes_;
};

}  // namespace precast::api
