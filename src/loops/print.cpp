#include "loops/print.h"

#include <map>
#include <sstream>

namespace precast::loops {

namespace {

const char* name_of(Buffer::Place p) {
  constexpr const char* names[] = {"arena", "prepared", "input", "output", "host", "local"};
  return names[static_cast<size_t>(p)];
}

const char* name_of(Reduction r) {
  constexpr const char* names[] = {"", "sum", "prod", "amax", "amin", "argmax", "argmin", "any", "all"};
  return names[static_cast<size_t>(r)];
}

std::string name_of(BufferId b) { return "b" + std::to_string(b); }

/// One step: values used more than once get lines of their own before it.
class StepText {
 public:
  StepText(const Step& s, const Exprs& exprs) : s_(s), exprs_(exprs) {}

  std::string run() {
    const std::string target = s_.buffer < 0 ? "" : name_of(s_.buffer) + "[" + index(s_.at) + "]";
    std::string line;
    switch (s_.kind) {
      case Step::Kind::map:
        count({s_.body});
        line = target + " = " + value(s_.body);
        break;
      case Step::Kind::reduce:
      case Step::Kind::scan:
        count({s_.body});
        line = target + " = " + (s_.kind == Step::Kind::scan ? "running " : "") + name_of(s_.reduction) + " over " +
               variables(s_.reduced) + " of " + value(s_.body);
        break;
      case Step::Kind::write:
        count({s_.body});
        line = target + " " + name_of(s_.reduction) + "= " + value(s_.body);
        break;
      case Step::Kind::matmul:
        count({s_.a, s_.b});
        line = target + " = sum over " + variables(s_.product.k) + " of " + value(s_.a) + " * " + value(s_.b);
        break;
      case Step::Kind::host:
        line = "host op " + std::to_string(s_.host_op) + ": " + s_.what + between();
        break;
      case Step::Kind::routine:
        line = s_.routine->function + between();
        break;
      case Step::Kind::alias:
        line = name_of(s_.buffer) + " stands in the memory of what it copies";
        break;
    }
    return lets_ + "    " + line + "\n";
  }

  std::string variables(const std::vector<Atom>& list) const {
    std::string text;
    for (const Atom a : list)
      text += (text.empty() ? "i" : ", i") + std::to_string(a) + " < " + ir::to_string(exprs_.extent(a));
    return text.empty() ? "nothing" : text;
  }

 private:
  std::string between() const {
    std::string text = ": reads";
    for (const HostOperand& o : s_.operands) text += " " + name_of(o.buffer);
    text += ", writes";
    for (const BufferId b : s_.results) text += " " + name_of(b);
    return text;
  }

  void count(const std::vector<ExprId>& roots) {
    for (const ExprId root : roots) ++uses_[root];
    exprs_.visit(roots, [&](ExprId e) {
      for (const ExprId a : exprs_[e].args) ++uses_[a];
      for (const auto& [atom, coefficient] : exprs_[e].at.terms)
        if (atom < 0) ++uses_[~atom];
    });
  }

  std::string index(const Index& at) {
    std::string text;
    for (const auto& [atom, coefficient] : at.terms) {
      const std::string name = atom < 0 ? value(~atom) : "i" + std::to_string(atom);
      text += (text.empty() ? "" : " + ") + (coefficient == 1 ? "" : ir::to_string(coefficient) + "*") + name;
    }
    if (text.empty() || at.constant != 0) text += (text.empty() ? "" : " + ") + ir::to_string(at.constant);
    return text;
  }

  std::string value(ExprId id) {
    if (const auto known = names_.find(id); known != names_.end()) return known->second;
    std::string text = whole(id);
    const Expr::Kind kind = exprs_[id].kind;
    if (uses_[id] < 2 || (kind != Expr::Kind::call && kind != Expr::Kind::cast)) return text;
    const std::string name = "v" + std::to_string(names_.size());
    lets_ += "    " + name + " = " + text + "\n";
    return names_[id] = name;
  }

  std::string whole(ExprId id) {
    const Expr& e = exprs_[id];
    switch (e.kind) {
      case Expr::Kind::constant:
      case Expr::Kind::exact: {
        std::ostringstream number;
        if (ir::is_float(e.dtype))
          number << e.real;
        else
          number << e.integer;
        return number.str();
      }
      case Expr::Kind::load:
        return name_of(e.buffer) + "[" + index(e.at) + "]";
      case Expr::Kind::index:
        return "(" + index(e.at) + ")";
      case Expr::Kind::cast:
        return std::string(ir::name(e.dtype)) + "(" + value(e.args[0]) + ")";
      case Expr::Kind::checked:
        return "index(" + value(e.args[0]) + " of " + ir::to_string(e.extent) + ")";
      case Expr::Kind::call:
        break;
    }
    std::string args;
    for (const ExprId a : e.args) args += (args.empty() ? "" : ", ") + value(a);
    return e.name + "(" + args + ")";
  }

  const Step& s_;
  const Exprs& exprs_;
  std::map<ExprId, int> uses_;
  std::map<ExprId, std::string> names_;
  std::string lets_;
};

}  // namespace

std::string print(const std::vector<Kernel>& kernels, const Program& p) {
  std::string text;
  for (size_t b = 0; b < p.buffers.size(); ++b) {
    const Buffer& x = p.buffers[b];
    text += name_of(static_cast<BufferId>(b)) + ": " + ir::to_string(x.type) + ", " + name_of(x.place) +
            (x.slot >= 0 ? " " + std::to_string(x.slot) : "") + (x.alias_of >= 0 ? ", in " + name_of(x.alias_of) : "") +
            "\n";
  }
  for (size_t k = 0; k < kernels.size(); ++k) {
    const Kernel& kernel = kernels[k];
    const StepText loops(kernel.steps[0], p.exprs);
    text += "\nkernel " + std::to_string(k);
    if (!kernel.outer.empty()) text += ": for " + loops.variables(kernel.outer);
    if (!kernel.inner.empty()) text += (kernel.outer.empty() ? ": " : "; ") + ("row " + loops.variables(kernel.inner));
    text += "\n";
    for (const Step& s : kernel.steps) text += StepText(s, p.exprs).run();
  }
  return text;
}

}  // namespace precast::loops
