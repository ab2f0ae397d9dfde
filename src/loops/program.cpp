#include "loops/program.h"

namespace precast::loops {

std::vector<ExprId> roots(const Step& s, Exprs& exprs) {
  std::vector<ExprId> r;
  for (const ExprId e : {s.body, s.a, s.b, s.position})
    if (e >= 0) r.push_back(e);
  if (s.buffer >= 0 && !s.at.is_constant()) r.push_back(exprs.index(s.at));
  return r;
}

std::vector<ExprId> loads(const Step& s, Exprs& exprs) {
  std::vector<ExprId> found;
  exprs.visit(roots(s, exprs), [&](ExprId e) {
    if (exprs[e].kind == Expr::Kind::load) found.push_back(e);
  });
  return found;
}

Size volume(const std::vector<Atom>& vars, const Exprs& exprs) {
  Size n = 1;
  for (const Atom v : vars) n *= exprs.extent(v);
  return n;
}

}  // namespace precast::loops
