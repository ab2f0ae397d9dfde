#include "artifact/spec.h"

#include <cctype>

#include "util/errors.h"

namespace precast::artifact {
namespace {

using Kind = Tree::Kind;

std::string quoted(std::string_view key) {
  std::string text = "'";
  for (const char c : key) {
    if (c == '\'' || c == '\\') text += '\\';
    text += c;
  }
  return text + "'";
}

bool is_identifier(std::string_view text) {
  if (text.empty() || std::isdigit(static_cast<unsigned char>(text[0]))) return false;
  for (const char c : text)
    if (!std::isalnum(static_cast<unsigned char>(c)) && c != '_' && c != ':') return false;
  return true;
}

struct Parser {
  std::string_view text;
  size_t at = 0;
  int depth = 0;

  [[noreturn]] void fail(std::string_view expected) const {
    throw PrecompileError("structure \"" + std::string(text) + "\", column " + std::to_string(at + 1) + ": expected " +
                          std::string(expected) +
                          (at < text.size() ? ", found '" + std::string(1, text[at]) + "'" : ", found the end"));
  }
  void skip_spaces() {
    while (at < text.size() && text[at] == ' ') ++at;
  }
  bool take(char c) {
    skip_spaces();
    if (at >= text.size() || text[at] != c) return false;
    ++at;
    return true;
  }
  void need(char c) {
    if (!take(c)) fail(std::string("'") + c + "'");
  }
  std::string identifier() {
    skip_spaces();
    const size_t begin = at;
    while (at < text.size() &&
           (std::isalnum(static_cast<unsigned char>(text[at])) || text[at] == '_' || text[at] == ':'))
      ++at;
    if (!is_identifier(text.substr(begin, at - begin))) fail("a name");
    return std::string(text.substr(begin, at - begin));
  }
  std::string key() {
    need('\'');
    std::string result;
    while (at < text.size() && text[at] != '\'') {
      if (text[at] == '\\') ++at;
      if (at < text.size()) result += text[at++];
    }
    need('\'');
    return result;
  }
  void children(Tree& tree, char close, auto&& before_child) {
    if (take(close)) return;
    do {
      if (tree.kind == Kind::tuple && tree.children.size() == 1 && take(close)) return;  // (a,)
      before_child();
      tree.children.push_back(tree_at());
    } while (take(','));
    need(close);
    if (tree.kind == Kind::tuple && tree.children.size() == 1) fail("',' before ')' of a tuple of one");
  }
  Tree tree_at() {
    if (++depth > 200) fail("less nesting (the limit is 200)");
    Tree tree;
    if (take('*')) {
    } else if (take('(')) {
      tree.kind = Kind::tuple;
      children(tree, ')', [] {});
    } else if (take('[')) {
      tree.kind = Kind::list;
      children(tree, ']', [] {});
    } else if (take('{')) {
      tree.kind = Kind::dict;
      children(tree, '}', [&] { tree.keys.push_back(key()), need(':'); });
    } else {
      skip_spaces();
      if (at >= text.size() || !(std::isalpha(static_cast<unsigned char>(text[at])) || text[at] == '_'))
        fail("one of * ( [ { or a name");
      tree.kind = Kind::record;
      tree.name = identifier();
      need('(');
      children(tree, ')', [&] { tree.keys.push_back(identifier()), need('='); });
    }
    --depth;
    return tree;
  }
};

std::string child_place(const Tree& tree, size_t i) {
  if (tree.kind == Kind::record) return "." + tree.keys[i];
  if (tree.kind == Kind::dict) return "[" + quoted(tree.keys[i]) + "]";
  return "[" + std::to_string(i) + "]";
}

void collect_places(const Tree& tree, const std::string& place, std::vector<std::string>& places) {
  if (tree.kind == Kind::leaf) places.push_back(place);
  for (size_t i = 0; i < tree.children.size(); ++i)
    collect_places(tree.children[i], place + child_place(tree, i), places);
}

std::string describe(const Tree& tree) {
  const std::string n = std::to_string(tree.children.size());
  switch (tree.kind) {
    case Kind::leaf:
      return "a single value";
    case Kind::tuple:
      return "a tuple of " + n;
    case Kind::list:
      return "a list of " + n;
    case Kind::dict:
      return "a dict of " + n;
    case Kind::record:
      break;
  }
  return tree.name + " with " + n + " field" + (n == "1" ? "" : "s");
}

}  // namespace

std::string print(const Tree& tree) {
  return print(tree, [] { return "*"; });
}

std::string print(const Tree& tree, const std::function<std::string()>& leaf) {
  static constexpr const char *open[] = {"", "(", "[", "{", "("}, *close[] = {"", ")", "]", "}", ")"};
  if (tree.kind == Kind::leaf) return leaf();
  const auto kind = static_cast<size_t>(tree.kind);
  std::string text = tree.name + open[kind];
  for (size_t i = 0; i < tree.children.size(); ++i) {
    if (i > 0) text += ", ";
    if (tree.kind == Kind::dict) text += quoted(tree.keys[i]) + ": ";
    if (tree.kind == Kind::record) text += tree.keys[i] + "=";
    text += print(tree.children[i], leaf);
  }
  if (tree.kind == Kind::tuple && tree.children.size() == 1) text += ",";
  return text + close[kind];
}

Tree parse_tree(std::string_view text) {
  Parser parser{text};
  Tree tree = parser.tree_at();
  parser.skip_spaces();
  if (parser.at != text.size()) parser.fail("the end");
  return tree;
}

int count_leaves(const Tree& tree) {
  int n = tree.kind == Kind::leaf;
  for (const Tree& child : tree.children) n += count_leaves(child);
  return n;
}

std::vector<std::string> leaf_places(const Tree& tree, std::string_view root) {
  std::vector<std::string> places;
  collect_places(tree, std::string(root), places);
  return places;
}

std::string first_difference(const Tree& expected, const Tree& found, std::string_view root) {
  const std::string place(root);
  if (expected.kind != found.kind || expected.name != found.name || expected.children.size() != found.children.size())
    return place + ": expected " + describe(expected) + ", found " + describe(found);
  for (size_t i = 0; i < expected.keys.size(); ++i)
    if (expected.keys[i] != found.keys[i])
      return place + ": expected " + (expected.kind == Kind::dict ? "key " : "field ") + quoted(expected.keys[i]) +
             " at position " + std::to_string(i) + ", found " + quoted(found.keys[i]);
  for (size_t i = 0; i < expected.children.size(); ++i) {
    std::string below = first_difference(expected.children[i], found.children[i], place + child_place(expected, i));
    if (!below.empty()) return below;
  }
  return {};
}

std::string list_spec(size_t tensors) {
  std::string text = "[";
  for (size_t i = 0; i < tensors; ++i) text += i ? ", *" : "*";
  return text + "]";
}

std::string flat_spec(size_t tensors) { return "(" + list_spec(tensors) + ",)"; }

}  // namespace precast::artifact
