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

Size integer(const ir::Node& n, std::string_view arg) {
  const auto i = ir::as_size(argument(n, arg));
  return i ? *i : Size(static_cast<int64_t>(number(n, arg)));
}

double number(const ir::Node& n, std::string_view arg) {
  const ir::Attr& a = argument(n, arg);
  if (auto* b = std::get_if<bool>(&a)) return *b;
  if (auto* d = std::get_if<double>(&a)) return *d;
  const auto i = ir::as_size(a);
  PRECAST_CHECK(i, n.op + ": " + std::string(arg) + " is not a number");
  return static_cast<double>(*i);
}

bool flag(const ir::Node& n, std::string_view arg) { return number(n, arg) != 0; }

Dims integers(const ir::Node& n, std::string_view arg) {
  const ir::Attr& a = argument(n, arg);
  if (const auto one = ir::as_size(a)) return {*one};
  return ir::as_dims(a).value_or(Dims{});
}

ir::ValueId result(const ir::Node& n) { return n.outs[0].id; }

}  // namespace precast::loops
