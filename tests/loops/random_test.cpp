// Random programs of views, broadcasts, reductions, windows, joins and products: what fusion must not change.
// PRECAST_LOOPS_SEED and PRECAST_LOOPS_PROGRAMS look further than the fixed ones.
#include <cstdlib>
#include <random>
#include <set>

#include "check.h"
#include "ir/print.h"
#include "ir/type.h"

using precast::ir::Dims;
using precast::ir::Dtype;
using precast::ir::Size;
using precast::ir::Type;

namespace {

std::string list(const Dims& v) {
  std::string s = v.empty() ? "int[" : "[";
  for (size_t i = 0; i < v.size(); ++i) s += (i ? ", " : "") + std::to_string(v[i]);
  return s + "]";
}

class Generator {
 public:
  explicit Generator(uint32_t seed) : random_(seed) {}

  compiled::Program program(const std::string& name) {
    const int inputs = pick(2, 3);
    std::string head = "graph(";
    for (int i = 0; i < inputs; ++i) {
      Dims sizes;
      for (int d = pick(1, 3); d-- > 0;)
        sizes.push_back(sizes_[static_cast<size_t>(pick(0, static_cast<int>(sizes_.size()) - 1))]);
      Type t = precast::ir::contiguous(Dtype::f32, sizes);
      if (sizes.size() == 2 && coin()) t.strides = {1, sizes[0]};
      values_.push_back({next_++, t, false});
      head += (i ? ", %" : "%") + std::to_string(values_.back().id) + ": " + precast::ir::to_string(t);
    }
    for (int n = pick(6, 18); n-- > 0;) step();
    std::string results;
    std::set<int> chosen;
    for (int n = pick(1, 4); n-- > 0;)
      chosen.insert(values_[values_.size() - 1 -
                            static_cast<size_t>(pick(0, std::min<int>(5, static_cast<int>(values_.size()) - 1)))]
                        .id);
    for (const int id : chosen) results += (results.empty() ? "%" : ", %") + std::to_string(id);
    return {name, head + ") {\n" + text_ + "return (" + results + ")\n}", 1e-3, 1e-3};
  }

 private:
  struct Value {
    int id;
    Type type;
    bool computed;
    int base = -1;  // of a view, with its offset in elements
    int64_t offset = 0;
  };

  int pick(int low, int high) { return std::uniform_int_distribution<int>(low, high)(random_); }
  bool coin() { return pick(0, 1) == 1; }
  Value any() {
    return values_[values_.size() - 1 -
                   static_cast<size_t>(std::min(pick(0, static_cast<int>(values_.size()) - 1),
                                                pick(0, static_cast<int>(values_.size()) - 1)))];
  }

  Value emit(const Type& t, const std::string& call) {
    const Value v{next_++, t, true};
    text_ += "%" + std::to_string(v.id) + ": " + precast::ir::to_string(t) + " = " + call + "\n";
    values_.push_back(v);
    return v;
  }
  Value emit(Dims sizes, const std::string& call) {
    return emit(precast::ir::contiguous(Dtype::f32, std::move(sizes)), call);
  }
  static std::string ref(const Value& v) { return "%" + std::to_string(v.id); }

  /// A window on the base of v.
  Value view(const Value& v, const Type& t, int64_t extra) {
    const int base = v.base >= 0 ? v.base : v.id;
    const int64_t offset = v.offset + extra;
    Value r = emit(t, "prim::view(base=%" + std::to_string(base) + ", offset=" + std::to_string(4 * offset) + ")");
    values_.back().base = base, values_.back().offset = offset;
    return r;
  }

  void step() {
    const Value a = any();
    const auto rank = static_cast<int>(a.type.sizes.size());
    const std::string x = ref(a);
    if (a.type.numel() > 20000) return void(emit(a.type.sizes, "aten::neg(self=" + x + ")"));
    switch (pick(0, 13)) {
      case 0: {
        const char* ops[] = {"neg", "abs", "tanh", "relu", "sigmoid", "sin"};
        return void(emit(a.type.sizes, std::string("aten::") + ops[pick(0, 5)] + "(self=" + x + ")"));
      }
      case 1:
      case 2:
      case 3: {  // broadcasting
        for (int tries = 0; tries < 6; ++tries) {
          const Value b = any();
          Dims sizes(std::max(a.type.sizes.size(), b.type.sizes.size()));
          bool fits = true;
          for (size_t d = 0; d < sizes.size(); ++d) {
            const auto size = [&](const Type& t) {
              const size_t shift = sizes.size() - t.sizes.size();
              return d < shift ? Size(1) : t.sizes[d - shift];
            };
            const int64_t p = size(a.type), q = size(b.type);
            fits &= p == q || p == 1 || q == 1;
            sizes[d] = p == 1 ? q : p;
          }
          if (!fits) continue;
          const char* ops[] = {"aten::add.Tensor", "aten::mul.Tensor", "aten::maximum", "aten::sub.Tensor"};
          const int k = pick(0, 3);
          emit(sizes,
               std::string(ops[k]) + "(self=" + x + ", other=" + ref(b) + (k == 0 || k == 3 ? ", alpha=1)" : ")"));
          if (k == 1) emit(values_.back().type.sizes, "aten::tanh(self=" + ref(values_.back()) + ")");
          return;
        }
        return;
      }
      case 4:
      case 5: {
        if (rank == 0) return;
        Dims dims, sizes = a.type.sizes, dropped;
        for (int d = 0; d < rank; ++d)
          if (coin()) dims.push_back(d), sizes[static_cast<size_t>(d)] = 1;
        if (dims.empty()) return;
        const bool keep = coin();
        if (!keep) {
          for (int d = 0; d < rank; ++d)
            if (std::find(dims.begin(), dims.end(), d) == dims.end())
              dropped.push_back(a.type.sizes[static_cast<size_t>(d)]);
          sizes = dropped;
        }
        const bool max = coin();
        const std::string more = std::string(", keepdim=") + (keep ? "true" : "false");
        emit(sizes, max ? "aten::amax(self=" + x + ", dim=" + list(dims) + more + ")"
                        : "aten::sum.dim_IntList(self=" + x + ", dim=" + list(dims) + more + ", dtype=None)");
        if (!max) emit(sizes, "aten::mul.Scalar(self=" + ref(values_.back()) + ", other=0.05)");
        return;
      }
      case 6: {  // transposition
        if (rank < 2) return;
        Type t = a.type;
        const auto i = static_cast<size_t>(pick(0, rank - 1)), j = static_cast<size_t>(pick(0, rank - 1));
        std::swap(t.sizes[i], t.sizes[j]), std::swap(t.strides[i], t.strides[j]);
        return void(view(a, t, 0));
      }
      case 7: {  // slice
        if (rank == 0) return;
        Type t = a.type;
        const auto d = static_cast<size_t>(pick(0, rank - 1));
        if (t.sizes[d] < 3) return;
        const int start = pick(0, 1), every = pick(1, 2);
        t.sizes[d] = (t.sizes[d] - start + every - 1) / every;
        t.strides[d] *= every;
        return void(view(a, t, start * a.type.strides[d]));
      }
      case 8: {  // another shape
        if (a.base >= 0 || !a.type.is_contiguous() || a.type.numel() == 0) return;
        const int64_t n = a.type.numel();
        Dims sizes = {n};
        for (const int64_t f : {2, 3, 4, 5, 8, 16})
          if (n % f == 0 && coin()) {
            sizes = {n / f, f};
            break;
          }
        return void(view(a, precast::ir::contiguous(Dtype::f32, sizes), 0));
      }
      case 9:
        return void(emit(a.type.sizes, "aten::clone(self=" + x + ", memory_format=None)"));
      case 10: {
        if (rank == 0) return;
        Dims sizes = a.type.sizes;
        const int d = pick(0, rank - 1);
        sizes[static_cast<size_t>(d)] *= 2;
        return void(emit(sizes, "aten::cat(tensors=[" + x + ", " + x + "], dim=" + std::to_string(d) + ")"));
      }
      case 11: {  // a window of a new base is overwritten
        if (rank == 0 || a.type.sizes[0] < 2 || !a.type.is_contiguous()) return;
        Dims sizes = a.type.sizes;
        sizes[0] -= 1;
        Type t = a.type;
        t.sizes[0] -= 1;
        const Value src = view(a, t, coin() ? a.type.strides[0] : Size(0));
        const Value moved = coin() ? emit(sizes, "aten::neg(self=" + ref(src) + ")") : src;
        return void(emit(a.type, "prim::scatter(base=" + x + ", src=" + ref(moved) +
                                     ", offset=0, sizes=" + list(sizes) + ", strides=" + list(a.type.strides) + ")"));
      }
      case 12: {
        if (rank != 2 || a.type.sizes[0] > 60 || a.type.sizes[1] > 60) return;
        Type t = a.type;
        std::swap(t.sizes[0], t.sizes[1]), std::swap(t.strides[0], t.strides[1]);
        const Value b = view(a, t, 0);
        emit({a.type.sizes[0], a.type.sizes[0]}, "aten::mm(self=" + x + ", mat2=" + ref(b) + ")");
        return void(emit(values_.back().type.sizes, "aten::tanh(self=" + ref(values_.back()) + ")"));
      }
      default: {
        if (rank == 0) return;
        Dims dims;
        for (int d = 0; d < rank; ++d)
          if (coin()) dims.push_back(d);
        return void(emit(a.type.sizes,
                         dims.empty() ? "aten::exp2(self=" + ref(emit(a.type.sizes, "aten::tanh(self=" + x + ")")) + ")"
                                      : "aten::flip(self=" + x + ", dims=" + list(dims) + ")"));
      }
    }
  }

  std::mt19937 random_;
  Dims sizes_ = {1, 2, 3, 5, 8, 12, 17, 33};
  std::vector<Value> values_;
  std::string text_;
  int next_ = 0;
};

}  // namespace

TEST_CASE("random programs") {
  const char* seed = std::getenv("PRECAST_LOOPS_SEED");
  const char* count = std::getenv("PRECAST_LOOPS_PROGRAMS");
  const auto first = static_cast<uint32_t>(seed ? std::atoi(seed) : 1);
  std::vector<compiled::Program> programs;
  for (uint32_t i = 0; i < static_cast<uint32_t>(count ? std::atoi(count) : 60); ++i)
    programs.push_back(Generator(first + i).program("seed " + std::to_string(first + i)));
  for (const auto& p : programs) {
    INFO(p.text);
    CHECK_NOTHROW(precast::emit::lower(precast::ir::parse(p.text)));
  }
  check(programs);
}
