#include "api/structure_nodes.h"

#include "precast/precast.h"
#include "util/errors.h"

namespace precast::api {

using detail::Node;

namespace {

Node::Type type_of(artifact::Tree::Kind kind) {
  switch (kind) {
    case artifact::Tree::Kind::leaf:
      return Node::leaf;
    case artifact::Tree::Kind::tuple:
      return Node::tuple;
    case artifact::Tree::Kind::list:
      return Node::list;
    case artifact::Tree::Kind::dict:
      return Node::dict;
    case artifact::Tree::Kind::record:
      return Node::record;
  }
  internal_error(__FILE__, __LINE__, "a structure node of no kind");
}

}  // namespace

StructureNodes::StructureNodes(artifact::Tree tree, std::span<const detail::Kind> leaves)
    : tree_(std::make_unique<const artifact::Tree>(std::move(tree))) {
  size_t leaf = 0;
  add(*tree_, {}, leaves, leaf);
  PRECAST_CHECK(leaf == leaves.size(), "the structure " + artifact::print(*tree_) + " has " + std::to_string(leaf) +
                                           " leaves, the signature has " + std::to_string(leaves.size()));
}

void StructureNodes::add(const artifact::Tree& tree, std::string_view key, std::span<const detail::Kind> leaves,
                         size_t& leaf) {
  Node node;
  node.type = type_of(tree.kind);
  node.children = static_cast<int>(tree.children.size());
  node.key = key;
  node.name = tree.name;
  if (node.type == Node::leaf) {
    if (leaf < leaves.size()) node.kind = leaves[leaf];
    ++leaf;
  }
  nodes_.push_back(node);
  for (size_t i = 0; i < tree.children.size(); ++i)
    add(tree.children[i], i < tree.keys.size() ? std::string_view(tree.keys[i]) : std::string_view(), leaves, leaf);
}

namespace {
size_t skip(std::span<const Node> nodes, size_t at) {
  size_t next = at + 1;
  for (int c = 0; c < nodes[at].children; ++c) next = skip(nodes, next);
  return next;
}
}  // namespace

std::span<const Node> StructureNodes::child(int i) const {
  size_t at = 1;
  for (; i > 0; --i) at = skip(nodes_, at);
  return std::span(nodes_).subspan(at);
}

}  // namespace precast::api

namespace precast::detail {

void refuse_complex() {
  throw PrecompileError(
      "an argument is a complex number; numbers are conditions, and only bools, ints and floats have a form there: "
      "pass "
      "a tensor");
}

void append_key(std::string_view key, std::string& out) {
  artifact::Tree dict;
  dict.kind = artifact::Tree::Kind::dict;
  dict.keys = {std::string(key)};
  dict.children.emplace_back();
  const std::string text = artifact::print(dict);  // {'key': *}
  out += text.substr(1, text.size() - 5);
}

namespace {

c10::IValue read(Cursor& c) {
  const Node& node = *c.node++;
  switch (node.type) {
    case Node::leaf: {
      ResultLeaf& leaf = *c.leaf++;
      switch (leaf.kind) {
        case Kind::none:
          return {};
        case Kind::boolean:
          return leaf.integer != 0;
        case Kind::integer:
          return leaf.integer;
        case Kind::real:
          return leaf.real;
        case Kind::string:
          return std::string(leaf.text);
        case Kind::tensor:
          return std::move(leaf.tensor);
      }
      break;
    }
    case Node::list: {
      c10::impl::GenericList list(c10::AnyType::get());
      for (int i = 0; i < node.children; ++i) list.push_back(read(c));
      return list;
    }
    case Node::tuple: {
      std::vector<c10::IValue> entries;
      for (int i = 0; i < node.children; ++i) entries.push_back(read(c));
      return c10::ivalue::Tuple::create(std::move(entries));
    }
    case Node::dict:
    case Node::record: {
      c10::impl::GenericDict dict(c10::StringType::get(), c10::AnyType::get());
      for (int i = 0; i < node.children; ++i) {
        std::string key(c.node->key);
        dict.insert(std::move(key), read(c));
      }
      return dict;
    }
  }
  internal_error(__FILE__, __LINE__, "a result leaf of no kind");
}

}  // namespace

c10::IValue to_ivalue(std::span<const Node> structure, std::span<ResultLeaf> leaves) {
  Cursor cursor{structure.data(), leaves.data()};
  return read(cursor);
}

}  // namespace precast::detail
