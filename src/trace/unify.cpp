// One graph from several recordings of the same ops at other sizes.
#include <algorithm>

#include "ir/print.h"
#include "trace/dynamic.h"
#include "util/checks.h"
#include "util/errors.h"

namespace precast::trace {

namespace {

using ir::Size;

[[noreturn]] void differ(const std::string& what) {
  refuse(Check::dynamic_op,
         "the function does other operations at other sizes of the marked dims: " + what + ". Do not mark that dim");
  throw RunFailure("the recording cannot go on");
}

class Unifier {
 public:
  Unifier(Fit& fit, size_t count) : fit_(fit), count_(count) {}

  template <class Get>
  Size size(Get&& get, const std::string& what) const {
    std::vector<int64_t> seen;
    for (size_t k = 0; k < count_; ++k) seen.push_back(get(k));
    if (auto s = fit_(seen)) return *s;
    std::string numbers;
    for (int64_t v : seen) numbers += (numbers.empty() ? "" : ", ") + std::to_string(v);
    differ(what + " has a number that is no simple expression of the sizes (" + numbers + ")");
  }
  template <class Get>  // get(k) is a Dims
  ir::Dims dims(Get&& get, const std::string& what) const {
    const size_t n = get(0).size();
    ir::Dims all;
    for (size_t k = 1; k < count_; ++k)
      if (get(k).size() != n) differ(what + " has lists of other lengths");
    for (size_t d = 0; d < n; ++d) all.push_back(size([&](size_t k) { return int64_t{get(k)[d]}; }, what));
    return all;
  }
  template <class Get>
  ir::Type type(Get&& get, const std::string& what) const {
    ir::Type t = get(0);
    bool dense = true;
    for (size_t k = 0; k < count_; ++k) {
      const ir::Type& o = get(k);
      if (o.dtype != t.dtype || o.conj != t.conj || o.neg != t.neg || o.device != t.device) differ(what);
      dense = dense && o.is_contiguous();
    }
    t.sizes = dims([&](size_t k) -> const ir::Dims& { return get(k).sizes; }, what);
    t.strides = dense ? ir::contiguous_strides(t.sizes)
                      : dims([&](size_t k) -> const ir::Dims& { return get(k).strides; }, what);
    return t;
  }
  template <class Get>
  ir::Attr attr(Get&& get, const std::string& what) const {
    if (ir::as_size(get(0)) && std::holds_alternative<int64_t>(get(0))) {
      for (size_t k = 0; k < count_; ++k)
        if (!std::holds_alternative<int64_t>(get(k))) differ(what);
      return ir::Attr(size([&](size_t k) { return std::get<int64_t>(get(k)); }, what));
    }
    if (std::holds_alternative<std::vector<int64_t>>(get(0))) {
      for (size_t k = 0; k < count_; ++k)
        if (!std::holds_alternative<std::vector<int64_t>>(get(k))) differ(what);
      return ir::Attr(dims([&](size_t k) { return ir::sizes(std::get<std::vector<int64_t>>(get(k))); }, what));
    }
    for (size_t k = 1; k < count_; ++k)
      if (!(get(k) == get(0))) differ(what);
    return get(0);
  }

 private:
  Fit& fit_;
  size_t count_;
};

}  // namespace

ir::Graph unify(const std::vector<ir::Graph>& graphs, Fit& fit) {
  const Unifier u(fit, graphs.size());
  ir::Graph g = graphs[0];
  for (const ir::Graph& o : graphs) {
    for (size_t i = 0; i < std::min(o.nodes.size(), g.nodes.size()); ++i)
      if (o.nodes[i].op != g.nodes[i].op) differ(g.nodes[i].op + " here and " + o.nodes[i].op + " there");
    if (o.nodes.size() != g.nodes.size() || o.values.size() != g.values.size() || o.inputs != g.inputs ||
        o.outputs != g.outputs)
      differ("there are " + std::to_string(g.nodes.size()) + " here and " + std::to_string(o.nodes.size()) + " there");
  }
  for (size_t v = 0; v < g.values.size(); ++v)
    g.values[v].type = u.type([&](size_t k) -> const ir::Type& { return graphs[k].values[v].type; },
                              "a value" + (g.values[v].name.empty() ? "" : " (" + g.values[v].name + ")"));
  for (size_t i = 0; i < g.nodes.size(); ++i) {
    ir::Node& n = g.nodes[i];
    const auto at = [&](size_t k) -> const ir::Node& { return graphs[k].nodes[i]; };
    for (size_t k = 0; k < graphs.size(); ++k) {
      const ir::Node& o = at(k);
      bool same = o.args.size() == n.args.size() && o.outs.size() == n.outs.size() &&
                  o.writes.size() == n.writes.size() && o.shared.size() == n.shared.size();
      for (size_t a = 0; same && a < n.args.size(); ++a) same = o.args[a].name == n.args[a].name;
      for (size_t a = 0; same && a < n.outs.size(); ++a)
        same =
            o.outs[a].id == n.outs[a].id && o.outs[a].list == n.outs[a].list && o.outs[a].is_list == n.outs[a].is_list;
      for (size_t a = 0; same && a < n.writes.size(); ++a)
        same = o.writes[a].slot == n.writes[a].slot && o.writes[a].value == n.writes[a].value;
      for (size_t a = 0; same && a < n.shared.size(); ++a)
        same = o.shared[a].base == n.shared[a].base && o.shared[a].value == n.shared[a].value &&
               o.shared[a].views.size() == n.shared[a].views.size();
      if (!same) differ(n.op + " has other operands or results");
    }
    for (size_t a = 0; a < n.args.size(); ++a)
      n.args[a].value = u.attr([&](size_t k) -> const ir::Attr& { return at(k).args[a].value; },
                               n.op + ", argument '" + n.args[a].name + "',");
    for (size_t s = 0; s < n.shared.size(); ++s)
      for (size_t v = 0; v < n.shared[s].views.size(); ++v) {
        const auto view = [&](size_t k) -> const ir::Shared::View& { return at(k).shared[s].views[v]; };
        n.shared[s].views[v].offset_bytes = u.size([&](size_t k) { return int64_t{view(k).offset_bytes}; }, n.op);
        n.shared[s].views[v].type = u.type([&](size_t k) -> const ir::Type& { return view(k).type; }, n.op);
      }
  }
  return g;
}

void take_conditions(const ir::Graph& from, ir::Graph& to) {
  std::vector<const ir::Out*> real;
  const auto is_condition = [](const ir::Out& o) { return !std::holds_alternative<std::monostate>(o.expect); };
  for (const ir::Node& n : from.nodes)
    for (const ir::Out& o : n.outs)
      if (is_condition(o)) real.push_back(&o);
  size_t next = 0;
  for (ir::Node& n : to.nodes)
    for (ir::Out& o : n.outs)
      if (is_condition(o)) {
        if (next == real.size()) differ("numbers that were read from tensors");
        o.expect = real[next++]->expect;
      }
  if (next != real.size()) differ("numbers that were read from tensors");
}

void unify(const std::vector<artifact::Signature>& all, Fit& fit, artifact::Signature& to) {
  const Unifier u(fit, all.size());
  const std::string hint =
      " (a size of 0 or 1, or two equal ones, may be special: capture with an example of other sizes)";
  const auto require = [&](bool same, const std::string& what) {
    if (!same) differ(what + hint);
  };
  for (const artifact::Signature& s : all) {
    require(s.results.size() == to.results.size() && s.writes.size() == to.writes.size() &&
                s.grads.size() == to.grads.size() && s.cleared_grads == to.cleared_grads &&
                s.zeroed_grads == to.zeroed_grads,
            "the call leaves other tensors behind");
    require(s.graph_inputs.size() == to.graph_inputs.size() && s.aliases.size() == to.aliases.size(),
            "it reads other memory");
    for (size_t i = 0; i < to.graph_inputs.size(); ++i)
      require(s.graph_inputs[i].source == to.graph_inputs[i].source &&
                  s.graph_inputs[i].offset_bytes == to.graph_inputs[i].offset_bytes,
              "it reads other memory");
    for (size_t i = 0; i < to.results.size(); ++i)
      require(s.results[i].kind == to.results[i].kind && s.results[i].index == to.results[i].index &&
                  s.results[i].same_as == to.results[i].same_as,
              "result " + std::to_string(i) + " lies elsewhere");
    for (size_t i = 0; i < to.writes.size(); ++i)
      require(s.writes[i].source == to.writes[i].source && s.writes[i].output == to.writes[i].output,
              "other tensors are written");
    for (size_t i = 0; i < to.grads.size(); ++i)
      require(s.grads[i].source == to.grads[i].source && s.grads[i].output == to.grads[i].output &&
                  s.grads[i].accumulate == to.grads[i].accumulate && s.grads[i].in_place == to.grads[i].in_place &&
                  s.grads[i].part.has_value() == to.grads[i].part.has_value(),
              "other gradients");
  }
  for (size_t i = 0; i < to.results.size(); ++i) {
    const auto at = [&](size_t k) -> const artifact::Result& { return all[k].results[i]; };
    to.results[i].type = u.type([&](size_t k) -> const ir::Type& { return at(k).type; }, "a result");
    to.results[i].offset_bytes = u.size([&](size_t k) { return int64_t{at(k).offset_bytes}; }, "a result");
  }
  for (size_t i = 0; i < to.grads.size(); ++i) {
    if (!to.grads[i].part) continue;
    const auto at = [&](size_t k) -> const artifact::Part& { return *all[k].grads[i].part; };
    to.grads[i].part->type = u.type([&](size_t k) -> const ir::Type& { return at(k).type; }, "a gradient");
    to.grads[i].part->offset_bytes = u.size([&](size_t k) { return int64_t{at(k).offset_bytes}; }, "a gradient");
  }
}

}  // namespace precast::trace
