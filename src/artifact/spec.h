// Structure strings, the IN_SPEC and OUT_SPEC of an artifact: how leaves nest.
//   *   (a, b)   (a,)   [a, b]   {'k': a}   Name(field=a, field2=b)
// A leaf is `*`. The text is canonical: print(parse(t)) == t, so equal structures have equal strings.
#pragma once
#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace precast::artifact {

struct Tree {
  enum class Kind { leaf, tuple, list, dict, record } kind = Kind::leaf;
  std::string name;               // record
  std::vector<std::string> keys;  // dict and record, one per child
  std::vector<Tree> children;
  bool operator==(const Tree&) const = default;
};

std::string print(const Tree&);
/// The same with words for the leaves, which are asked for in depth-first order.
std::string print(const Tree&, const std::function<std::string()>& leaf);
/// Throws PrecompileError naming the column and what was expected.
Tree parse_tree(std::string_view text);
int count_leaves(const Tree&);
/// The place of each leaf, in depth-first order: "[0]['mask'].field", prefixed by `root`.
std::vector<std::string> leaf_places(const Tree&, std::string_view root);

/// Says in words where two structures first differ: "argument 1: expected a list of 2, found a list of 3".
/// Empty when they are equal. `root` names the whole.
std::string first_difference(const Tree& expected, const Tree& found, std::string_view root);

/// "[*, *]": one list of so many tensors.
std::string list_spec(size_t tensors);
/// "([*, *],)": such a list is the only argument.
std::string flat_spec(size_t tensors);

}  // namespace precast::artifact
