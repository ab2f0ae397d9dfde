// Reference for ops of a whole layer: attention and LSTM, forward and backward, by their definitions.
#pragma once
#include <map>
#include <string>

#include "tensor.h"

namespace reference {

class Networks {
 public:
  Networks(const Graph& g, std::map<ValueId, Tensor>& values) : g_(g), v_(values) {}

  /// Whether the node was one of these ops.
  bool run(const Node& n) {
    n_ = &n;
    if (n.op == "aten::_scaled_dot_product_flash_attention_for_cpu") return attention(), true;
    if (n.op == "aten::_scaled_dot_product_flash_attention_for_cpu_backward") return attention_backward(), true;
    return false;
  }

 private:
  using Index = std::vector<int64_t>;
  using Matrix = std::vector<std::vector<Real>>;

  bool has(const char* arg) const {
    const auto* r = n_->find(arg) ? std::get_if<precast::ir::Ref>(n_->find(arg)) : nullptr;
    return r && r->id >= 0;
  }
  const Tensor& t(const char* arg) const { return v_.at(std::get<precast::ir::Ref>(*n_->find(arg)).id); }
  bool flag(const char* arg) const { return std::get<bool>(*n_->find(arg)); }
  Real at(const Tensor& x, const Index& i) const { return x.get(offset(x.type, i)); }
  Tensor& result(size_t i) { return v_[n_->outs[i].id] = make(g_.type(n_->outs[i].id)); }
  static void put(Tensor& x, const Index& i, Real v) { x.set(offset(x.type, i), v); }

  // ---- Attention ----
  struct Row {
    std::vector<Real> p;  // probabilities
    Real log_sum;
  };
  Real scale() const {
    const auto* given = n_->find("scale") ? std::get_if<double>(n_->find("scale")) : nullptr;
    return given ? *given : 1 / std::sqrt(static_cast<Real>(t("query").type.sizes[3]));
  }
  Row row(int64_t b, int64_t h, int64_t i) {
    const Tensor &q = t("query"), &k = t("key");
    Row r;
    Real most = -INFINITY, sum = 0;
    for (int64_t j = 0; j < k.type.sizes[2]; ++j) {
      Real s = 0;
      for (int64_t d = 0; d < q.type.sizes[3]; ++d) s += at(q, {b, h, i, d}) * at(k, {b, h, j, d});
      s *= scale();
      if (has("attn_mask")) {
        const Tensor& m = t("attn_mask");
        Index at_mask = m.type.dim() == 2 ? Index{i, j} : Index{b, h, i, j};
        for (size_t d = 0; d < at_mask.size(); ++d)
          if (m.type.sizes[d] == 1) at_mask[d] = 0;
        s += at(m, at_mask);
      }
      if (flag("is_causal") && j > i) s = -INFINITY;
      r.p.push_back(s);
      most = std::max(most, s);
    }
    if (most == -INFINITY) most = 0;
    for (Real& s : r.p) sum += s = std::exp(s - most);
    if (sum == 0) sum = 1;
    for (Real& s : r.p) s /= sum;
    r.log_sum = most + std::log(sum);
    return r;
  }
  template <class F>
  void each_row(F f) {
    const Index s = t("query").type.sizes;
    for (int64_t b = 0; b < s[0]; ++b)
      for (int64_t h = 0; h < s[1]; ++h)
        for (int64_t i = 0; i < s[2]; ++i) f(b, h, i, row(b, h, i));
  }
  void attention() {
    Tensor &out = result(0), &logs = result(1);
    const Tensor& v = t("value");
    each_row([&](int64_t b, int64_t h, int64_t i, const Row& r) {
      for (int64_t d = 0; d < v.type.sizes[3]; ++d) {
        Real sum = 0;
        for (size_t j = 0; j < r.p.size(); ++j) sum += r.p[j] * at(v, {b, h, static_cast<int64_t>(j), d});
        put(out, {b, h, i, d}, sum);
      }
      put(logs, {b, h, i}, r.log_sum);
    });
  }
  void attention_backward() {
    Tensor &dq = result(0), &dk = result(1), &dv = result(2);
    const Tensor &q = t("query"), &k = t("key"), &v = t("value"), &g = t("grad_out");
    const int64_t depth = q.type.sizes[3];
    const auto add = [](Tensor& x, const Index& i, Real value) { put(x, i, x.get(offset(x.type, i)) + value); };
    each_row([&](int64_t b, int64_t h, int64_t i, const Row& r) {
      std::vector<Real> dp(r.p.size());
      Real mean = 0;
      for (size_t j = 0; j < r.p.size(); ++j) {
        for (int64_t d = 0; d < depth; ++d) dp[j] += at(g, {b, h, i, d}) * at(v, {b, h, static_cast<int64_t>(j), d});
        mean += dp[j] * r.p[j];
      }
      for (size_t j = 0; j < r.p.size(); ++j) {
        const Real ds = r.p[j] * (dp[j] - mean) * scale();
        const auto key = static_cast<int64_t>(j);
        for (int64_t d = 0; d < depth; ++d) {
          add(dq, {b, h, i, d}, ds * at(k, {b, h, key, d}));
          add(dk, {b, h, key, d}, ds * at(q, {b, h, i, d}));
          add(dv, {b, h, key, d}, r.p[j] * at(g, {b, h, i, d}));
        }
      }
    });
  }

  const Graph& g_;
  std::map<ValueId, Tensor>& v_;
  const Node* n_ = nullptr;
};

}  // namespace reference
