#include "program.h"

#include <ATen/core/dispatch/Dispatcher.h>
#include <torch/torch.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "formula.h"
#include "random.h"

namespace precast::fuzz {
namespace {

std::vector<int64_t> reversed_order(size_t n) {
  std::vector<int64_t> order(n);
  for (size_t d = 0; d < n; ++d) order[d] = static_cast<int64_t>(n - 1 - d);
  return order;
}

at::Tensor fill(const Input& in, Variant variant) {
  const Formula f = formula(in, variant);
  const std::vector<int64_t> sizes = storage_sizes(in);
  int64_t n = 1;
  for (int64_t size : sizes) n *= size;
  at::Tensor t = (at::arange(n, at::kLong) * f.step + f.start).remainder(f.modulus);
  if (f.scale != 1 || f.shift != 0) t = t.to(at::kDouble) * f.scale + f.shift;
  t = t.to(in.dtype);
  if (f.spike) t[f.spike->first] = f.spike->second;
  t = t.reshape(sizes);
  switch (in.layout) {
    case Layout::contiguous:
      return t;
    case Layout::transposed:
      return t.permute(reversed_order(sizes.size()));
    case Layout::sliced:
      return t.slice(-1, 1, sizes.back(), 2);
    case Layout::expanded:
      return t.expand(in.sizes);
    case Layout::channels_last:
      return t.permute({0, 3, 1, 2});
  }
  return t;
}

c10::IValue to_ivalue(const Arg& arg, const c10::TypePtr& type, const std::vector<at::Tensor>& values) {
  const auto tensor = [&](Ref r) { return r.value < 0 ? at::Tensor() : values.at(static_cast<size_t>(r.value)); };
  if (const auto* r = std::get_if<Ref>(&arg)) return r->value < 0 ? c10::IValue() : c10::IValue(tensor(*r));
  if (const auto* list = std::get_if<std::vector<Ref>>(&arg)) {
    if (type->str().find("Tensor?") != std::string::npos) {
      c10::List<std::optional<at::Tensor>> tensors;
      for (Ref r : *list) tensors.push_back(r.value < 0 ? std::nullopt : std::optional(tensor(r)));
      return tensors;
    }
    c10::List<at::Tensor> tensors;
    for (Ref r : *list) tensors.push_back(tensor(r));
    return tensors;
  }
  if (const auto* b = std::get_if<bool>(&arg)) return *b;
  if (const auto* i = std::get_if<int64_t>(&arg)) {
    if (type->str().starts_with("float")) return static_cast<double>(*i);
    return *i;
  }
  if (const auto* d = std::get_if<double>(&arg)) return *d;
  if (const auto* v = std::get_if<std::vector<int64_t>>(&arg)) return c10::List<int64_t>(*v);
  if (const auto* s = std::get_if<at::ScalarType>(&arg)) return static_cast<int64_t>(*s);
  if (const auto* text = std::get_if<std::string>(&arg)) return *text;
  return {};
}

c10::OperatorHandle find(const std::string& op) {
  const size_t dot = op.find('.');
  return c10::Dispatcher::singleton().findSchemaOrThrow(op.substr(0, dot).c_str(),
                                                        dot == std::string::npos ? "" : op.substr(dot + 1).c_str());
}

at::Tensor loss_of(const std::vector<at::Tensor>& results) {
  at::Tensor loss;
  double weight = 1;
  for (const at::Tensor& r : results) {
    if (!r.requires_grad()) continue;
    const at::Tensor real = at::isComplexType(r.scalar_type()) ? at::view_as_real(r.resolve_conj()) : r;
    const at::Tensor term =
        (real.scalar_type() == at::kDouble ? real.sum() : real.to(at::kFloat).sum()) * (weight += 0.5);
    loss = loss.defined() ? loss + term : term;
  }
  return loss;
}

}  // namespace

namespace {

// Sums with it wrap around. (Of 64 bits it is not the largest: that is no double.)
double large(at::ScalarType dtype) {
  switch (dtype) {
    case at::kByte:
      return 255;
    case at::kChar:
      return 127;
    case at::kShort:
      return 32767;
    case at::kInt:
      return 2147483647;
    default:
      return 0x1p62;
  }
}

}  // namespace

Formula formula(const Input& in, Variant variant) {
  Random random(in.seed * 4 + (variant == Variant::capture ? 0 : variant == Variant::other ? 1 : 2));
  Formula f;
  f.start = random.integer(0, 96);
  f.step = random.choose({7, 11, 13, 29, 37});
  const bool integral = at::isIntegralType(in.dtype, true);
  f.modulus = in.index_below > 0 ? in.index_below : in.dtype == at::kBool ? 3 : integral ? 19 : 31;
  if (!integral) {
    f.scale = 0.125;
    f.shift = -1.875;
  } else if (in.index_below == 0 && in.dtype != at::kBool && in.dtype != at::kByte) {
    f.shift = -9;
  }
  int64_t n = 1;
  for (int64_t size : storage_sizes(in)) n *= size;
  if (variant == Variant::capture || variant == Variant::other || n == 0 || in.dtype == at::kBool) return f;
  const bool tame = variant != Variant::nasty, too = variant == Variant::tame_too;
  double value = 0;
  if (in.index_below > 0) {
    value = static_cast<double>(random.choose({in.index_below, -in.index_below - 1, int64_t{-1}}));
    if (tame) value = too ? static_cast<double>(in.index_below - 1) : 0;
  } else if (!integral) {
    value = random.choose({std::numeric_limits<double>::quiet_NaN(), std::numeric_limits<double>::infinity(),
                           -std::numeric_limits<double>::infinity(), -0.0});
  } else {
    if (random.chance(0.5)) value = large(in.dtype);
    if (tame) value = too ? 1 : 2;
  }
  f.spike = {random.integer(0, n - 1), value};
  return f;
}

std::vector<int64_t> storage_sizes(const Input& in) {
  std::vector<int64_t> sizes = in.sizes;
  if (in.layout == Layout::transposed) std::reverse(sizes.begin(), sizes.end());
  if (in.layout == Layout::sliced) sizes.back() = 2 * sizes.back() + 1;
  if (in.layout == Layout::expanded) sizes.front() = 1;
  if (in.layout == Layout::channels_last) sizes = {sizes[0], sizes[2], sizes[3], sizes[1]};
  return sizes;
}

std::vector<at::Tensor> make_inputs(const Program& p, Variant variant) {
  return make_inputs(p, std::vector<Variant>(p.inputs.size(), variant));
}

std::vector<at::Tensor> make_inputs(const Program& p, const std::vector<Variant>& variants) {
  std::vector<at::Tensor> tensors;
  for (const Input& in : p.inputs) {
    if (in.alias_of >= 0) {
      const at::Tensor& base = tensors[static_cast<size_t>(in.alias_of)];
      tensors.push_back(base.as_strided(in.sizes, std::vector<int64_t>(in.sizes.size(), 1)));
      continue;
    }
    at::Tensor t = fill(in, variants[tensors.size()]);
    if (in.role == Role::parameter && at::isFloatingType(in.dtype)) t.set_requires_grad(true);
    tensors.push_back(t);
  }
  return tensors;
}

bool writes(const Step& step) { return step.op.substr(0, step.op.find('.')).back() == '_' || step.op.ends_with("out"); }

std::vector<Ref> written(const Step& step) {
  std::vector<size_t> args;
  if (step.op == "aten::_fused_sgd_")
    args = {0, 2};
  else if (step.op == "aten::batch_norm" && std::get<bool>(step.args[5]))
    args = {3, 4};
  else if (step.op.ends_with("out"))
    args = {step.args.size() - 1};
  else if (writes(step))
    args = {0};
  Step only{step.op, {}};
  for (const size_t i : args) only.args.push_back(step.args[i]);
  return operands(only);
}

std::vector<Ref> operands(const Step& step) {
  std::vector<Ref> found;
  for (const Arg& arg : step.args) {
    if (const auto* r = std::get_if<Ref>(&arg)) found.push_back(*r);
    if (const auto* list = std::get_if<std::vector<Ref>>(&arg)) found.insert(found.end(), list->begin(), list->end());
  }
  std::erase_if(found, [](Ref r) { return r.value < 0; });
  return found;
}

void run_step(Step& step, std::vector<at::Tensor>& values) {
  const c10::OperatorHandle op = find(step.op);
  const auto& parameters = op.schema().arguments();
  std::vector<c10::IValue> stack;
  for (size_t i = 0; i < parameters.size(); ++i) {
    if (i < step.args.size())
      stack.push_back(to_ivalue(step.args[i], parameters[i].real_type(), values));
    else
      stack.push_back(parameters[i].default_value().value_or(c10::IValue()));
  }
  op.callBoxed(stack);
  step.n_outs = 0;
  if (writes(step)) return;
  for (const c10::IValue& out : stack) {
    if (out.isTensor()) {
      values.push_back(out.toTensor());
      ++step.n_outs;
    } else if (out.isTensorList()) {
      for (const at::Tensor& t : out.toTensorVector()) {
        values.push_back(t);
        ++step.n_outs;
      }
    }
  }
}

namespace {

// The tensor with its last bits changed, in a memory of its own.
at::Tensor shaken(const at::Tensor& t, double epsilons, int64_t salt) {
  const at::ScalarType type = at::toRealValueType(t.scalar_type());
  const double epsilon = type == at::kHalf       ? 0x1p-11
                         : type == at::kBFloat16 ? 0x1p-8
                         : type == at::kFloat    ? 0x1p-24
                                                 : 0x1p-53;
  const at::Tensor wave =
      (((at::arange(t.numel(), at::kLong) * 7919).square() + salt * 104729).remainder(1009).to(at::kDouble) / 504 - 1)
          .reshape(t.sizes());  // no short period, which sums over periodic inputs would not see
  // In double and then rounded back, which moves half floats by whole steps.
  const at::Tensor wide = t.to(at::isComplexType(t.scalar_type()) ? at::kComplexDouble : at::kDouble);
  return (wide * (1 + wave * (epsilon * epsilons))).to(t.scalar_type());
}

bool has_last_bits(const at::Tensor& t) {
  return at::isFloatingType(t.scalar_type()) || at::isComplexType(t.scalar_type());
}

// Attention row by row, with the keys that a row sees. (Eager's takes blocks, and meets NaN of keys that rows do not
// see.)
at::Tensor attention(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v, const at::Tensor& mask,
                     bool causal) {
  std::vector<at::Tensor> rows;
  const int64_t keys = k.size(-2);
  for (int64_t i = 0; i < q.size(-2); ++i) {
    const int64_t seen = causal ? std::min(i + 1, keys) : keys;
    rows.push_back(std::get<0>(
        at::_scaled_dot_product_attention_math(q.narrow(-2, i, 1), k.narrow(-2, 0, seen), v.narrow(-2, 0, seen),
                                               mask.defined() ? std::optional(mask.narrow(-2, i, 1)) : std::nullopt)));
  }
  return at::cat(rows, -2);
}

// A convolution as a product of matrices, padding and all; a transposed one over its operand with zeros between.
// (A weight that is infinite times such a zero is NaN; eager's usual kernels do not meet those zeros.)
at::Tensor convolution(const Step& step, at::Tensor x, at::Tensor w, const at::Tensor& bias) {
  using Dims = std::vector<int64_t>;
  const bool flat = step.op == "aten::conv1d";
  Dims stride = std::get<Dims>(step.args[3]), padding = std::get<Dims>(step.args[4]), dilation = {1, 1};
  int64_t groups = 1;
  if (step.op.starts_with("aten::conv_transpose")) {
    at::Tensor spread = at::zeros(
        {x.size(0), x.size(1), (x.size(2) - 1) * stride[0] + 1, (x.size(3) - 1) * stride[1] + 1}, x.options());
    spread.slice(2, 0, std::nullopt, stride[0]).slice(3, 0, std::nullopt, stride[1]).copy_(x);
    for (size_t d = 0; d < 2; ++d) padding[d] = w.size(2 + static_cast<int64_t>(d)) - 1 - padding[d];
    x = spread;
    w = w.flip({2, 3}).transpose(0, 1);
    stride = {1, 1};
  } else {
    dilation = std::get<Dims>(step.args[5]);
    groups = std::get<int64_t>(step.args[6]);
    if (flat) {
      x = x.unsqueeze(2), w = w.unsqueeze(2);
      stride.insert(stride.begin(), 1), padding.insert(padding.begin(), 0), dilation.insert(dilation.begin(), 1);
    }
  }
  std::vector<at::Tensor> parts;
  const auto x_parts = x.chunk(groups, 1), w_parts = w.chunk(groups, 0);
  for (size_t g = 0; g < x_parts.size(); ++g)
    parts.push_back(
        at::matmul(w_parts[g].flatten(1), at::im2col(x_parts[g], {w.size(2), w.size(3)}, dilation, padding, stride)));
  at::Tensor y = at::cat(parts, 1);
  if (bias.defined()) y = y + bias.unsqueeze(1);
  return y;
}

// Where NaN and infinities are, what eager gives depends on the way it takes; means beside variances, for one, are
// running formulas.
void take_the_other_way(const Step& step, std::vector<at::Tensor>& values, bool backward) {
  if (step.op == "aten::softshrink")  // the sign of zero: one in a vector, another in a tail
    values.back() = at::where(values.back() == 0, -values.back(), values.back());
  if (step.op.ends_with("_norm") && step.n_outs == 1)  // of one element: 0, or what rounding left of it
    values.back() = at::where(values.back().abs() < 1e-5, at::zeros_like(values.back()), values.back());
  const auto finite = [](const at::Tensor& t) { return t.isfinite().all().item<bool>(); };
  const auto value = [&](size_t arg) {
    const Ref r = std::get<Ref>(step.args[arg]);
    return r.value < 0 ? at::Tensor() : values[static_cast<size_t>(r.value)];
  };
  at::Tensor other;
  if (step.op.starts_with("aten::var_mean") || step.op.starts_with("aten::std_mean"))
    other = at::mean(value(0), std::get<std::vector<int64_t>>(step.args[1]), std::get<bool>(step.args[3]));
  else if (step.op == "aten::scaled_dot_product_attention")
    other = attention(value(0), value(1), value(2), value(3), std::get<bool>(step.args[5]));
  else if (step.op.starts_with("aten::conv"))
    // At a border, infinity times zero, or no product; the gradient's way is another one yet.
    other = backward && !(finite(value(0)) && finite(value(1)))
                ? values.back().nan_to_num(0, 0, 0)
                : convolution(step, value(0), value(1), value(2)).reshape(values.back().sizes());
  else if (step.op.starts_with("aten::gelu"))  // of an infinity: NaN with AVX-512, an infinity without
    other = at::nan_to_num(values.back(), 0.0, INFINITY, -INFINITY);
  else if (step.op.ends_with("shrink") || (backward && step.op.ends_with("elu")))
    // The gradient at NaN: one thing in a vector, another in a tail.
    other = finite(value(0)) ? at::Tensor() : values.back() * NAN;
  else if (backward && step.op == "aten::layer_norm" && value(2).defined() && !finite(value(2)))
    other = values.back() * NAN;  // the gradient under an infinite weight: NaN throughout by eager's formula
  else if (step.op == "aten::group_norm" && value(2).defined() && !finite(value(2)))
    other = values.back() * NAN;  // infinities of the weight and the mean: which of them meet is the formula's choice
  else if (values.back().is_complex() && !finite(values.back()))  // which part of it is NaN is the kernel's choice
    other = at::complex(at::real(values.back()).nan_to_num(0, 0, 0), at::imag(values.back()).nan_to_num(0, 0, 0));
  if (!other.defined()) return;
  if (!finite(other) || !finite(values.back())) values.back() = other;
}

}  // namespace

std::vector<at::Tensor> run_steps(const Program& p, std::vector<at::Tensor> values, const Noise& noise,
                                  const Swap& swap) {
  Random random(noise.seed);
  for (size_t number = 0; number < p.steps.size(); ++number) {
    Step step = p.steps[number];
    const size_t before = values.size();
    at::Tensor swapped = swap.tensor;
    const bool swaps = swapped.defined() && swap.step == number;
    if (swaps) std::swap(values[swap.input], swapped);
    run_step(step, values);
    if (swaps) std::swap(values[swap.input], swapped);
    if (!step.inexact || noise.epsilons == 0) continue;
    take_the_other_way(step, values, p.backward);
    for (size_t i = before; i < values.size(); ++i)
      if (has_last_bits(values[i]) && !values[i].is_view())
        values[i] = shaken(values[i], noise.epsilons, random.integer(0, 1000));
    for (const Ref r : written(step)) {
      // Behind autograd's back: what it saved is what was there.
      at::Tensor data = values[static_cast<size_t>(r.value)].variable_data();
      if (has_last_bits(data)) data.copy_(shaken(data, noise.epsilons, random.integer(0, 1000)));
    }
  }
  if (p.backward) {
    std::vector<at::Tensor> results = pick_results(p, values);
    if (noise.epsilons != 0)  // sums in the gradient may cancel
      for (at::Tensor& r : results)
        if (r.requires_grad()) r = shaken(r, noise.epsilons, random.integer(0, 1000));
    const at::Tensor loss = loss_of(results);
    if (loss.defined()) loss.backward();
  }
  return values;
}

std::optional<size_t> throwing_step(const Program& p, std::vector<at::Tensor> values) {
  for (size_t number = 0; number < p.steps.size(); ++number) {
    Step step = p.steps[number];
    try {
      run_step(step, values);
    } catch (const std::exception&) {
      return number;
    }
  }
  return {};
}

std::vector<at::Tensor> pick_results(const Program& p, const std::vector<at::Tensor>& values) {
  std::vector<at::Tensor> results;
  for (int r : p.results) results.push_back(values.at(static_cast<size_t>(r)));
  return results;
}

int count_values(const Program& p, size_t n_steps) {
  auto n = static_cast<int>(p.inputs.size());
  for (size_t i = 0; i < n_steps; ++i) n += p.steps[i].n_outs;
  return n;
}

}  // namespace precast::fuzz
