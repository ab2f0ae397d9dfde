// Terms of a sum that one operation gives at once. Steps that share a weight each add a product to its gradient: that
// is one product over the rows of all steps. Reads of parts each add zeros but for their part: that is the parts,
// joined. What every step did to the whole is done once.
#include <algorithm>
#include <map>

#include "ir/print.h"
#include "passes/passes.h"
#include "passes/rewriter.h"

namespace precast::passes {
namespace {

using ir::kNoValue;
using ir::Node;
using ir::Ref;
using ir::Type;
using ir::ValueId;

/// A term that nothing else reads: what a node gives, perhaps through a view of all of it.
struct Term {
  ValueId value = kNoValue;
  const Node *node = nullptr, *view = nullptr;
};
using Terms = std::vector<Term>;

/// A part of a tensor along one dim.
struct Part {
  int64_t dim, start, length;
  bool selected;  // without that dim
  ValueId value;
};

bool rounds_every_sum(const Type& t) { return t.dtype != ir::Dtype::f32 && t.dtype != ir::Dtype::f64; }

class Sums : Rewriter {
 public:
  using Rewriter::Rewriter;

  void run() {
    std::vector<Node> nodes;
    for (const Node& n : g_.nodes) {
      const ValueId made = is_sum(n) && !is_term(n.outs[0].id) ? sum(n) : kNoValue;
      std::ranges::move(take(), std::back_inserter(nodes));
      if (made != kNoValue)
        rename(n.outs[0].id, made);
      else
        nodes.push_back(renamed(n));
    }
    finish(std::move(nodes));
  }

 private:
  Val operand(const Term& t, const char* arg) { return val(ref(*t.node, arg)); }

  bool is_sum(const Node& n) const {
    if (n.op != "aten::add.Tensor" || !n.writes.empty() || !n.shared.empty()) return false;
    const Type& t = type(n.outs[0].id);
    const auto fits = [&](ValueId v) { return type(v).sizes == t.sizes && type(v).dtype == t.dtype; };
    return ir::is_float(t.dtype) && fits(ref(n, "self")) && fits(ref(n, "other"));
  }
  /// Whether the value of a sum is only a part of a larger one.
  bool is_term(ValueId v) const {
    const int reader = single(v) ? readers_[index(v)][0] : -1;
    return reader >= 0 && is_sum(g_.nodes[static_cast<size_t>(reader)]);
  }

  /// The terms in order. Sums are deep: no recursion.
  std::vector<ValueId> terms(const Node& root) const {
    std::vector<ValueId> found, open = {ref(root, "other"), ref(root, "self")};
    while (!open.empty()) {
      const ValueId v = open.back();
      open.pop_back();
      const Node* n = maker(v);
      if (n && single(v) && is_sum(*n)) {
        open.push_back(ref(*n, "other")), open.push_back(ref(*n, "self"));
      } else {
        found.push_back(v);
      }
    }
    return found;
  }

  Term term(ValueId v) const {
    if (!single(v)) return {v};
    const Node* n = maker(v);
    if (!n || n->op != "prim::view") return {v, n};
    const ValueId from = base(v);
    const bool whole =
        place(v).second == 0 && type(from).numel() == type(v).numel() && type(from).dtype == type(v).dtype;
    return whole && single(from) ? Term{v, maker(from), n} : Term{v};
  }

  /// Terms of equal keys can be given at once; empty: this one stays.
  std::string key(const Term& t) const {
    if (!t.node || t.node->outs.size() != 1 || !t.node->writes.empty()) return {};
    const Node& n = *t.node;
    const Type& own = type(n.outs[0].id);
    const std::string k = n.op + ir::to_string(own) + (t.view ? ir::to_string(type(t.value)) : "");
    if (n.op == "prim::scatter") {
      const Node* zeros = maker(ref(n, "base"));
      const auto* zero = zeros && zeros->op == "aten::full" ? std::get_if<double>(zeros->find("fill_value")) : nullptr;
      const auto p = part(n);
      return zero && *zero == 0 && p && !t.view ? k + std::to_string(p->dim) : "";
    }
    if (rounds_every_sum(own)) return {};
    if (n.op == "aten::mm") return k;
    if (n.op == "aten::sum.dim_IntList") {
      const Type& rows = type(ref(n, "self"));
      if (rows.sizes.empty() || (*ir::as_dims(*n.find("dim")))[0] != 0) return {};
      return k + numbers(n) + ir::to_string(ir::contiguous(rows.dtype, {rows.sizes.begin() + 1, rows.sizes.end()}));
    }
    if (n.op == "aten::embedding_dense_backward")
      return std::get<bool>(*n.find("scale_grad_by_freq")) ? "" : k + numbers(n);
    return {};
  }
  std::string numbers(const Node& n) const {
    Node rest{n.op, {}, {}, {}, {}};
    for (const ir::Arg& a : n.args)
      if (!std::holds_alternative<Ref>(a.value)) rest.args.push_back(a);
    return ir::print(g_, rest);
  }

  ValueId sum(const Node& root) {
    const Type& want = type(root.outs[0].id);
    std::vector<Term> all;
    std::map<std::string, Terms> groups;
    for (const ValueId v : terms(root)) {
      all.push_back(term(v));
      if (const std::string k = key(all.back()); !k.empty()) groups[k].push_back(all.back());
    }
    std::vector<Val> merged;
    std::vector<ValueId> gone;
    for (auto& [k, group] : groups) {
      if (group.size() < 2 || (rounds_every_sum(want) && all.size() > group.size() + 1)) continue;
      const Val v = at_once(group);
      if (!v) continue;
      merged.push_back(group[0].view ? b_.view(v, type(group[0].value)) : v);
      for (const Term& t : group) gone.push_back(t.value);
    }
    if (merged.empty()) return kNoValue;
    std::ranges::sort(gone);
    std::vector<Val> left;
    for (const Term& t : all)
      if (!std::ranges::binary_search(gone, t.value)) left.push_back(val(t.value));
    left.insert(left.end(), merged.begin(), merged.end());
    Val total = left[0];
    for (size_t i = 1; i < left.size(); ++i) total = total + left[i];
    return (total.type() == want ? total : copy(total, want.strides)).id;
  }

  Val at_once(Terms& group) {
    const std::string& op = group[0].node->op;
    if (op == "aten::mm") return product(group);
    if (op == "aten::sum.dim_IntList") return rows(group);
    if (op == "prim::scatter") return joined(group);
    return rows_by_index(group);
  }

  // ---- Rows

  /// One product over what all of them sum, unless joining the operands costs more than adding the results.
  Val product(Terms& group) {
    int64_t depth = 0;
    for (const Term& t : group) depth += type(ref(*t.node, "self")).sizes[1];
    const Type& t = type(group[0].node->outs[0].id);
    if (depth * (t.sizes[0] + t.sizes[1]) > t.numel() * static_cast<int64_t>(group.size() - 1)) return {};
    // As the right operands stand in memory, or as they were computed.
    std::ranges::stable_sort(group, {}, [&](const Term& term) { return place(ref(*term.node, "mat2")); });
    std::vector<Val> left, right;
    std::vector<ValueId> inputs;
    for (const Term& term : group) {
      left.push_back(transpose(operand(term, "self"), 0, 1));
      right.push_back(operand(term, "mat2"));
      inputs.push_back(ref(*term.node, "mat2"));
      order_[base(ref(*term.node, "self"))] = static_cast<int>(left.size());
    }
    const Val a = cat(left, 0);
    if (const auto b = in_line(inputs))
      return einsum("tkm,tkn->mn", reshape(a, {b->size(0), b->size(1), a.size(1)}), *b);
    return mm(transpose(a, 0, 1), cat(right, 0));
  }

  /// Sums over rows: worth it where the rows are few, or joined for a product already.
  Val rows(Terms& group) {
    int64_t count = 0;
    bool known = true;
    for (const Term& t : group) {
      count += type(ref(*t.node, "self")).sizes[0];
      known &= order_.contains(base(ref(*t.node, "self")));
    }
    if (known)
      std::ranges::stable_sort(group, {}, [&](const Term& t) { return order_.at(base(ref(*t.node, "self"))); });
    else if (count > 8 * static_cast<int64_t>(group.size()))
      return {};
    std::vector<Val> all;
    for (const Term& t : group) all.push_back(operand(t, "self"));
    const Node& n = *group[0].node;
    return passes::sum(cat(all, 0), *ir::as_dims(*n.find("dim")), std::get<bool>(*n.find("keepdim")));
  }

  Val rows_by_index(const Terms& group) {
    const Node& n = *group[0].node;
    const Type& own = type(n.outs[0].id);
    std::vector<Val> rows, indices;
    for (const Term& t : group) {
      indices.push_back(operand(t, "indices"));
      indices.back() = reshape(indices.back(), {indices.back().numel()});
      rows.push_back(reshape(operand(t, "grad_output"), {indices.back().numel(), own.sizes[1]}));
    }
    std::vector<ir::Arg> args = n.args;
    args[0].value = Ref{cat(rows, 0).id}, args[1].value = Ref{cat(indices, 0).id};
    return b_.emit(n.op, std::move(args), own);
  }

  // ---- Parts

  /// The window that a node writes, if it is a range of one dim.
  std::optional<Part> part(const Node& n) const {
    const Type &t = type(n.outs[0].id), &src = type(ref(n, "src"));
    if (src.dtype != t.dtype || t.numel() == 0) return {};
    const int64_t offset = integer(n, "offset") / ir::itemsize(t.dtype);
    const bool selected = src.sizes.size() + 1 == t.sizes.size();
    for (size_t d = 0; d < t.sizes.size(); ++d) {
      Dims sizes = src.sizes, strides = *ir::as_dims(*n.find("strides"));
      if (selected) {
        sizes.insert(sizes.begin() + static_cast<std::ptrdiff_t>(d), 1);
        strides.insert(strides.begin() + static_cast<std::ptrdiff_t>(d), t.strides[d]);
      }
      if (sizes.size() != t.sizes.size() || t.strides[d] == 0 || offset % t.strides[d] != 0) continue;
      const int64_t start = offset / t.strides[d], length = sizes[d];
      Dims whole = sizes;
      whole[d] = t.sizes[d];
      if (whole == t.sizes && same_layout(sizes, strides, t.strides) && start + length <= t.sizes[d] &&
          length < t.sizes[d])
        return Part{static_cast<int64_t>(d), start, length, selected, ref(n, "src")};
    }
    return {};
  }

  /// The parts side by side, with zeros where there are none.
  Val joined(const Terms& group) {
    std::vector<Part> parts;
    for (const Term& t : group) parts.push_back(*part(*t.node));
    std::ranges::sort(parts, {}, &Part::start);
    const Type& t = type(group[0].node->outs[0].id);
    const int64_t dim = parts[0].dim;
    std::vector<Val> all;
    int64_t at = 0;
    const auto zeros = [&](int64_t until) {
      Dims sizes = t.sizes;
      sizes[static_cast<size_t>(dim)] = until - at;
      if (until > at) all.push_back(b_.full(sizes, 0.0, t.dtype));
    };
    for (const Part& p : parts) {
      if (p.start < at) return {};
      zeros(p.start);
      const Val v = val(p.value) + 0.0;  // the zeros of the other terms make 0 of -0
      all.push_back(p.selected ? unsqueeze(v, dim) : v);
      at = p.start + p.length;
    }
    zeros(t.sizes[static_cast<size_t>(dim)]);
    return cat(all, dim);
  }

  std::map<ValueId, int> order_;  // of what was joined for a product
};

}  // namespace

void sum_at_once(ir::Graph& g) { Sums(g).run(); }

}  // namespace precast::passes
