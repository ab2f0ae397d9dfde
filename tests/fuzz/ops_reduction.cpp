// Reductions, scans, order.
#include <limits>

#include "operands.h"

namespace precast::fuzz {
namespace {

Args max_dim(State& s) {
  const Ref a = s.pick([](const at::Tensor& t) { return t.numel() > 0 && !complex_number(t); });
  if (a.value < 0) return {};
  return {{a, dim_of(s, s.at(a)), s.random.chance(0.5)}};
}
Args variance(State& s) {
  const Ref a = s.pick(floating);
  if (a.value < 0) return {};
  return {{a, s.random.chance(0.5) ? dims_of(s, s.at(a)) : std::vector<int64_t>{dim_of(s, s.at(a))},
           s.random.integer(0, 1), s.random.chance(0.5)}};
}
Args vector_norm(State& s) {
  const Ref a = s.pick([](const at::Tensor& t) { return floating(t) && t.numel() > 0; });
  if (a.value < 0) return {};
  constexpr double inf = std::numeric_limits<double>::infinity();
  return {{a, s.random.choose({0.0, 1.0, 2.0, 2.0, 3.0, inf, -inf}), dims_of(s, s.at(a)), s.random.chance(0.5)}};
}
Args norm(State& s) {
  const Ref a = s.pick(floating);
  if (a.value < 0) return {};
  return {{a, s.random.choose({1.0, 2.0}), dims_of(s, s.at(a)), s.random.chance(0.5)}};
}
Args norm_of_all(State& s) {
  const Ref a = s.pick(floating);
  if (a.value < 0) return {};
  return {{a, s.random.choose({1.0, 2.0})}};
}
Args topk(State& s) {
  const Ref a = s.pick([](const at::Tensor& t) { return has_elements(t) && numeric(t); });
  if (a.value < 0) return {};
  const int64_t dim = dim_of(s, s.at(a));
  return {{a, s.random.integer(1, s.at(a).size(dim)), dim}};
}
Args kth(State& s) {
  const Ref a = s.pick([](const at::Tensor& t) { return has_elements(t) && numeric(t); });
  if (a.value < 0) return {};
  const int64_t dim = dim_of(s, s.at(a));
  return {{a, s.random.integer(1, s.at(a).size(dim)), dim, s.random.chance(0.5)}};
}
Args sum_as(State& s) {
  const Ref a = s.pick(not_complex);
  if (a.value < 0) return {};
  const auto dtype = floating(s.at(a)) ? s.random.choose({at::kDouble, at::kFloat})
                                       : s.random.choose({at::kInt, at::kFloat, at::kLong, at::kShort});
  return {{a, dims_of(s, s.at(a)), s.random.chance(0.5), dtype}};
}
Args scan_as(State& s) {
  const Ref a = s.pick(not_complex);
  if (a.value < 0) return {};
  return {{a, dim_of(s, s.at(a)),
           floating(s.at(a)) ? s.random.choose({at::kDouble, at::kFloat}) : s.random.choose({at::kInt, at::kFloat})}};
}
Args difference(State& s) {
  const Ref a = s.pick([](const at::Tensor& t) { return t.dim() > 0 && !complex_number(t); });
  if (a.value < 0) return {};
  return {{a, s.random.integer(1, 2), dim_of(s, s.at(a))}};
}
Args both_extremes(State& s) {
  const Ref a = s.pick([](const at::Tensor& t) { return t.numel() > 0 && !complex_number(t); });
  if (a.value < 0) return {};
  return {{a, s.random.chance(0.3) ? Arg() : Arg(dim_of(s, s.at(a))), s.random.chance(0.5)}};
}
Args count_along(State& s) {
  const Ref a = s.pick(not_complex);
  if (a.value < 0) return {};
  return {{a, dims_of(s, s.at(a))}};
}
Args buckets(State& s) {
  const Ref a = s.pick(numeric);
  if (a.value < 0) return {};
  const Ref b = same_dtype(s, a, [](const at::Tensor& t) { return t.dim() == 1; });
  if (b.value < 0) return {};
  return {{a, b, s.random.chance(0.3), s.random.chance(0.5)}};
}
Args among(State& s) {
  const Ref a = s.pick(numeric);
  if (a.value < 0) return {};
  return {{a, same_dtype(s, a, any)}};
}
bool filled(const at::Tensor& t) { return numeric(t) && t.numel() > 0; }
bool square_matrix(const at::Tensor& t) { return t.dim() == 2 && !complex_number(t); }

}  // namespace

std::vector<Family> reduction_families() {
  return {
      {"sum",
       Kind::inexact,
       3,
       {"aten::sum.dim_IntList", "aten::mean.dim", "aten::nansum", "aten::logsumexp", "aten::nanmean"},
       with_dims_keep<not_complex>},
      {"sum as", Kind::inexact, 1, {"aten::sum.dim_IntList"}, sum_as},
      {"sum of all", Kind::inexact, 2, {"aten::sum", "aten::mean", "aten::prod"}, one<not_complex>},
      {"product", Kind::inexact, 1, {"aten::prod.dim_int"}, with_dim_keep<not_complex>},
      {"trace", Kind::inexact, 1, {"aten::trace"}, one<square_matrix>, Theme::matrix},
      {"extreme", Kind::exact, 2, {"aten::amax", "aten::amin"}, with_dims_keep<not_complex>},
      {"extreme and place",
       Kind::discontinuous,
       2,
       {"aten::max.dim", "aten::min.dim", "aten::argmax", "aten::argmin"},
       max_dim},
      {"extreme of all", Kind::exact, 1, {"aten::max", "aten::min"}, one<not_complex>},
      {"both extremes", Kind::exact, 1, {"aten::aminmax"}, both_extremes},
      {"truth",
       Kind::discontinuous,
       1,
       {"aten::any", "aten::all", "aten::argmax", "aten::argmin", "aten::count_nonzero"},
       one<not_complex>},
      {"truth along", Kind::discontinuous, 1, {"aten::any.dim", "aten::all.dim"}, with_dim_keep<not_complex>},
      {"truth along some", Kind::discontinuous, 1, {"aten::any.dims", "aten::all.dims"}, with_dims_keep<not_complex>},
      {"count along", Kind::discontinuous, 1, {"aten::count_nonzero.dim_IntList"}, count_along},
      {"scan", Kind::inexact, 2, {"aten::cumsum", "aten::cumprod"}, with_dim<numeric>},
      {"scan as", Kind::inexact, 1, {"aten::cumsum", "aten::cumprod"}, scan_as},
      {"scan of exponentials", Kind::inexact, 1, {"aten::logcumsumexp"}, with_dim<floating>},
      {"running extreme", Kind::discontinuous, 1, {"aten::cummax", "aten::cummin"}, with_dim<numeric>},
      {"difference", Kind::exact, 1, {"aten::diff"}, difference},
      {"variance",
       Kind::inexact,
       2,
       {"aten::var.correction", "aten::std.correction", "aten::var_mean.correction", "aten::std_mean.correction"},
       variance},
      {"vector norm", Kind::inexact, 1, {"aten::linalg_vector_norm"}, vector_norm},
      {"norm", Kind::inexact, 1, {"aten::norm.ScalarOpt_dim"}, norm},
      {"norm of all", Kind::inexact, 1, {"aten::norm.Scalar"}, norm_of_all},
      {"order", Kind::discontinuous, 1, {"aten::sort", "aten::argsort"}, with_dim<numeric>},
      {"topk", Kind::discontinuous, 1, {"aten::topk"}, topk},
      {"kth", Kind::discontinuous, 1, {"aten::kthvalue"}, kth},
      {"median", Kind::discontinuous, 1, {"aten::median"}, one<filled>},
      {"median along", Kind::discontinuous, 1, {"aten::median.dim"}, with_dim_keep<filled>},
      {"buckets", Kind::discontinuous, 1, {"aten::bucketize.Tensor"}, buckets},
      {"among", Kind::discontinuous, 1, {"aten::isin.Tensor_Tensor"}, among},
  };
}

}  // namespace precast::fuzz
