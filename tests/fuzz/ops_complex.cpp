// Complex values, which stay with the host, and the ways into and out of them.
#include "operands.h"

namespace precast::fuzz {
namespace {

bool part(const at::Tensor& t) { return t.scalar_type() == at::kFloat || t.scalar_type() == at::kDouble; }
bool pairs(const at::Tensor& t) {
  return part(t) && t.dim() > 0 && t.size(-1) == 2 && t.stride(-1) == 1 && t.storage_offset() % 2 == 0;
}
bool plain_complex(const at::Tensor& t) { return complex_number(t) && !t.is_conj(); }

Args parts(State& s) {
  const Ref a = s.pick(part);
  if (a.value < 0) return {};
  const Ref b = same_dtype(s, a, [&](const at::Tensor& t) { return broadcasts(s.at(a), t); });
  if (b.value < 0) return {};
  return {{a, b}};
}
Args with_a_complex_one(State& s) {
  const Ref a = s.pick(complex_number);
  if (a.value < 0) return {};
  return {{a, s.pick([&](const at::Tensor& t) { return broadcasts(s.at(a), t); })}};
}
Args sum(State& s) {
  const Ref a = s.pick(complex_number);
  if (a.value < 0) return {};
  return {{a, dims_of(s, s.at(a)), s.random.chance(0.5)}};
}

}  // namespace

std::vector<Family> complex_families() {
  return {
      {"complex", Kind::exact, 1, {"aten::complex"}, parts},
      {"pairs", Kind::exact, 1, {"aten::view_as_complex"}, one<pairs>},
      {"parts", Kind::exact, 1, {"aten::real", "aten::imag", "aten::conj"}, one<complex_number>},
      {"as pairs", Kind::exact, 1, {"aten::view_as_real"}, one<plain_complex>},
      {"of complex",
       Kind::exact,
       1,
       {"aten::neg", "aten::clone", "aten::resolve_conj", "aten::conj_physical"},
       one<complex_number>},
      {"maths of complex",
       Kind::inexact,
       1,
       {"aten::abs", "aten::exp", "aten::square", "aten::reciprocal"},
       one<complex_number>},
      {"arithmetic with complex",
       Kind::inexact,
       1,
       {"aten::add.Tensor", "aten::mul.Tensor", "aten::sub.Tensor"},
       with_a_complex_one},
      {"sum of complex", Kind::inexact, 1, {"aten::sum.dim_IntList"}, sum},
  };
}

}  // namespace precast::fuzz
