#include "loops/fusion.h"

#include <algorithm>
#include <map>
#include <queue>
#include <set>

#include "util/errors.h"

namespace precast::loops {

namespace {

using Mapping = std::map<Atom, Index>;
using Atoms = std::set<Atom>;

Atoms atoms(const Index& e) {
  Atoms found;
  for (const auto& [a, c] : e.terms) found.insert(a);
  return found;
}
Atoms as_set(const std::vector<Atom>& v) { return {v.begin(), v.end()}; }

Exprs::Variables lookup(const Mapping& m) {
  return [&m](Atom a) -> std::optional<Index> {
    const auto it = m.find(a);
    return it == m.end() ? std::nullopt : std::optional(it->second);
  };
}

/// Whether no two points of the variables give one value: each step is longer than all smaller ones together reach.
bool takes_each_value_once(const Index& e, const Exprs& exprs) {
  auto terms = e.terms;
  const auto length = [](const Size& c) { return c.lower() < 0 ? -c : c; };
  std::sort(terms.begin(), terms.end(),
            [&](auto& x, auto& y) { return ir::roughly_less(length(x.second), length(y.second)); });
  Size reach = 0;
  for (const auto& [a, c] : terms) {
    const std::vector<int> positive = positive_symbols(e, 1, exprs.extent_of());
    if (exprs.extent(a) != 1 && exprs.extent(a) != 0 && !ir::always_at_least(length(c), reach + 1, positive))
      return false;
    reach += length(c) * (exprs.extent(a) - 1);
  }
  return true;
}

/// Variables of `f` as functions of those of `g` so that f = g: each point of f's for one of g's.
std::optional<Mapping> solve(const Index& f, const Index& g, const Exprs& exprs) {
  if (f.constant != g.constant) return std::nullopt;
  Size points = 1;
  for (const auto& [a, c] : g.terms) {
    if (a < 0) return std::nullopt;
    points *= exprs.extent(a);
  }
  if (!takes_each_value_once(g, exprs)) return std::nullopt;  // windows that overlap: points would be left out
  auto terms = f.terms;
  std::sort(terms.begin(), terms.end(), [](auto& x, auto& y) { return ir::roughly_less(y.second, x.second); });
  Mapping found;
  Index rest = g - Index(g.constant);
  Size own = 1;
  for (const auto& [a, c] : terms) {
    if (a < 0 || c == 0 || c.lower() < 0) return std::nullopt;
    own *= exprs.extent(a);
    const auto q = floor_div(rest, c, exprs.extent_of());
    if (!q) return std::nullopt;
    const Range r = range(*q, exprs.extent_of());
    const std::vector<int> positive = positive_symbols(g, exprs.extent(a), exprs.extent_of());
    if (!ir::always_at_least(r.low, 0, positive) || !ir::always_at_least(exprs.extent(a) - 1, r.high, positive))
      return std::nullopt;
    found[a] = *q;
    rest = rest - *q * c;
  }
  if (rest != Index(0) || own != points) return std::nullopt;
  return found;
}

/// Row-major position over the variables.
Index position(const std::vector<Atom>& vars, const Exprs& exprs) {
  Index at;
  for (const Atom v : vars) at = at * exprs.extent(v) + Index::atom(v);
  return at;
}

bool fusible(const Step& s) { return s.kind == Step::Kind::map || s.kind == Step::Kind::reduce; }

class Fusion {
 public:
  Fusion(Program& p, bool epilogues) : program_(p), exprs_(p.exprs), epilogues_(epilogues) {}

  std::vector<Kernel> run() {
    for (int i = 0; i < static_cast<int>(program_.steps.size()); ++i) {
      const Step& s = program_.steps[static_cast<size_t>(i)];
      if (s.buffer >= 0) writers_[s.buffer].push_back(i);
      for (const BufferId b : s.results) writers_[b].push_back(i);
    }
    for (int i = 0; i < static_cast<int>(program_.steps.size()); ++i) place(i);
    return ordered();
  }

 private:
  /// A value the step and the kernel both address: where each does.
  struct Link {
    Index in_step, in_kernel;
    bool produced;
  };

  std::set<int> dependencies(int i) {
    const Step& s = program_.steps[static_cast<size_t>(i)];
    std::set<int> found(s.after.begin(), s.after.end());
    const auto reads = [&](BufferId b) {
      for (const int w : writers_[b])
        if (w < i) found.insert(w);
    };
    for (const ExprId e : loads(s, exprs_)) reads(exprs_[e].buffer);
    for (const HostOperand& o : s.operands) reads(o.buffer);
    return found;
  }

  void place(int i) {
    Step s = program_.steps[static_cast<size_t>(i)];
    std::set<int> needs;  // kernels
    for (const int d : dependencies(i)) needs.insert(kernel_of_[static_cast<size_t>(d)]);
    if (fusible(s)) {
      const Step apart = s;  // in its own variables: some kernels walk these otherwise
      collapse({&s}, {&s.space, &s.reduced}, exprs_);
      const bool collapsed = s.space.size() != apart.space.size() || s.reduced.size() != apart.reduced.size();
      for (const int k : candidates(s, needs)) {
        if (!allowed(k, needs)) continue;
        Kernel& kernel = kernels_[static_cast<size_t>(k)];
        if (!merge(kernel, s, i) && !(collapsed && merge(kernel, apart, i))) continue;
        needs.erase(k);
        needs_[static_cast<size_t>(k)].insert(needs.begin(), needs.end());
        wait(k, needs);
        note(s, k);
        return;
      }
    }
    Kernel fresh;
    fresh.outer = s.space, fresh.inner = s.reduced;
    if (s.kind == Step::Kind::matmul) fresh.inner.clear();
    if (s.kind == Step::Kind::write) {  // rows that a variable tells apart are independent
      std::erase_if(fresh.outer, [&](Atom v) { return s.at.coefficient(v) == 0; });
      for (const Atom v : s.space)
        if (s.at.coefficient(v) == 0) fresh.inner.push_back(v);
    }
    fresh.steps.push_back(s);
    fresh.ids.push_back(i);
    kernels_.push_back(std::move(fresh));
    needs_.push_back(needs);
    level_.push_back(0), users_.emplace_back();
    wait(static_cast<int>(kernels_.size()) - 1, needs);
    note(s, static_cast<int>(kernels_.size()) - 1);
  }

  /// Kernel k comes after these.
  void wait(int k, const std::set<int>& needs) {
    std::vector<int> open = {k};
    for (const int n : needs) {
      users_[static_cast<size_t>(n)].push_back(k);
      level_[static_cast<size_t>(k)] = std::max(level_[static_cast<size_t>(k)], level_[static_cast<size_t>(n)] + 1);
    }
    while (!open.empty()) {
      const int n = open.back();
      open.pop_back();
      for (const int u : users_[static_cast<size_t>(n)]) {
        if (level_[static_cast<size_t>(u)] > level_[static_cast<size_t>(n)]) continue;
        level_[static_cast<size_t>(u)] = level_[static_cast<size_t>(n)] + 1;
        open.push_back(u);
      }
    }
  }

  void note(const Step& s, int kernel) {
    kernel_of_.push_back(kernel);
    for (const ExprId e : loads(s, exprs_)) {
      auto& list = readers_[exprs_[e].buffer];
      if (list.empty() || list.back() != kernel) list.push_back(kernel);
    }
  }

  /// Kernels of producers, products and the latest first, then those that read the same buffers.
  std::vector<int> candidates(const Step& s, const std::set<int>& needs) {
    std::vector<int> found(needs.rbegin(), needs.rend());
    std::set<int, std::greater<>> siblings;
    for (const ExprId e : loads(s, exprs_)) {
      const auto& list = readers_[exprs_[e].buffer];
      const size_t first = list.size() > 4 ? list.size() - 4 : 0;
      siblings.insert(list.begin() + static_cast<std::ptrdiff_t>(first), list.end());
    }
    for (const int k : siblings)
      if (!needs.contains(k)) found.push_back(k);
    // Where a product and something small are read, what follows belongs to the product.
    std::stable_partition(found.begin(), found.end(),
                          [&](int k) { return kernels_[static_cast<size_t>(k)].steps[0].kind == Step::Kind::matmul; });
    if (found.size() > 12) found.resize(12);
    return found;
  }

  /// No way from kernel k through another kernel to the step.
  bool allowed(int k, const std::set<int>& needs) {
    std::vector<int> open;
    std::set<int> seen;
    const auto see = [&](int n) {  // only what has a higher level may come after k
      if (level_[static_cast<size_t>(n)] > level_[static_cast<size_t>(k)] && seen.insert(n).second) open.push_back(n);
    };
    for (const int n : needs) see(n);
    while (!open.empty()) {
      const int n = open.back();
      open.pop_back();
      for (const int m : needs_[static_cast<size_t>(n)]) {
        if (m == k) return false;
        see(m);
      }
    }
    return true;
  }

  std::vector<Link> links(const Kernel& k, const Step& s) {
    std::vector<Link> found;
    const std::vector<ExprId> own = loads(s, exprs_);
    for (const Step& p : k.steps)
      for (const ExprId e : own)
        if (exprs_[e].buffer == p.buffer) found.push_back({exprs_[e].at, p.at, true});
    if (k.steps[0].kind != Step::Kind::matmul)
      for (const Step& p : k.steps)
        for (const ExprId o : loads(p, exprs_))
          for (const ExprId e : own)
            if (exprs_[e].buffer == exprs_[o].buffer)  // where in the buffer is of no matter
              found.push_back({exprs_[e].at - exprs_[e].at.constant, exprs_[o].at - exprs_[o].at.constant, false});
    std::stable_sort(found.begin(), found.end(), [](const Link& a, const Link& b) {
      return std::pair(!a.produced, -static_cast<int>(a.in_kernel.terms.size())) <
             std::pair(!b.produced, -static_cast<int>(b.in_kernel.terms.size()));
    });
    if (found.size() > 16) found.resize(16);
    return found;
  }

  bool merge(Kernel& k, const Step& s, int id) {
    if (k.steps.size() >= 40 || !std::all_of(k.steps.begin(), k.steps.end(),
                                             [](const Step& x) { return fusible(x) || x.kind == Step::Kind::matmul; }))
      return false;
    if (k.steps[0].kind == Step::Kind::matmul && (s.kind != Step::Kind::map || !epilogues_)) return false;
    for (const int a : s.after)
      if (std::find(k.ids.begin(), k.ids.end(), a) != k.ids.end()) return false;
    for (const Step& p : k.steps)
      if (p.buffer == s.buffer && !(p.part && s.part)) return false;
    for (const Link& link : links(k, s)) {
      Kernel with = k;
      Step own = s;
      if (unify(with, own, link) && valid(with, own)) {
        with.steps.push_back(std::move(own));
        with.ids.push_back(id);
        k = std::move(with);
        return true;
      }
    }
    return false;
  }

  /// Rewrites step and kernel to common variables, from one link.
  bool unify(Kernel& k, Step& s, const Link& link) {
    std::vector<Atom> step_vars = s.space;
    step_vars.insert(step_vars.end(), s.reduced.begin(), s.reduced.end());
    const Atoms f = atoms(link.in_step), g = atoms(link.in_kernel);
    std::vector<Atom> step_rest, kernel_rest;
    for (const Atom v : step_vars)
      if (!f.contains(v)) step_rest.push_back(v);
    for (const auto* list : {&k.outer, &k.inner})
      for (const Atom v : *list)
        if (!g.contains(v)) kernel_rest.push_back(v);
    const bool is_matmul = k.steps[0].kind == Step::Kind::matmul;

    Mapping of_step, of_kernel;
    if (!relate(link.in_step, link.in_kernel, of_step, of_kernel, !is_matmul)) return false;
    if (!step_rest.empty() && !kernel_rest.empty()) {
      // The link fixes the outer variables; rows are paired in order.
      if (as_set(kernel_rest) != as_set(k.inner)) return false;
      if (!relate(position(step_rest, exprs_), position(k.inner, exprs_), of_step, of_kernel, !is_matmul)) return false;
    } else if (!step_rest.empty()) {
      if (!k.inner.empty() || is_matmul) return false;
      k.inner = step_rest;
    } else if (!kernel_rest.empty()) {
      if (as_set(kernel_rest) != as_set(k.inner) || s.kind != Step::Kind::map) return false;
    }
    if (!apply(k.outer, of_kernel) || !apply(k.inner, of_kernel) || !apply(s.space, of_step) ||
        !apply(s.reduced, of_step))
      return false;
    for (Step& p : k.steps) {
      loops::substitute(p, exprs_, lookup(of_kernel));
      if (!apply(p.space, of_kernel) || !apply(p.reduced, of_kernel)) return false;
    }
    loops::substitute(s, exprs_, lookup(of_step));
    if (s.kind == Step::Kind::reduce && k.inner.empty()) {
      const Atoms row = as_set(s.reduced);
      std::vector<Atom> outer;
      for (const Atom v : k.outer) (row.contains(v) ? k.inner : outer).push_back(v);
      k.outer = outer;
    }
    return true;
  }

  /// f = g, solved for either side's variables.
  bool relate(const Index& f, const Index& g, Mapping& of_step, Mapping& of_kernel, bool kernel_may_change) {
    if (auto m = solve(f, g, exprs_)) return of_step.merge(*m), true;
    if (!kernel_may_change) return false;
    auto m = solve(g, f, exprs_);
    if (!m) return false;
    // Variables that stay what they are must not meet twice under one name.
    of_kernel.merge(*m);
    return true;
  }

  /// Replaces variables by those of their images, in order, each once.
  bool apply(std::vector<Atom>& vars, const Mapping& m) {
    std::vector<Atom> next;
    for (const Atom v : vars) {
      const auto it = m.find(v);
      if (it == m.end()) {
        next.push_back(v);
        continue;
      }
      auto terms = it->second.terms;
      std::sort(terms.begin(), terms.end(), [](auto& a, auto& b) { return ir::roughly_less(b.second, a.second); });
      for (const auto& [a, c] : terms) next.push_back(a);
    }
    vars.clear();
    for (const Atom a : next)
      if (std::find(vars.begin(), vars.end(), a) == vars.end()) vars.push_back(a);
    return true;
  }

  bool valid(const Kernel& k, const Step& s) {
    const Atoms outer = as_set(k.outer), inner = as_set(k.inner);
    Atoms all = outer;
    all.insert(inner.begin(), inner.end());
    if (all.size() != outer.size() + inner.size()) return false;
    const auto level = [&](const Step& p) {
      const Atoms space = as_set(p.space), reduced = as_set(p.reduced);
      if (p.kind == Step::Kind::reduce) return space == outer && reduced == inner;
      if (p.kind == Step::Kind::matmul) return space == all;
      return space == all || space == outer;
    };
    if (!level(s) || !std::all_of(k.steps.begin(), k.steps.end(), level)) return false;
    for (const ExprId e : loads(s, exprs_))
      for (const Step& p : k.steps)
        if (exprs_[e].buffer == p.buffer &&
            (exprs_[e].at != p.at || exprs_[e].dtype != p.dtype || writers_[p.buffer].size() != 1))
          return false;
    // Rows run one after the other in one thread: few long rows are better left to several kernels.
    const int64_t rows = volume(k.outer, exprs_).hint(), length = volume(k.inner, exprs_).hint();
    if (!inner.empty() && rows < 8 && length > 16384) {
      const bool chained = std::any_of(k.steps.begin(), k.steps.end(), [&](const Step& p) {
        return p.kind != Step::Kind::reduce || s.kind != Step::Kind::reduce || reads(s, p.buffer);
      });
      if (chained && !(s.kind == Step::Kind::map && as_set(s.space) == outer)) return false;
    }
    return true;
  }

  bool reads(const Step& s, BufferId b) {
    const auto l = loads(s, exprs_);
    return std::any_of(l.begin(), l.end(), [&](ExprId e) { return exprs_[e].buffer == b; });
  }

  std::vector<Kernel> ordered() {
    const size_t n = kernels_.size();
    std::vector<std::vector<int>> users(n);
    std::vector<size_t> waits(n);
    for (size_t k = 0; k < n; ++k)
      for (const int need : needs_[k]) users[static_cast<size_t>(need)].push_back(static_cast<int>(k)), ++waits[k];
    // Of those ready, the one whose last step came first in the program.
    using Entry = std::pair<int, int>;
    std::priority_queue<Entry, std::vector<Entry>, std::greater<>> ready;
    const auto push = [&](int k) { ready.emplace(kernels_[static_cast<size_t>(k)].ids.back(), k); };
    for (size_t k = 0; k < n; ++k)
      if (waits[k] == 0) push(static_cast<int>(k));
    std::vector<Kernel> out;
    while (!ready.empty()) {
      const int k = ready.top().second;
      ready.pop();
      for (const int u : users[static_cast<size_t>(k)])
        if (--waits[static_cast<size_t>(u)] == 0) push(u);
      out.push_back(std::move(kernels_[static_cast<size_t>(k)]));
    }
    PRECAST_CHECK(out.size() == n, "kernels wait for each other");
    return out;
  }

  Program& program_;
  Exprs& exprs_;
  const bool epilogues_;
  std::vector<Kernel> kernels_;
  std::vector<std::set<int>> needs_;     // kernel -> kernels it reads from
  std::vector<std::vector<int>> users_;  // the other way round
  std::vector<int> level_;               // kernel -> longest way to it
  std::vector<int> kernel_of_;           // step -> kernel
  std::map<BufferId, std::vector<int>> writers_, readers_;
};

}  // namespace

std::vector<Kernel> fuse(Program& p, bool epilogues) { return Fusion(p, epilogues).run(); }

}  // namespace precast::loops
