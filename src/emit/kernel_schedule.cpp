// What is decided before a kernel is written: the order of its stages, which variable runs along the lanes, what is
// kept in arrays of the thread.
#include "emit/kernel_writer.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "util/errors.h"

namespace precast::emit {

bool KernelWriter::at_inner_level(const Step& s) const {
  if (s.kind == Step::Kind::reduce) return true;
  return std::any_of(kernel_.inner.begin(), kernel_.inner.end(),
                     [&](Atom a) { return contains(s.space, a) || contains(s.reduced, a); }) ||
         kernel_.inner.empty();
}

void KernelWriter::assign_stages() {
  for (bool again = true; again;) {
    again = false;
    std::map<BufferId, size_t> producer;
    stage_.assign(kernel_.steps.size(), 0);
    for (size_t i = 0; i < kernel_.steps.size(); ++i) {
      Step& s = kernel_.steps[i];
      for (const ExprId e : loops::loads(s, exprs_)) {
        const auto it = producer.find(exprs_[e].buffer);
        if (it == producer.end()) continue;
        const Step& p = kernel_.steps[it->second];
        stage_[i] = std::max(stage_[i], stage_[it->second] + (p.kind == Step::Kind::reduce ? 1 : 0));
      }
      producer[s.buffer] = i;
    }
    // A cheap value is computed again rather than kept between stages.
    for (size_t i = 0; i < kernel_.steps.size() && !again; ++i) {
      const Step& p = kernel_.steps[i];
      if (p.kind != Step::Kind::map || kernel_.inner.empty() || !at_inner_level(p) || exprs_.cost(p.body) > 4 ||
          kept_.contains(p.buffer))
        continue;
      for (size_t j = i + 1; j < kernel_.steps.size(); ++j) {
        if (stage_[j] <= stage_[i]) continue;
        Step& s = kernel_.steps[j];
        const ExprId was = s.body;
        s.body = exprs_.rewrite(s.body, [&](ExprId e) -> std::optional<ExprId> {
          if (exprs_[e].kind == Expr::Kind::load && exprs_[e].buffer == p.buffer) return p.body;
          return std::nullopt;
        });
        again |= s.body != was;
      }
    }
  }
  // Nobody asks any more for what was recomputed everywhere.
  for (size_t i = kernel_.steps.size(); i-- > 0;) {
    const BufferId b = kernel_.steps[i].buffer;
    if (kept_.contains(b)) continue;
    bool used = false;
    for (const Step& s : kernel_.steps)
      for (const ExprId e : loops::loads(s, exprs_)) used |= exprs_[e].buffer == b;
    if (used) continue;
    kernel_.steps.erase(kernel_.steps.begin() + static_cast<std::ptrdiff_t>(i));
    stage_.erase(stage_.begin() + static_cast<std::ptrdiff_t>(i));
    program_.buffers[static_cast<size_t>(b)].place = Buffer::Place::local;
  }
}

void KernelWriter::choose_lane() {
  const Step& first = kernel_.steps[0];
  double best = std::numeric_limits<double>::max();
  const auto consider = [&](Atom v) {
    if (!lane_possible(first, v)) return;
    const auto size = static_cast<double>(extent(v).hint());
    const double chunks = std::ceil(size / 8) * 8 / size;
    double cost = 0;
    for (const Step& s : kernel_.steps) {
      const double points = at_inner_level(s) ? 1 : 0.01;
      double ops = 0;
      exprs_.visit(loops::roots(s, exprs_), [&](ExprId e) {
        const Expr& x = exprs_[e];
        if (x.kind == Expr::Kind::load && !(produced(x.buffer) && !kept_.contains(x.buffer))) {
          ops += access(x.at, v);
        } else if (x.kind == Expr::Kind::call) {
          ops += loops::operation_cost(x) * 0.3;
        }
      });
      if (kept_.contains(s.buffer)) ops += 1.5 * access(s.at, v);
      cost += points * ops;
    }
    cost *= chunks;
    if (size < 4) cost *= 2;
    if (cost < best) best = cost, w_.lane = v;
  };
  for (const Atom v : kernel_.inner) consider(v);
  for (const Atom v : kernel_.outer) consider(v);
}

double KernelWriter::access(const Index& at, Atom v) {
  for (const auto& [a, c] : at.terms)
    if (a < 0 && w_.dependencies(~a).contains(v)) return 10;
  const Size c = at.coefficient(v);
  return c == 0 ? 0.3 : c == 1 ? 1 : 8;
}

bool KernelWriter::lane_possible(const Step& s, Atom v) {
  if (s.kind == Step::Kind::scan) return contains(s.space, v);
  if (s.kind == Step::Kind::write)
    return contains(kernel_.outer, v) && access(s.at, v) < 10 && s.at.coefficient(v) != 0;
  return true;
}

void KernelWriter::choose_scratch() {
  const Size row = volume(kernel_.inner, exprs_);
  int64_t total = 0;
  for (size_t i = 0; i < kernel_.steps.size(); ++i) {
    const Step& p = kernel_.steps[i];
    if (kept_.contains(p.buffer)) continue;
    bool later = false;
    for (size_t j = i + 1; j < kernel_.steps.size(); ++j)
      if (stage_[j] > stage_[i])
        for (const ExprId e : loops::loads(kernel_.steps[j], exprs_)) later |= exprs_[e].buffer == p.buffer;
    Buffer& buffer = program_.buffers[static_cast<size_t>(p.buffer)];
    buffer.place = Buffer::Place::local;
    if (!later || p.kind != Step::Kind::map || !at_inner_level(p)) continue;
    if (row.is_symbolic()) {  // no array is long enough for any row
      buffer.place = Buffer::Place::arena;
      kept_.insert(p.buffer);
      continue;
    }
    const int64_t bytes = (row * (lane_in_row() ? 1 : kMaxLanes) + kMaxLanes) * ir::itemsize(register_dtype(p.dtype));
    if (total + bytes > 64 * 1024) {
      buffer.place = Buffer::Place::arena;
      kept_.insert(p.buffer);
      continue;
    }
    total += bytes;
    scratch_steps_.push_back(i);
  }
}

void KernelWriter::choose_width() {
  width_ = w_.lane < 0 ? "1" : "LANES";
  for (const Step& s : kernel_.steps)
    exprs_.visit(loops::roots(s, exprs_), [&](ExprId e) {
      if (e == s.position || e == exprs_.index(s.at)) return;  // not computed in vectors of i64
      if (w_.lane >= 0 && w_.varies(e) && ir::itemsize(exprs_[e].dtype) == 8) width_ = "LANES / 2";
    });
  const Step& s = kernel_.steps[0];
  if (w_.lane >= 0 && s.kind == Step::Kind::scan && ir::itemsize(accumulator(s)) == 8) width_ = "LANES / 2";
}

std::vector<Atom> KernelWriter::row_order() const {
  std::vector<Atom> order;
  for (const Atom a : kernel_.inner)
    if (a != w_.lane) order.push_back(a);
  if (lane_in_row()) order.push_back(w_.lane);
  return order;
}

bool KernelWriter::transposes() {
  bool found = false;
  for (const Step& s : kernel_.steps)
    for (const ExprId e : loops::loads(s, exprs_)) {
      const Index& at = exprs_[e].at;
      if (std::abs(at.coefficient(w_.lane).hint()) < 16) continue;
      for (const Atom v : kernel_.outer) found |= v != w_.lane && at.coefficient(v) == 1;
    }
  return found && kernel_.inner.empty();
}

KernelWriter::Cost KernelWriter::point_cost() {
  Cost cost{.operation = w_.lane < 0 ? 0.5 : width_ == "LANES" ? 0.06 : 0.12};
  for (const Step& s : kernel_.steps) {
    double ops = 1;
    for (const ExprId r : loops::roots(s, exprs_)) ops += exprs_.cost(r);
    (at_inner_level(s) ? cost.per_element : cost.each) += ops;
  }
  return cost;
}

}  // namespace precast::emit
