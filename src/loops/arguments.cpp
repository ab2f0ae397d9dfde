// Arguments of a node, by the schema's names.
#include "loops/lowering.h"
#include "util/errors.h"

namespace precast::loops {

namespace {

const ir::Attr& argument(const ir::Node& n, std::string_view arg) {
  const ir::Attr* a = n.find(arg);
  PRECAST_CHECK(a, n.op + " has no argument " + std::string(arg));
  return *a;
}

}  // namespace

ir::ValueId tensor(const ir::Node& n, std::string_view arg) {
  const auto* r = std::get_if<ir::Ref>(&argument(n, arg));
  return r ? r->id : ir::kNoValue;
}

int64_t integer(const ir::Node& n, std::string_view arg) {
  const auto* i = std::get_if<int64_t>(&argument(n, arg));
  return i ? *i : static_cast<int64_t>(number(n, arg));
}

double number(const ir::Node& n, std::string_view arg) {
  const ir::Attr& a = argument(n, arg);
  if (auto* b = std::get_if<bool>(&a)) return *b;
  if (auto* d = std::get_if<double>(&a)) return *d;
  PRECAST_CHECK(std::holds_alternative<int64_t>(a), n.op + ": " + std::string(arg) + " is not a number");
  return static_cast<double>(std::get<int64_t>(a));
}

bool flag(const ir::Node& n, std::string_view arg) { return number(n, arg) != 0; }

std::vector<int64_t> integers(const ir::Node& n, std::string_view arg) {
  const ir::Attr& a = argument(n, arg);
  if (auto* one = std::get_if<int64_t>(&a)) return {*one};
  const auto* list = std::get_if<std::vector<int64_t>>(&a);
  return list ? *list : std::vector<int64_t>{};
}

ir::ValueId result(const ir::Node& n) { return n.outs[0].id; }

}  // namespace precast::loops
