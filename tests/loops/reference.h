// A plain interpreter of core ops: scalar loops, wide accumulators. What compiled kernels are compared with.
// Written from the definitions of the ops, without anything of the compiler.
#pragma once
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <functional>
#include <map>
#include <stdexcept>
#include <string>
#include <vector>

#include "ir/graph.h"
#include "reference_networks.h"

namespace reference {

/// A kernel's bounds check or division failed.
struct Failure : std::runtime_error {
  using std::runtime_error::runtime_error;
};

class Interpreter {
 public:
  Interpreter(const Graph& g, const std::vector<Tensor>& inputs) : g_(g) {
    for (size_t i = 0; i < inputs.size(); ++i) v_[g.inputs[i]] = inputs[i];
    for (const Node& n : g.nodes) run(n);
  }
  std::vector<Tensor> outputs() {
    std::vector<Tensor> r;
    for (const ValueId v : g_.outputs) r.push_back(v_.at(v));
    return r;
  }

 private:
  using Index = std::vector<int64_t>;

  const Tensor& t(const Node& n, const char* arg) { return v_.at(std::get<precast::ir::Ref>(*n.find(arg)).id); }
  bool is_tensor(const Node& n, const char* arg) {
    const auto* r = n.find(arg) ? std::get_if<precast::ir::Ref>(n.find(arg)) : nullptr;
    return r && r->id >= 0;
  }
  Real num(const Node& n, const char* arg) {
    const auto& a = *n.find(arg);
    if (auto* b = std::get_if<bool>(&a)) return *b;
    if (auto* i = std::get_if<int64_t>(&a)) return static_cast<Real>(*i);
    return std::get<double>(a);
  }
  std::vector<int64_t> list(const Node& n, const char* arg) {
    const auto& a = *n.find(arg);
    if (auto* i = std::get_if<int64_t>(&a)) return {*i};
    auto* l = std::get_if<std::vector<int64_t>>(&a);
    return l ? *l : std::vector<int64_t>{};
  }
  Real at(const Tensor& x, const Index& i) { return x.get(offset(x.type, i)); }
  Real broadcast(const Tensor& x, const Index& i) {
    int64_t o = 0;
    const size_t shift = i.size() - x.type.sizes.size();
    for (size_t d = 0; d < x.type.sizes.size(); ++d)
      if (x.type.sizes[d] != 1) o += i[d + shift] * x.type.strides[d];
    return x.get(o);
  }
  /// An operand: tensor or number.
  Real operand(const Node& n, const char* arg, const Index& i) {
    return is_tensor(n, arg) ? broadcast(t(n, arg), i) : num(n, arg);
  }

  static Real wrap(Dtype d, Real v) {
    Tensor one = make(precast::ir::contiguous(d, {}));
    one.set(0, v);
    return one.get(0);
  }

  Real cast(Dtype to, Dtype from, Real v) {
    using precast::ir::is_float;
    if (is_float(from) && !is_float(to) && to != Dtype::b8) v = static_cast<Real>(static_cast<int64_t>(v));
    if (to == Dtype::b8) return v != 0;
    return wrap(to, v);
  }

  Real unary(const std::string& f, Dtype d, Real x) {
    const auto y = static_cast<double>(x);
    if (f == "neg")
      return d == Dtype::i64
                 ? static_cast<Real>(static_cast<int64_t>(0 - static_cast<uint64_t>(static_cast<int64_t>(x))))
                 : -x;
    if (f == "abs") return x < 0 ? unary("neg", d, x) : std::fabs(x);
    if (f == "sign" || f == "sgn") return x > 0 ? 1 : x < 0 ? -1 : 0;
    if (f == "relu") return x < 0 ? 0 : x;
    if (f == "sigmoid") return 1 / (1 + std::exp(-y));
    if (f == "rsqrt") return 1 / std::sqrt(y);
    if (f == "reciprocal") return 1 / y;
    if (f == "isnan") return std::isnan(y);
    if (f == "isinf") return std::isinf(y);
    if (f == "logical_not") return x == 0;
    if (f == "bitwise_not")
      return d == Dtype::b8 ? static_cast<Real>(x == 0) : static_cast<Real>(~static_cast<int64_t>(x));
    if (f == "round") return precast::ir::is_float(d) ? std::nearbyint(y) : x;
    if (!precast::ir::is_float(d)) return x;  // floor, ceil, trunc of integers
    static const std::map<std::string, double (*)(double)> table = {
        {"exp", std::exp},     {"exp2", std::exp2},    {"expm1", std::expm1}, {"log", std::log},
        {"log2", std::log2},   {"log10", std::log10},  {"log1p", std::log1p}, {"sqrt", std::sqrt},
        {"sin", std::sin},     {"cos", std::cos},      {"tan", std::tan},     {"asin", std::asin},
        {"acos", std::acos},   {"atan", std::atan},    {"sinh", std::sinh},   {"cosh", std::cosh},
        {"tanh", std::tanh},   {"asinh", std::asinh},  {"acosh", std::acosh}, {"atanh", std::atanh},
        {"erf", std::erf},     {"erfc", std::erfc},    {"floor", std::floor}, {"ceil", std::ceil},
        {"trunc", std::trunc}, {"lgamma", std::lgamma}};
    return table.at(f)(y);
  }

  Real binary(const std::string& f, Dtype d, Real a, Real b) {
    const bool real = precast::ir::is_float(d), boolean = d == Dtype::b8;
    const auto ia = [&] { return static_cast<int64_t>(a); };
    const auto ib = [&] { return static_cast<int64_t>(b); };
    const auto bits = [&](uint64_t u) { return static_cast<Real>(static_cast<int64_t>(u)); };
    if (f == "eq") return a == b;
    if (f == "ne") return a != b;
    if (f == "lt") return a < b;
    if (f == "le") return a <= b;
    if (f == "gt") return a > b;
    if (f == "ge") return a >= b;
    if (f == "logical_and") return a != 0 && b != 0;
    if (f == "logical_or") return a != 0 || b != 0;
    if (f == "logical_xor") return (a != 0) != (b != 0);
    if (f == "maximum") return std::isnan(a) || a > b ? a : b;
    if (f == "minimum") return std::isnan(a) || a < b ? a : b;
    if (f == "fmax") return std::isnan(b) || a > b ? a : b;
    if (f == "fmin") return std::isnan(b) || a < b ? a : b;
    if (boolean) return f == "add" || f == "bitwise_or" ? a + b != 0 : f == "bitwise_xor" ? a != b : a * b != 0;
    if (f == "bitwise_and") return bits(static_cast<uint64_t>(ia() & ib()));
    if (f == "bitwise_or") return bits(static_cast<uint64_t>(ia() | ib()));
    if (f == "bitwise_xor") return bits(static_cast<uint64_t>(ia() ^ ib()));
    if (f == "bitwise_left_shift") return bits(static_cast<uint64_t>(ia()) << ib());
    if (f == "bitwise_right_shift") return static_cast<Real>(ia() >> ib());
    if (!real) {
      const auto ua = static_cast<uint64_t>(ia()), ub = static_cast<uint64_t>(ib());
      if (f == "add") return bits(ua + ub);
      if (f == "sub") return bits(ua - ub);
      if (f == "mul") return bits(ua * ub);
      if (f == "pow") {
        uint64_t r = 1;
        for (int64_t k = 0; k < ib(); ++k) r *= ua;
        return bits(r);
      }
      if (ib() == 0) throw Failure("integer division or modulo by zero");
      if (ib() == -1) return f == "remainder" || f == "fmod" ? 0 : bits(0 - ua);
      const int64_t q = ia() / ib(), m = ia() % ib();
      const bool adjust = m != 0 && (m < 0) != (ib() < 0);
      if (f == "div_trunc") return static_cast<Real>(q);
      if (f == "div_floor") return static_cast<Real>(q - adjust);
      if (f == "fmod") return static_cast<Real>(m);
      if (f == "remainder") return static_cast<Real>(adjust ? m + ib() : m);
    }
    const auto x = static_cast<double>(a), y = static_cast<double>(b);
    if (f == "add") return x + y;
    if (f == "sub") return x - y;
    if (f == "mul") return x * y;
    if (f == "div") return x / y;
    if (f == "div_trunc") return std::trunc(static_cast<Real>(static_cast<float>(x / y)));
    if (f == "div_floor") {
      const double m = std::fmod(x, y);
      return y == 0 ? x / y : std::nearbyint((x - m) / y) - (m != 0 && (m < 0) != (y < 0));
    }
    if (f == "fmod") return std::fmod(x, y);
    if (f == "remainder") {
      const double m = std::fmod(x, y);
      return m != 0 && (m < 0) != (y < 0) ? m + y : m;
    }
    if (f == "pow") return std::pow(x, y);
    if (f == "atan2") return std::atan2(x, y);
    if (f == "hypot") return std::hypot(x, y);
    if (f == "copysign") return std::copysign(x, y);
    if (f == "nextafter") return std::nextafter(static_cast<float>(x), static_cast<float>(y));
    throw std::runtime_error("reference: " + f);
  }

  int64_t bound(int64_t i, int64_t size, bool wraps) {
    if (wraps && i < 0) i += size;
    if (i < 0 || i >= size) throw Failure("out of bounds");
    return i;
  }

  void reduce(const Node& n, const std::string& f, Tensor& out) {
    const Tensor& x = t(n, "self");
    const auto rank = static_cast<int64_t>(x.type.sizes.size());
    std::vector<bool> gone(static_cast<size_t>(rank), list(n, "dim").empty());
    for (const int64_t d : list(n, "dim"))
      if (rank) gone[static_cast<size_t>(d < 0 ? d + rank : d)] = true;
    const bool keep = num(n, "keepdim") != 0;
    struct State {
      Real value = 0;
      int64_t where = -1, count = 0;
    };
    std::map<Index, State> states;
    Index kept_sizes;
    each(out.type.sizes, [&](const Index& i) { states[i]; });
    std::map<Index, int64_t> seen;
    each(x.type.sizes, [&](const Index& i) {
      Index k;
      for (size_t d = 0; d < i.size(); ++d) {
        if (!gone[d]) k.push_back(i[d]);
        if (gone[d] && keep) k.push_back(0);
      }
      State& s = states[k];
      const Real v = at(x, i);
      const bool first = s.count++ == 0;
      if (f == "sum") s.value += v;
      if (f == "prod") s.value = first ? v : s.value * v;
      if (f == "any") s.value = s.value != 0 || v != 0;
      if (f == "all") s.value = (first || s.value != 0) && v != 0;
      const bool max = f == "amax" || f == "argmax";
      if ((max || f == "amin" || f == "argmin") &&
          (first || (!std::isnan(s.value) && (std::isnan(v) || (max ? v > s.value : v < s.value))))) {
        s.value = v;
        s.where = s.count - 1;
      }
    });
    for (auto& [k, s] : states) {
      if (s.count == 0 && (f == "prod" || f == "all")) s.value = 1;
      out.set(offset(out.type, k), f.starts_with("arg") ? static_cast<Real>(s.where) : s.value);
    }
  }

  void run(const Node& n) {
    if (Networks(g_, v_).run(n)) return;
    const std::string op = n.op.substr(n.op.find("::") + 2, n.op.find('.') - n.op.find("::") - 2);
    const Type type = g_.type(n.outs[0].id);
    Tensor out = make(type);
    const auto fill = [&](const std::function<Real(const Index&)>& f) {
      each(type.sizes, [&](const Index& i) { out.set(offset(type, i), f(i)); });
    };
    if (n.op == "prim::view") {
      const Tensor& base = t(n, "base");
      const auto start = static_cast<int64_t>(num(n, "offset"));
      const int size = precast::ir::itemsize(type.dtype);
      fill([&](const Index& i) { return base.read(type.dtype, start + offset(type, i) * size); });
    } else if (n.op == "prim::scatter") {
      out = t(n, "base");
      const Tensor& src = t(n, "src");
      const auto sizes = list(n, "sizes"), strides = list(n, "strides");
      const int size = precast::ir::itemsize(src.type.dtype);
      each(sizes, [&](const Index& i) {
        int64_t o = static_cast<int64_t>(num(n, "offset")) / size;
        for (size_t d = 0; d < i.size(); ++d) o += i[d] * strides[d];
        out.set(o, broadcast(src, i));
      });
    } else if (op == "clone" || op == "_to_copy") {
      fill([&](const Index& i) { return cast(type.dtype, t(n, "self").type.dtype, at(t(n, "self"), i)); });
    } else if (op == "where") {
      fill([&](const Index& i) {
        return broadcast(t(n, "condition"), i) != 0 ? broadcast(t(n, "self"), i) : broadcast(t(n, "other"), i);
      });
    } else if (op == "full") {
      fill([&](const Index&) { return num(n, "fill_value"); });
    } else if (op == "arange") {
      fill([&](const Index& i) { return num(n, "start") + num(n, "step") * static_cast<Real>(i[0]); });
    } else if (op == "sum" || op == "prod" || op == "amax" || op == "amin" || op == "argmax" || op == "argmin" ||
               op == "any" || op == "all") {
      reduce(n, op, out);
    } else if (op == "cumsum" || op == "cumprod") {
      const Tensor& x = t(n, "self");
      auto d = static_cast<int64_t>(num(n, "dim"));
      const auto rank = static_cast<int64_t>(type.sizes.size());
      if (d < 0) d += rank;
      fill([&](const Index& i) {
        if (rank == 0) return at(x, i);
        Real a = op == "cumsum" ? 0 : 1;
        Index j = i;
        for (int64_t k = 0; k <= i[static_cast<size_t>(d)]; ++k) {
          j[static_cast<size_t>(d)] = k;
          a = op == "cumsum" ? a + at(x, j) : a * at(x, j);
        }
        return a;
      });
    } else if (op == "mm" || op == "bmm") {
      const Tensor &a = t(n, "self"), &b = t(n, "mat2");
      fill([&](const Index& i) {
        Real s = 0;
        for (int64_t k = 0; k < a.type.sizes.back(); ++k) {
          Index ia = i, ib = i;
          ia.back() = k;
          ib[ib.size() - 2] = k;
          s += at(a, ia) * at(b, ib);
        }
        return s;
      });
    } else if (op == "einsum") {
      einsum(n, out);
    } else if (op == "gather" || op == "index_select") {
      const Tensor &x = t(n, "self"), &index = t(n, "index");
      auto d = static_cast<int64_t>(num(n, "dim"));
      if (d < 0) d += static_cast<int64_t>(x.type.sizes.size());
      fill([&](const Index& i) {
        Index j = i;
        const Index k = op == "gather" ? i : Index{i[static_cast<size_t>(d)]};
        j[static_cast<size_t>(d)] =
            bound(static_cast<int64_t>(at(index, k)), x.type.sizes[static_cast<size_t>(d)], false);
        return at(x, j);
      });
    } else if (op == "embedding") {
      fill([&](const Index& i) {
        const Tensor& w = t(n, "weight");
        const Index k(i.begin(), i.end() - 1);
        return at(w, {bound(static_cast<int64_t>(at(t(n, "indices"), k)), w.type.sizes[0], false), i.back()});
      });
    } else if (op == "index") {
      const Tensor& x = t(n, "self");
      fill([&](const Index& i) { return at(x, resolve(n, x.type, i)); });
    } else if (op == "index_put") {
      out = t(n, "self");
      const Tensor& values = t(n, "values");
      each(indexed_shape(n, type), [&](const Index& i) {
        const int64_t o = offset(type, resolve(n, type, i));
        out.set(o, broadcast(values, i) + (num(n, "accumulate") != 0 ? out.get(o) : 0));
      });
    } else if (op == "scatter" || op == "scatter_add" || op == "scatter_reduce" || op == "index_add") {
      out = t(n, "self");
      const Tensor& index = t(n, "index");
      auto d = static_cast<int64_t>(num(n, "dim"));
      if (d < 0) d += static_cast<int64_t>(type.sizes.size());
      const bool whole = op == "index_add";
      each(whole ? t(n, "source").type.sizes : index.type.sizes, [&](const Index& i) {
        Index j = i;
        const Index k = whole ? Index{i[static_cast<size_t>(d)]} : i;
        j[static_cast<size_t>(d)] =
            bound(static_cast<int64_t>(at(index, k)), type.sizes[static_cast<size_t>(d)], false);
        const int64_t o = offset(type, j);
        const Real v = whole ? at(t(n, "source"), i) : is_tensor(n, "src") ? at(t(n, "src"), i) : num(n, "value");
        const std::string how = op == "scatter_reduce" ? std::get<std::string>(*n.find("reduce"))
                                : op == "scatter"      ? "none"
                                                       : "sum";
        const Real old = out.get(o);
        out.set(o, how == "none"   ? v
                   : how == "sum"  ? old + v
                   : how == "prod" ? old * v
                   : how == "amax" ? std::max(old, v)
                                   : std::min(old, v));
      });
    } else if (op == "embedding_dense_backward") {
      const Tensor &grad = t(n, "grad_output"), &index = t(n, "indices");
      each(grad.type.sizes, [&](const Index& i) {
        const auto row = static_cast<int64_t>(at(index, Index(i.begin(), i.end() - 1)));
        if (row == static_cast<int64_t>(num(n, "padding_idx"))) return;
        const int64_t o = offset(type, {bound(row, type.sizes[0], false), i.back()});
        out.set(o, out.get(o) + at(grad, i));
      });
    } else if (op == "cat") {
      int64_t start = 0;
      const auto d = static_cast<size_t>(num(n, "dim"));
      for (const auto& r : std::get<std::vector<precast::ir::Ref>>(*n.find("tensors"))) {
        const Tensor& x = v_.at(r.id);
        each(x.type.sizes, [&](const Index& i) {
          Index j = i;
          j[d] += start;
          out.set(offset(type, j), at(x, i));
        });
        start += x.type.sizes[d];
      }
    } else if (op == "constant_pad_nd") {
      const Tensor& x = t(n, "self");
      const auto pad = list(n, "pad");
      fill([&](const Index& i) {
        Index j = i;
        for (size_t k = 0; 2 * k < pad.size(); ++k) j[i.size() - 1 - k] -= pad[2 * k];
        for (size_t d = 0; d < j.size(); ++d)
          if (j[d] < 0 || j[d] >= x.type.sizes[d]) return num(n, "value");
        return at(x, j);
      });
    } else if (op == "flip") {
      fill([&](const Index& i) {
        Index j = i;
        for (const int64_t d : list(n, "dims"))
          j[static_cast<size_t>(d)] = type.sizes[static_cast<size_t>(d)] - 1 - i[static_cast<size_t>(d)];
        return at(t(n, "self"), j);
      });
    } else if (op == "roll") {
      const auto shifts = list(n, "shifts"), dims = list(n, "dims");
      fill([&](const Index& i) {
        Index j = i;
        for (size_t k = 0; k < dims.size(); ++k) {
          const auto d = static_cast<size_t>(dims[k]);
          j[d] = ((i[d] - shifts[k]) % type.sizes[d] + type.sizes[d]) % type.sizes[d];
        }
        return at(t(n, "self"), j);
      });
    } else if (op == "repeat") {
      const Tensor& x = t(n, "self");
      fill([&](const Index& i) {
        Index j(i.end() - static_cast<std::ptrdiff_t>(x.type.sizes.size()), i.end());
        for (size_t d = 0; d < j.size(); ++d) j[d] %= x.type.sizes[d];
        return at(x, j);
      });
    } else {
      const std::string second = n.find("exponent") ? "exponent" : "other";
      std::string f = op;
      if (op == "div" && n.find("rounding_mode") && std::get_if<std::string>(n.find("rounding_mode")))
        f += "_" + std::get<std::string>(*n.find("rounding_mode"));
      Dtype d = type.dtype;
      for (const char* a : {"self", second.c_str()})
        if (is_tensor(n, a)) d = t(n, a).type.dtype;
      fill([&](const Index& i) {
        const Real a = operand(n, "self", i);
        return n.find(second) ? binary(f, d, a, operand(n, second.c_str(), i)) : unary(f, d, a);
      });
    }
    v_[n.outs[0].id] = std::move(out);
  }

  void einsum(const Node& n, Tensor& out) {
    const auto& refs = std::get<std::vector<precast::ir::Ref>>(*n.find("tensors"));
    const auto& equation = std::get<std::string>(*n.find("equation"));
    const size_t comma = equation.find(','), arrow = equation.find("->");
    const std::string left = equation.substr(0, comma), right = equation.substr(comma + 1, arrow - comma - 1),
                      result = equation.substr(arrow + 2);
    const Tensor &a = v_.at(refs[0].id), &b = v_.at(refs[1].id);
    std::map<char, int64_t> sizes, now;
    for (size_t d = 0; d < left.size(); ++d) sizes[left[d]] = a.type.sizes[d];
    for (size_t d = 0; d < right.size(); ++d) sizes[right[d]] = b.type.sizes[d];
    std::string summed;
    Index summed_sizes;
    for (const auto& [letter, size] : sizes)
      if (result.find(letter) == std::string::npos) summed += letter, summed_sizes.push_back(size);
    const auto element = [&](const Tensor& x, const std::string& dims) {
      Index i;
      for (const char d : dims) i.push_back(now[d]);
      return at(x, i);
    };
    each(out.type.sizes, [&](const Index& i) {
      for (size_t d = 0; d < i.size(); ++d) now[result[d]] = i[d];
      Real sum = 0;
      each(summed_sizes, [&](const Index& k) {
        for (size_t d = 0; d < k.size(); ++d) now[summed[d]] = k[d];
        sum += element(a, left) * element(b, right);
      });
      out.set(offset(out.type, i), sum);
    });
  }

  // ---- self[indices] ----
  struct Advanced {
    std::vector<const Tensor*> indices;
    Index shape;
    size_t first = 0;
  };
  Advanced advanced(const Node& n, size_t rank) {
    Advanced a;
    a.indices.assign(rank, nullptr);
    const auto& refs = std::get<std::vector<precast::ir::Ref>>(*n.find("indices"));
    int last = -1;
    bool adjacent = true, any = false;
    for (size_t d = 0; d < refs.size(); ++d) {
      if (refs[d].id < 0) continue;
      a.indices[d] = &v_.at(refs[d].id);
      if (any && static_cast<int>(d) != last + 1) adjacent = false;
      if (!any) a.first = d;
      any = true;
      last = static_cast<int>(d);
      const Index s = precast::ir::numbers(a.indices[d]->type.sizes);
      while (a.shape.size() < s.size()) a.shape.insert(a.shape.begin(), 1);
      for (size_t i = 0; i < s.size(); ++i) {
        int64_t& to = a.shape[a.shape.size() - s.size() + i];
        to = std::max(to, s[i]);
      }
    }
    if (!adjacent) a.first = 0;
    return a;
  }
  Index indexed_shape(const Node& n, const Type& self) {
    const Advanced a = advanced(n, self.sizes.size());
    Index r;
    for (size_t d = 0; d < self.sizes.size(); ++d)
      if (!a.indices[d]) r.push_back(self.sizes[d]);
    r.insert(r.begin() + static_cast<std::ptrdiff_t>(a.first), a.shape.begin(), a.shape.end());
    return r;
  }
  Index resolve(const Node& n, const Type& self, const Index& i) {
    const Advanced a = advanced(n, self.sizes.size());
    const Index inside(i.begin() + static_cast<std::ptrdiff_t>(a.first),
                       i.begin() + static_cast<std::ptrdiff_t>(a.first + a.shape.size()));
    Index rest(i.begin(), i.begin() + static_cast<std::ptrdiff_t>(a.first));
    rest.insert(rest.end(), i.begin() + static_cast<std::ptrdiff_t>(a.first + a.shape.size()), i.end());
    Index j;
    size_t next = 0;
    for (size_t d = 0; d < self.sizes.size(); ++d)
      j.push_back(a.indices[d] ? bound(static_cast<int64_t>(broadcast(*a.indices[d], inside)), self.sizes[d], true)
                               : rest[next++]);
    return j;
  }

  const Graph& g_;
  std::map<ValueId, Tensor> v_;
};

}  // namespace reference
