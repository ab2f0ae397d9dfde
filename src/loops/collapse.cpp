// Merging of loops: (a, b) becomes one variable where each access has coefficient(a) = coefficient(b) * extent(b).
#include <algorithm>

#include "loops/fusion.h"

namespace precast::loops {

namespace {

/// All indices that occur in the steps.
std::vector<Index> accesses(const std::vector<Step*>& steps, Exprs& exprs) {
  std::vector<Index> found;
  std::vector<ExprId> all;
  for (const Step* s : steps) {
    found.push_back(s->at);
    for (const ExprId e : roots(*s, exprs)) all.push_back(e);
  }
  exprs.visit(all, [&](ExprId e) { found.push_back(exprs[e].at); });
  std::sort(found.begin(), found.end());
  found.erase(std::unique(found.begin(), found.end()), found.end());
  return found;
}

}  // namespace

void substitute(Step& s, Exprs& exprs, const Exprs::Variables& f) {
  for (ExprId* e : {&s.body, &s.a, &s.b, &s.position})
    if (*e >= 0) *e = exprs.substitute(*e, f);
  s.at = exprs.substitute(s.at, f);
}

void collapse(std::vector<Step*> steps, std::vector<std::vector<Atom>*> groups, Exprs& exprs) {
  std::vector<Index> all = accesses(steps, exprs);
  const auto mergeable = [&](Atom a, Atom b) {
    return std::all_of(all.begin(), all.end(),
                       [&](const Index& e) { return e.coefficient(a) == e.coefficient(b) * exprs.extent(b); });
  };
  for (std::vector<Atom>* group : groups) {
    for (bool again = true; again;) {
      again = false;
      for (const Atom a : *group) {
        for (const Atom b : *group) {
          if (a == b || !mergeable(a, b)) continue;
          const Atom both = exprs.variable(exprs.extent(a) * exprs.extent(b));
          const Exprs::Variables f = [=](Atom x) -> std::optional<Index> {
            if (x == a) return Index(0);
            if (x == b) return Index::atom(both);
            return std::nullopt;
          };
          for (Step* s : steps) {
            substitute(*s, exprs, f);
            for (std::vector<Atom>* list : {&s->space, &s->reduced}) {
              const auto has = [&](Atom x) { return std::find(list->begin(), list->end(), x) != list->end(); };
              if (!has(a) && !has(b)) continue;
              std::replace(list->begin(), list->end(), b, both);
              std::erase(*list, a);
            }
          }
          std::replace(group->begin(), group->end(), b, both);
          std::erase(*group, a);
          all = accesses(steps, exprs);
          again = true;
          break;
        }
        if (again) break;
      }
    }
  }
}

}  // namespace precast::loops
