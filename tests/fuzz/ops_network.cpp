// Pieces of networks: norms, losses, convolution, pooling, attention, recurrent cells.
#include "operands.h"

namespace precast::fuzz {
namespace {

bool floats(const at::Tensor& t) { return floating(t) && t.numel() > 0; }

Ref vector_like(State& s, Ref a, int64_t size) {
  return same_dtype(s, a, [&](const at::Tensor& t) { return t.dim() == 1 && t.size(0) == size; });
}

// ---- norms

Args layer_norm(State& s) {
  const Ref a = s.pick([](const at::Tensor& t) { return t.dim() > 0 && floats(t); });
  if (a.value < 0) return {};
  const at::Tensor& x = s.at(a);
  const int64_t k = s.random.integer(1, std::min<int64_t>(2, x.dim()));
  const std::vector<int64_t> shape(x.sizes().end() - k, x.sizes().end());
  const auto fits = [&](const at::Tensor& t) { return t.sizes() == shape; };
  const Ref weight = same_dtype(s, a, fits);
  return {{a, shape, weight, weight.value < 0 ? Ref{} : same_dtype(s, a, fits)}};
}
Args rms_norm(State& s) {
  Args args = layer_norm(s);
  if (!args) return {};
  args->back() = s.random.chance(0.5) ? Arg(1e-5) : Arg();
  return args;
}
Args group_norm(State& s) {
  const Ref a = s.pick([](const at::Tensor& t) { return t.dim() >= 2 && floats(t); });
  if (a.value < 0) return {};
  const int64_t c = s.at(a).size(1), groups = c % 2 == 0 && s.random.chance(0.5) ? 2 : s.random.chance(0.5) ? c : 1;
  const Ref weight = vector_like(s, a, c);
  // Of one number a group, eager's x * scale - mean * scale is nothing but rounding.
  if (s.at(a).numel() == s.at(a).size(0) * groups) return {};
  // LibTorch 2.13's gradient without a weight crashes on channels-last memory.
  if (weight.value < 0 && !s.at(a).is_contiguous()) return {};
  return {{a, groups, weight, vector_like(s, a, c), 1e-5}};
}
// Statistics that training writes are values of their own, not of the operands.
Args batch_norm(State& s) {
  const Ref a = s.pick([](const at::Tensor& t) { return t.dim() >= 2 && t.dim() <= 4 && floats(t); });
  if (a.value < 0) return {};
  const int64_t c = s.at(a).size(1);
  const auto statistics = [&](Ref other) {
    return same_dtype(s, a, [&](const at::Tensor& t) {
      return t.dim() == 1 && t.size(0) == c && writable(t) && !t.requires_grad() && !t.is_alias_of(s.at(a)) &&
             (other.value < 0 || !t.is_alias_of(s.at(other)));
    });
  };
  Ref mean = statistics({}), var = mean.value < 0 ? Ref{} : statistics(mean);
  if (var.value < 0) mean = {};
  const bool training = mean.value < 0 || s.random.chance(0.6);
  const auto apart = [&](const at::Tensor& t) {
    return t.dim() == 1 && t.size(0) == c &&
           (mean.value < 0 || (!t.is_alias_of(s.at(mean)) && !t.is_alias_of(s.at(var))));
  };
  return {{a, same_dtype(s, a, apart), same_dtype(s, a, apart), mean, var, training, 0.1, 1e-3, false}};
}
Args instance_norm(State& s) {
  const Ref a = s.pick([](const at::Tensor& t) { return t.dim() >= 3 && t.dim() <= 4 && floats(t); });
  if (a.value < 0) return {};
  const int64_t c = s.at(a).size(1);
  return {{a, vector_like(s, a, c), vector_like(s, a, c), Ref{}, Ref{}, true, 0.1, 1e-3, false}};
}

// ---- losses

Arg reduction(State& s) { return s.random.integer(0, 2); }
Args loss(State& s) {
  Args args = same_sizes<floating>(s);
  if (args) args->push_back(reduction(s));
  return args;
}
Args loss_with_number(State& s) {
  Args args = loss(s);
  if (args) args->push_back(s.random.choose({0.5, 1.0}));
  return args;
}
Args loss_of_logits(State& s) {
  Args args = same_sizes<floating>(s);
  if (!args) return {};
  const Ref a = std::get<Ref>((*args)[0]);
  args->push_back(s.random.chance(0.3) ? like(s, a) : Ref{});
  args->push_back(s.random.chance(0.3) ? like(s, a) : Ref{});
  args->push_back(reduction(s));
  return args;
}
Args cross_entropy(State& s) {
  const Ref a = s.pick([](const at::Tensor& t) { return (t.dim() == 2 || t.dim() == 3) && floats(t); });
  if (a.value < 0) return {};
  std::vector<int64_t> sizes = s.at(a).sizes().vec();
  const int64_t classes = sizes[1];
  sizes.erase(sizes.begin() + 1);
  for (size_t i = 0; i < s.program.inputs.size(); ++i) {
    const Input& in = s.program.inputs[i];
    if (in.dtype != at::kLong || in.index_below <= 0 || in.index_below > classes || in.sizes != sizes) continue;
    return {{a, Ref{static_cast<int>(i)}, s.random.chance(0.3) ? vector_like(s, a, classes) : Ref{}, reduction(s),
             s.random.choose({int64_t{-100}, int64_t{0}})}};
  }
  return {};
}
Args smoothed_cross_entropy(State& s) {
  Args args = cross_entropy(s);
  if (args) args->push_back(s.random.choose({0.0, 0.1}));
  return args;
}
Args along(State& s) {
  Args args = same_sizes<floating>(s);
  if (args) args->push_back(dim_of(s, s.at(std::get<Ref>((*args)[0]))));
  return args;
}
Args distance(State& s) {
  Args args = same_sizes<floating>(s);
  if (args) args->push_back(s.random.choose({1.0, 2.0}));
  return args;
}

// ---- images

using Dims = std::vector<int64_t>;
Dims twice(State& s, int64_t low, int64_t high) { return {s.random.integer(low, high), s.random.integer(low, high)}; }
Ref image(State& s) {
  return s.pick([](const at::Tensor& t) { return t.dim() == 4 && floats(t) && t.size(2) > 1 && t.size(3) > 1; });
}
// Weights [out, in / groups, ...] for an operand of `rank` dimensions.
Args conv(State& s, int64_t rank) {
  const Ref a = s.pick([&](const at::Tensor& t) { return t.dim() == rank && floats(t); });
  if (a.value < 0) return {};
  const at::Tensor& x = s.at(a);
  const Ref w = same_dtype(s, a, [&](const at::Tensor& t) {
    if (t.dim() != rank || t.numel() == 0 || x.size(1) % t.size(1) || t.size(0) % (x.size(1) / t.size(1))) return false;
    for (int64_t d = 2; d < rank; ++d)
      if (t.size(d) > x.size(d) || t.size(d) > 7) return false;
    return true;
  });
  if (w.value < 0) return {};
  Dims stride, padding, dilation;
  for (int64_t d = 2; d < rank; ++d) {
    stride.push_back(s.random.integer(1, 2));
    padding.push_back(s.random.integer(0, 2));
    dilation.push_back(s.random.chance(0.8) ? 1 : 2);
  }
  return {{a, w, vector_like(s, a, s.at(w).size(0)), stride, padding, dilation, x.size(1) / s.at(w).size(1)}};
}
Args conv1d(State& s) { return conv(s, 3); }
Args conv2d(State& s) { return conv(s, 4); }
Args conv_transpose2d(State& s) {
  const Ref a = image(s);
  if (a.value < 0) return {};
  const Ref w = same_dtype(s, a, [&](const at::Tensor& t) {
    return t.dim() == 4 && t.numel() > 0 && t.size(0) == s.at(a).size(1) && t.size(2) <= 5 && t.size(3) <= 5;
  });
  if (w.value < 0) return {};
  return {{a, w, vector_like(s, a, s.at(w).size(1)), twice(s, 1, 2), twice(s, 0, 1)}};
}
Args max_pool(State& s) {
  const Ref a = image(s);
  if (a.value < 0) return {};
  return {{a, twice(s, 1, 3), twice(s, 1, 2), twice(s, 0, 0), twice(s, 1, 1), s.random.chance(0.3)}};
}
Args avg_pool(State& s) {
  const Ref a = image(s);
  if (a.value < 0) return {};
  return {{a, twice(s, 1, 3), s.random.chance(0.5) ? Dims{} : twice(s, 1, 2), twice(s, 0, 0), s.random.chance(0.3),
           s.random.chance(0.5)}};
}
Args adaptive_pool(State& s) {
  const Ref a = image(s);
  if (a.value < 0) return {};
  return {{a, twice(s, 1, 3)}};
}
Args upsample(State& s) {
  const Ref a = image(s);
  if (a.value < 0) return {};
  return {{a, twice(s, 2, 9)}};
}
Args upsample_smooth(State& s) {
  Args args = upsample(s);
  if (args) args->push_back(s.random.chance(0.5));
  return args;
}
Args shuffle(State& s) {
  const Ref a = s.pick([](const at::Tensor& t) { return t.dim() == 4 && t.size(1) > 0 && t.size(1) % 4 == 0; });
  if (a.value < 0) return {};
  return {{a, int64_t{2}}};
}
Args unshuffle(State& s) {
  const Ref a = s.pick([](const at::Tensor& t) { return t.dim() == 4 && t.size(2) % 2 == 0 && t.size(3) % 2 == 0; });
  if (a.value < 0) return {};
  return {{a, int64_t{2}}};
}
Args columns(State& s) {
  const Ref a = image(s);
  if (a.value < 0) return {};
  return {{a, twice(s, 1, 2), twice(s, 1, 1), twice(s, 0, 1), twice(s, 1, 2)}};
}

// ---- attention, recurrent cells

Args attention(State& s) {
  const Ref q = s.pick([](const at::Tensor& t) { return (t.dim() == 3 || t.dim() == 4) && floats(t); });
  if (q.value < 0) return {};
  const Ref k = same_dtype(s, q, [&](const at::Tensor& t) {
    if (t.dim() != s.at(q).dim() || t.numel() == 0 || t.size(-1) != s.at(q).size(-1)) return false;
    return t.sizes().slice(0, static_cast<size_t>(t.dim()) - 2) ==
           s.at(q).sizes().slice(0, static_cast<size_t>(t.dim()) - 2);
  });
  if (k.value < 0) return {};
  const Ref v = like(s, k);
  const bool causal = s.random.chance(0.4);
  const Dims mask = {s.at(q).size(-2), s.at(k).size(-2)};
  return {{q, k, v, causal ? Ref{} : same_dtype(s, q, [&](const at::Tensor& t) { return t.sizes() == mask; }), 0.0,
           causal}};
}
template <int gates, bool state_is_list>
Args cell(State& s) {
  const Ref h = s.pick([](const at::Tensor& t) { return t.dim() == 2 && floats(t); });
  if (h.value < 0) return {};
  const int64_t batch = s.at(h).size(0), hidden = s.at(h).size(1);
  const Ref x =
      same_dtype(s, h, [&](const at::Tensor& t) { return t.dim() == 2 && t.size(0) == batch && t.size(1) > 0; });
  if (x.value < 0) return {};
  const auto weight = [&](int64_t columns) {
    const Dims sizes = {gates * hidden, columns};
    return same_dtype(s, h, [&](const at::Tensor& t) { return t.sizes() == sizes; });
  };
  const Ref w_ih = weight(s.at(x).size(1)), w_hh = weight(hidden);
  if (w_ih.value < 0 || w_hh.value < 0) return {};
  const Ref bias = vector_like(s, h, gates * hidden);
  return {{x, state_is_list ? Arg(std::vector<Ref>{h, like(s, h)}) : Arg(h), w_ih, w_hh, bias, bias}};
}

}  // namespace

std::vector<Family> network_families() {
  return {
      {"softmax", Kind::inexact, 3, {"aten::softmax.int", "aten::log_softmax.int"}, with_dim<floating>, Theme::rows},
      {"layer_norm", Kind::inexact, 2, {"aten::layer_norm"}, layer_norm, Theme::rows},
      {"rms_norm", Kind::inexact, 1, {"aten::rms_norm"}, rms_norm, Theme::rows},
      {"group_norm", Kind::inexact, 1, {"aten::group_norm"}, group_norm, Theme::image},
      {"batch_norm", Kind::inexact, 2, {"aten::batch_norm"}, batch_norm, Theme::image},
      {"instance_norm", Kind::inexact, 1, {"aten::instance_norm"}, instance_norm, Theme::image},
      {"loss", Kind::inexact, 2, {"aten::mse_loss", "aten::l1_loss", "aten::kl_div", "aten::soft_margin_loss"}, loss},
      {"loss with a bend", Kind::inexact, 1, {"aten::smooth_l1_loss", "aten::huber_loss"}, loss_with_number},
      {"loss of logits", Kind::inexact, 1, {"aten::binary_cross_entropy_with_logits"}, loss_of_logits},
      {"cross_entropy", Kind::inexact, 2, {"aten::cross_entropy_loss"}, smoothed_cross_entropy, Theme::table},
      {"nll", Kind::inexact, 1, {"aten::nll_loss_nd"}, cross_entropy, Theme::table},
      {"similarity", Kind::inexact, 1, {"aten::cosine_similarity"}, along},
      {"distance", Kind::inexact, 1, {"aten::pairwise_distance"}, distance},
      {"conv1d", Kind::inexact, 1, {"aten::conv1d"}, conv1d},
      {"conv2d", Kind::inexact, 3, {"aten::conv2d"}, conv2d, Theme::image},
      {"conv_transpose2d", Kind::inexact, 1, {"aten::conv_transpose2d.input"}, conv_transpose2d, Theme::image},
      {"max_pool2d", Kind::exact, 1, {"aten::max_pool2d"}, max_pool, Theme::image},
      {"avg_pool2d", Kind::inexact, 1, {"aten::avg_pool2d"}, avg_pool, Theme::image},
      {"adaptive pool", Kind::inexact, 1, {"aten::adaptive_avg_pool2d"}, adaptive_pool, Theme::image},
      {"upsample", Kind::exact, 1, {"aten::upsample_nearest2d"}, upsample, Theme::image},
      {"smooth upsample", Kind::inexact, 1, {"aten::upsample_bilinear2d"}, upsample_smooth, Theme::image},
      {"shuffle", Kind::exact, 1, {"aten::pixel_shuffle"}, shuffle, Theme::image},
      {"unshuffle", Kind::exact, 1, {"aten::pixel_unshuffle"}, unshuffle, Theme::image},
      {"columns", Kind::exact, 1, {"aten::im2col"}, columns, Theme::image},
      {"attention", Kind::inexact, 2, {"aten::scaled_dot_product_attention"}, attention, Theme::attention},
      {"tanh cell", Kind::inexact, 1, {"aten::rnn_tanh_cell"}, cell<1, false>, Theme::cell},
      {"gru cell", Kind::inexact, 1, {"aten::gru_cell"}, cell<3, false>, Theme::cell},
      {"lstm cell", Kind::inexact, 1, {"aten::lstm_cell"}, cell<4, true>, Theme::cell},
  };
}

}  // namespace precast::fuzz
