// Reads and writes through indices and masks.
#include "operands.h"

namespace precast::fuzz {
namespace {

// An integer input made to index a dimension of `size`.
Ref index_for(State& s, int64_t size, int64_t rank) {
  std::vector<int> found;
  for (size_t i = 0; i < s.program.inputs.size(); ++i) {
    const Input& in = s.program.inputs[i];
    if (in.index_below > 0 && in.index_below <= size && static_cast<int64_t>(in.sizes.size()) == rank)
      found.push_back(static_cast<int>(i));
  }
  return found.empty() ? Ref{} : Ref{s.random.choose(found)};
}
struct Indexed {
  Ref self, index;
  int64_t dim = 0;
};
template <class Pred>
Indexed indexed(State& s, Pred pred, int64_t index_rank) {  // rank -1: that of self
  Indexed r;
  r.self = s.pick([&](const at::Tensor& t) { return pred(t) && has_elements(t); });
  if (r.self.value < 0) return r;
  r.dim = dim_of(s, s.at(r.self));
  r.index = index_for(s, s.at(r.self).size(r.dim), index_rank < 0 ? s.at(r.self).dim() : index_rank);
  return r;
}
Args index_select(State& s) {
  const Indexed r = indexed(s, any, 1);
  if (r.index.value < 0) return {};
  return {{r.self, r.dim, r.index}};
}
Args gather(State& s) {
  const Indexed r = indexed(s, any, -1);
  if (r.index.value < 0) return {};
  return {{r.self, r.dim, r.index}};
}
Args take_along(State& s) {
  const Indexed r = indexed(s, any, -1);
  if (r.index.value < 0) return {};
  return {{r.self, r.index, r.dim}};
}
Args index(State& s) {
  const Indexed r = indexed(s, any, s.random.integer(1, 2));
  if (r.index.value < 0) return {};
  std::vector<Ref> list(from_start(r.dim, s.at(r.self)));
  list.push_back(r.index);
  return {{r.self, list}};
}
// Two indices, beside each other or apart.
Args index_twice(State& s) {
  const Ref self = s.pick([](const at::Tensor& t) { return t.dim() >= 2 && t.numel() > 0; });
  if (self.value < 0) return {};
  const int64_t rank = s.random.integer(1, 2), second = s.random.integer(1, s.at(self).dim() - 1);
  const Ref a = index_for(s, s.at(self).size(0), rank), b = index_for(s, s.at(self).size(second), rank);
  if (a.value < 0 || b.value < 0) return {};
  std::vector<Ref> list(static_cast<size_t>(second) + 1);
  list.front() = a;
  list.back() = b;
  return {{self, list}};
}
Args embedding(State& s) {
  const Ref table = s.pick([](const at::Tensor& t) { return t.dim() == 2 && t.numel() > 0 && floating(t); });
  if (table.value < 0) return {};
  const Ref rows = index_for(s, s.at(table).size(0), s.random.integer(1, 2));
  if (rows.value < 0) return {};
  return {{table, rows, s.random.chance(0.7) ? int64_t{-1} : int64_t{0}}};
}
Args take(State& s) {
  const Ref a = s.pick([](const at::Tensor& t) { return t.numel() > 0; });
  if (a.value < 0) return {};
  const Ref at = index_for(s, s.at(a).numel(), s.random.integer(1, 2));
  if (at.value < 0) return {};
  return {{a, at}};
}
template <bool in_place>
Args put(State& s) {
  const Ref a = s.pick([](const at::Tensor& t) { return target<in_place>(t) && t.numel() > 0; });
  if (a.value < 0) return {};
  const Ref at = index_for(s, s.at(a).numel(), s.random.integer(1, 2));
  if (at.value < 0) return {};
  const Ref source = same_dtype(s, a, [&](const at::Tensor& t) { return t.numel() == s.at(at).numel(); });
  if (source.value < 0) return {};
  // Which of two values for one place stays is undefined; eager goes by what lies contiguous.
  const bool in_order = s.at(a).is_contiguous() && s.at(at).is_contiguous() && s.at(source).is_contiguous();
  return {{a, at, source, !in_order || s.random.chance(0.5)}};
}
template <bool in_place>
Args scatter(State& s) {
  const Indexed r = indexed(s, target<in_place>, -1);
  if (r.index.value < 0) return {};
  const Ref source = s.pick([&](const at::Tensor& t) {
    if (t.dim() != s.at(r.index).dim() || t.scalar_type() != s.at(r.self).scalar_type()) return false;
    for (int64_t d = 0; d < t.dim(); ++d)
      if (t.size(d) < s.at(r.index).size(d)) return false;
    return true;
  });
  if (source.value < 0) return {};
  return {{r.self, r.dim, r.index, source}};
}
template <bool in_place>
Args scatter_value(State& s) {
  const Indexed r = indexed(s, [](const at::Tensor& t) { return target<in_place>(t) && !complex_number(t); }, -1);
  if (r.index.value < 0) return {};
  return {{r.self, r.dim, r.index, number_for(s, s.at(r.self))}};
}
template <bool in_place>
Args scatter_reduce(State& s) {
  Args args = scatter<in_place>(s);
  if (!args) return {};
  args->push_back(std::string(s.random.choose({"sum", "amax", "amin", "prod", "mean"})));
  args->push_back(s.random.chance(0.5));
  return args;
}
Args scatter_combined(State& s) {
  Args args = scatter<false>(s);
  if (!args) return {};
  args->push_back(std::string(s.random.choose({"add", "multiply"})));
  return args;
}
// Sizes of what is put where `index` points along `dim`.
std::vector<int64_t> put_sizes(State& s, const Indexed& r) {
  std::vector<int64_t> sizes = s.at(r.self).sizes().vec();
  sizes[from_start(r.dim, s.at(r.self))] = s.at(r.index).numel();
  return sizes;
}
template <bool in_place>
Args index_put(State& s) {
  const Indexed r = indexed(s, target<in_place>, 1);
  if (r.index.value < 0) return {};
  const auto sizes = put_sizes(s, r);
  const Ref value = same_dtype(s, r.self, [&](const at::Tensor& t) { return expands_to(t, at::IntArrayRef(sizes)); });
  if (value.value < 0) return {};
  std::vector<Ref> list(from_start(r.dim, s.at(r.self)));
  list.push_back(r.index);
  return {{r.self, list, value, s.random.chance(0.5)}};
}
template <bool in_place>
Args index_put_twice(State& s) {
  const Ref self = s.pick([](const at::Tensor& t) { return target<in_place>(t) && t.dim() == 2 && t.numel() > 0; });
  if (self.value < 0) return {};
  const Ref a = index_for(s, s.at(self).size(0), 1);
  if (a.value < 0) return {};
  const Ref b = index_for(s, s.at(self).size(1), 1);
  if (b.value < 0 || s.at(a).sizes() != s.at(b).sizes()) return {};
  const Ref value = same_dtype(s, self, [&](const at::Tensor& t) { return expands_to(t, s.at(a)); });
  if (value.value < 0) return {};
  return {{self, std::vector<Ref>{a, b}, value, s.random.chance(0.5)}};
}
// One value where a mask is set.
template <bool in_place>
Args mask_put(State& s) {
  const Ref self = s.pick(target<in_place>);
  if (self.value < 0) return {};
  const Ref mask = s.pick([&](const at::Tensor& t) { return boolean(t) && t.sizes() == s.at(self).sizes(); });
  const Ref value = same_dtype(s, self, [](const at::Tensor& t) { return t.numel() == 1 && t.dim() <= 1; });
  if (mask.value < 0 || value.value < 0) return {};
  return {{self, std::vector<Ref>{mask}, value, s.random.chance(0.2)}};
}
template <bool in_place>
Args index_add(State& s) {
  const Indexed r = indexed(s, target<in_place>, 1);
  if (r.index.value < 0) return {};
  const auto sizes = put_sizes(s, r);
  const Ref source = same_dtype(s, r.self, [&](const at::Tensor& t) { return t.sizes() == sizes; });
  if (source.value < 0) return {};
  return {{r.self, r.dim, r.index, source}};
}
Args index_reduce(State& s) {
  Args args = index_add<false>(s);
  if (!args) return {};
  args->push_back(std::string(s.random.choose({"prod", "amax", "amin", "mean"})));
  args->push_back(s.random.chance(0.5));
  return args;
}
template <bool in_place>
Args index_fill(State& s) {
  const Indexed r = indexed(s, [](const at::Tensor& t) { return target<in_place>(t) && !complex_number(t); }, 1);
  if (r.index.value < 0) return {};
  return {{r.self, r.dim, r.index, number_for(s, s.at(r.self))}};
}
template <bool in_place>
Args masked(State& s) {
  const Ref a = s.pick([](const at::Tensor& t) { return target<in_place>(t) && !complex_number(t); });
  if (a.value < 0) return {};
  const Ref mask = s.pick([&](const at::Tensor& t) { return boolean(t) && expands_to(t, s.at(a)); });
  if (mask.value < 0) return {};
  return {{a, mask}};
}
template <bool in_place>
Args masked_fill(State& s) {
  Args args = masked<in_place>(s);
  if (args) args->push_back(number_for(s, s.at(std::get<Ref>((*args)[0]))));
  return args;
}
template <bool in_place>
Args masked_fill_tensor(State& s) {
  Args args = masked<in_place>(s);
  if (!args) return {};
  const Ref value = s.pick([](const at::Tensor& t) { return t.dim() == 0 && !complex_number(t); });
  if (value.value < 0) return {};
  args->push_back(value);
  return args;
}
Args masked_scatter(State& s) {
  Args args = masked<false>(s);
  if (!args) return {};
  const Ref self = std::get<Ref>((*args)[0]);
  const Ref source = same_dtype(s, self, [&](const at::Tensor& t) { return t.numel() >= s.at(self).numel(); });
  if (source.value < 0) return {};
  args->push_back(source);
  return args;
}
Args where(State& s) {
  const Ref mask = s.pick(boolean);
  if (mask.value < 0) return {};
  const Ref a = s.pick([&](const at::Tensor& t) { return broadcasts(t, s.at(mask)); });
  if (a.value < 0) return {};
  const Ref b = s.pick([&](const at::Tensor& t) { return broadcasts(t, s.at(mask)) && broadcasts(t, s.at(a)); });
  return {{mask, a, b}};
}
Args where_number(State& s) {
  const Ref mask = s.pick(boolean);
  if (mask.value < 0) return {};
  const Ref a = s.pick([&](const at::Tensor& t) { return !complex_number(t) && broadcasts(t, s.at(mask)); });
  if (a.value < 0) return {};
  return {{mask, a, number_for(s, s.at(a))}};
}
Args where_number_first(State& s) {
  Args args = where_number(s);
  if (args) std::swap((*args)[1], (*args)[2]);
  return args;
}

}  // namespace

std::vector<Family> index_families() {
  return {
      {"write masked", Kind::exact, 1, {"aten::masked_fill_.Scalar"}, masked_fill<true>},
      {"write a value masked", Kind::exact, 1, {"aten::masked_fill_.Tensor"}, masked_fill_tensor<true>},
      {"write scattered", Kind::exact, 1, {"aten::scatter_.src"}, scatter<true>, Theme::table},
      {"write added", Kind::inexact, 1, {"aten::scatter_add_"}, scatter<true>, Theme::table},
      {"write reduced", Kind::inexact, 1, {"aten::scatter_reduce_.two"}, scatter_reduce<true>, Theme::table},
      {"write indexed", Kind::inexact, 2, {"aten::index_put_"}, index_put<true>, Theme::table},
      {"write indexed twice", Kind::inexact, 1, {"aten::index_put_"}, index_put_twice<true>, Theme::table},
      {"write where", Kind::inexact, 1, {"aten::index_put_"}, mask_put<true>},
      {"write rows", Kind::inexact, 1, {"aten::index_add_"}, index_add<true>, Theme::table},
      {"write rows over", Kind::exact, 1, {"aten::index_copy_"}, index_add<true>, Theme::table},
      {"fill rows", Kind::exact, 1, {"aten::index_fill_.int_Scalar"}, index_fill<true>, Theme::table},
      {"put in place", Kind::inexact, 1, {"aten::put_"}, put<true>, Theme::table},

      {"index_select", Kind::exact, 2, {"aten::index_select"}, index_select, Theme::table},
      {"gather", Kind::exact, 2, {"aten::gather"}, gather, Theme::table},
      {"take along", Kind::exact, 1, {"aten::take_along_dim"}, take_along, Theme::table},
      {"index", Kind::exact, 2, {"aten::index.Tensor"}, index, Theme::table},
      {"index twice", Kind::exact, 1, {"aten::index.Tensor"}, index_twice, Theme::table},
      {"embedding", Kind::exact, 2, {"aten::embedding"}, embedding, Theme::table},
      {"take", Kind::exact, 1, {"aten::take"}, take, Theme::table},
      {"put", Kind::inexact, 1, {"aten::put"}, put<false>, Theme::table},
      {"scatter", Kind::exact, 2, {"aten::scatter.src"}, scatter<false>, Theme::table},
      {"scatter a number", Kind::exact, 1, {"aten::scatter.value"}, scatter_value<false>, Theme::table},
      {"scatter_add", Kind::inexact, 2, {"aten::scatter_add"}, scatter<false>, Theme::table},
      {"scatter_reduce", Kind::inexact, 1, {"aten::scatter_reduce.two"}, scatter_reduce<false>, Theme::table},
      {"scatter and combine", Kind::inexact, 1, {"aten::scatter.reduce"}, scatter_combined, Theme::table},
      {"index_put", Kind::inexact, 2, {"aten::index_put"}, index_put<false>, Theme::table},
      {"index_put twice", Kind::inexact, 1, {"aten::index_put"}, index_put_twice<false>, Theme::table},
      {"put where", Kind::inexact, 1, {"aten::index_put"}, mask_put<false>},
      {"index_add", Kind::inexact, 1, {"aten::index_add"}, index_add<false>, Theme::table},
      {"index_copy", Kind::exact, 1, {"aten::index_copy"}, index_add<false>, Theme::table},
      {"index_reduce", Kind::inexact, 1, {"aten::index_reduce"}, index_reduce, Theme::table},
      {"index_fill", Kind::exact, 1, {"aten::index_fill.int_Scalar"}, index_fill<false>, Theme::table},
      {"masked_fill", Kind::exact, 2, {"aten::masked_fill.Scalar"}, masked_fill<false>},
      {"masked_fill with a value", Kind::exact, 1, {"aten::masked_fill.Tensor"}, masked_fill_tensor<false>},
      {"masked_scatter", Kind::exact, 1, {"aten::masked_scatter"}, masked_scatter},
      {"where", Kind::exact, 3, {"aten::where.self"}, where},
      {"where a number", Kind::exact, 1, {"aten::where.ScalarOther"}, where_number},
      {"where a number first", Kind::exact, 1, {"aten::where.ScalarSelf"}, where_number_first},
  };
}

}  // namespace precast::fuzz
