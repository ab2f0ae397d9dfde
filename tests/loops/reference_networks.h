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
    if (n.op == "aten::mkldnn_rnn_layer") return lstm(), true;
    if (n.op == "aten::mkldnn_rnn_layer_backward") return lstm_backward(), true;
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
    const Index s = precast::ir::numbers(t("query").type.sizes);
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

  // ---- LSTM: gates i, f, g, o ----
  struct Cell {
    Real i, f, g, o, c, before;
  };
  using Sequence = std::vector<std::vector<Cell>>;  // [step][row * units + unit]
  int64_t steps_ = 0, batch_ = 0, units_ = 0, inputs_ = 0;
  static Real sigmoid(Real x) { return 1 / (1 + std::exp(-x)); }
  int64_t time(int64_t step) const { return flag("reverse") ? steps_ - 1 - step : step; }
  static Real state(const Tensor& x, int64_t b, int64_t u) {
    return x.get(x.type.dim() == 3 ? offset(x.type, {0, b, u}) : offset(x.type, {b, u}));
  }

  /// The steps' cells, and the hidden states [step][row][unit] from the first one on.
  Sequence run_cells(const Tensor* const (&w)[4], const Tensor& c0, std::vector<std::vector<Real>>& h) {
    const Tensor& x = t("input");
    steps_ = x.type.sizes[0], batch_ = x.type.sizes[1], inputs_ = x.type.sizes[2];
    units_ = std::get<int64_t>(*n_->find("hidden_size"));
    Sequence all;
    std::vector<Real> c;
    h.emplace_back();
    for (int64_t b = 0; b < batch_; ++b)
      for (int64_t u = 0; u < units_; ++u) h[0].push_back(state(t("hx_"), b, u)), c.push_back(state(c0, b, u));
    for (int64_t s = 0; s < steps_; ++s) {
      std::vector<Cell> cells;
      std::vector<Real> next;
      for (int64_t b = 0; b < batch_; ++b)
        for (int64_t u = 0; u < units_; ++u) {
          Real gate[4];
          for (int64_t g = 0; g < 4; ++g) {
            const int64_t row = g * units_ + u;
            Real sum = flag("has_biases") ? at(*w[2], {row}) + at(*w[3], {row}) : 0;
            for (int64_t k = 0; k < inputs_; ++k) sum += at(x, {time(s), b, k}) * at(*w[0], {row, k});
            for (int64_t k = 0; k < units_; ++k)
              sum += h.back()[static_cast<size_t>(b * units_ + k)] * at(*w[1], {row, k});
            gate[g] = g == 2 ? std::tanh(sum) : sigmoid(sum);
          }
          Real& cell = c[static_cast<size_t>(b * units_ + u)];
          const Real before = cell;
          cell = gate[1] * before + gate[0] * gate[2];
          cells.push_back({gate[0], gate[1], gate[2], gate[3], cell, before});
          next.push_back(gate[3] * std::tanh(cell));
        }
      all.push_back(std::move(cells));
      h.push_back(std::move(next));
    }
    return all;
  }
  void put_state(Tensor& x, int64_t b, int64_t u, Real v) {
    put(x, x.type.dim() == 3 ? Index{0, b, u} : Index{b, u}, v);
  }
  void lstm() {
    std::vector<std::vector<Real>> h;
    const Sequence cells = run_cells({&t("weight0"), &t("weight1"), &t("weight2"), &t("weight3")}, t("cx_"), h);
    Tensor &out = result(0), &hy = result(1), &cy = result(2);
    result(3);
    for (int64_t b = 0; b < batch_; ++b)
      for (int64_t u = 0; u < units_; ++u) {
        const auto i = static_cast<size_t>(b * units_ + u);
        for (int64_t s = 0; s < steps_; ++s) put(out, {time(s), b, u}, h[static_cast<size_t>(s + 1)][i]);
        put_state(hy, b, u, h.back()[i]), put_state(cy, b, u, cells.back()[i].c);
      }
  }
  void lstm_backward() {
    std::vector<std::vector<Real>> h;
    const Tensor *const w[4] = {&t("weight1"), &t("weight2"), &t("weight3"), &t("weight4")}, &x = t("input");
    const Sequence cells = run_cells(w, t("cx_tmp"), h);
    Matrix dx(static_cast<size_t>(steps_ * batch_), std::vector<Real>(static_cast<size_t>(inputs_)));
    Matrix dw(static_cast<size_t>(4 * units_), dx[0]);
    Matrix du(static_cast<size_t>(4 * units_), std::vector<Real>(static_cast<size_t>(units_)));
    std::vector<Real> db(static_cast<size_t>(4 * units_)), dh(static_cast<size_t>(batch_ * units_)), dc = dh;
    for (int64_t b = 0; b < batch_; ++b)
      for (int64_t u = 0; u < units_; ++u) {
        const auto i = static_cast<size_t>(b * units_ + u);
        if (has("grad_hy")) dh[i] = state(t("grad_hy"), b, u);
        if (has("grad_cy")) dc[i] = state(t("grad_cy"), b, u);
      }
    for (int64_t s = steps_; s-- > 0;) {
      std::vector<Real> earlier(dh.size());
      for (int64_t b = 0; b < batch_; ++b)
        for (int64_t u = 0; u < units_; ++u) {
          const auto i = static_cast<size_t>(b * units_ + u);
          const Cell& c = cells[static_cast<size_t>(s)][i];
          if (has("grad_output")) dh[i] += at(t("grad_output"), {time(s), b, u});
          const Real now = std::tanh(c.c);
          dc[i] += dh[i] * c.o * (1 - now * now);
          const Real d[4] = {dc[i] * c.g * c.i * (1 - c.i), dc[i] * c.before * c.f * (1 - c.f),
                             dc[i] * c.i * (1 - c.g * c.g), dh[i] * now * c.o * (1 - c.o)};
          dc[i] *= c.f;
          for (int64_t g = 0; g < 4; ++g) {
            const auto row = static_cast<size_t>(g * units_ + u);
            db[row] += d[g];
            for (int64_t k = 0; k < inputs_; ++k) {
              const auto column = static_cast<size_t>(k);
              dx[static_cast<size_t>(time(s) * batch_ + b)][column] += d[g] * at(*w[0], {g * units_ + u, k});
              dw[row][column] += d[g] * at(x, {time(s), b, k});
            }
            for (int64_t k = 0; k < units_; ++k) {
              const auto column = static_cast<size_t>(b * units_ + k);
              earlier[column] += d[g] * at(*w[1], {g * units_ + u, k});
              du[row][static_cast<size_t>(k)] += d[g] * h[static_cast<size_t>(s)][column];
            }
          }
        }
      dh = earlier;
    }
    const auto store = [&](size_t out, const auto& value) {
      Tensor& r = result(out);
      int64_t k = 0;
      each(r.type.sizes, [&](const Index& i) { put(r, i, value(k++)); });
    };
    const auto matrix = [](const Matrix& m) {
      return [&m](int64_t k) {
        const auto n = static_cast<int64_t>(m[0].size());
        return m[static_cast<size_t>(k / n)][static_cast<size_t>(k % n)];
      };
    };
    const auto list = [](const std::vector<Real>& v) { return [&v](int64_t k) { return v[static_cast<size_t>(k)]; }; };
    store(0, matrix(dx)), store(1, matrix(dw)), store(2, matrix(du)), store(3, list(db)), store(4, list(db));
    store(5, list(dh)), store(6, list(dc));
  }

  const Graph& g_;
  std::map<ValueId, Tensor>& v_;
  const Node* n_ = nullptr;
};

}  // namespace reference
