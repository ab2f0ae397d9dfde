#include "program.h"

#include <ATen/core/dispatch/Dispatcher.h>
#include <torch/torch.h>

#include <algorithm>
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
  if (in.layout == Layout::transposed) t = t.permute(reversed_order(sizes.size()));
  if (in.layout == Layout::sliced) t = t.slice(-1, 1, sizes.back(), 2);
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
    const at::Tensor term = (r.scalar_type() == at::kDouble ? r.sum() : r.to(at::kFloat).sum()) * (weight += 0.5);
    loss = loss.defined() ? loss + term : term;
  }
  return loss;
}

}  // namespace

Formula formula(const Input& in, Variant variant) {
  Random random(in.seed * 4 + (variant == Variant::other ? 1 : variant == Variant::nasty ? 2 : 0));
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
  if (variant != Variant::nasty || n == 0 || in.dtype == at::kBool) return f;
  double value = 0;
  if (in.index_below > 0)
    value = static_cast<double>(random.choose({in.index_below, -in.index_below - 1, int64_t{-1}}));
  else if (!integral)
    value = random.choose({std::numeric_limits<double>::quiet_NaN(), std::numeric_limits<double>::infinity(),
                           -std::numeric_limits<double>::infinity(), -0.0});
  f.spike = {random.integer(0, n - 1), value};
  return f;
}

std::vector<int64_t> storage_sizes(const Input& in) {
  std::vector<int64_t> sizes = in.sizes;
  if (in.layout == Layout::transposed) std::reverse(sizes.begin(), sizes.end());
  if (in.layout == Layout::sliced) sizes.back() = 2 * sizes.back() + 1;
  return sizes;
}

std::vector<at::Tensor> make_inputs(const Program& p, Variant variant) {
  std::vector<at::Tensor> tensors;
  for (const Input& in : p.inputs) {
    if (in.alias_of >= 0) {
      const at::Tensor& base = tensors[static_cast<size_t>(in.alias_of)];
      tensors.push_back(base.as_strided(in.sizes, std::vector<int64_t>(in.sizes.size(), 1)));
      continue;
    }
    at::Tensor t = fill(in, variant);
    if (in.role == Role::parameter && at::isFloatingType(in.dtype)) t.set_requires_grad(true);
    tensors.push_back(t);
  }
  return tensors;
}

bool writes(const Step& step) {
  const std::string name = step.op.substr(0, step.op.find('.'));
  return name.back() == '_';
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

std::vector<at::Tensor> run_steps(const Program& p, std::vector<at::Tensor> values, const Noise& noise) {
  Random random(noise.seed);
  for (Step step : p.steps) {
    const size_t before = values.size();
    run_step(step, values);
    if (!step.inexact || noise.epsilons == 0) continue;
    for (size_t i = before; i < values.size(); ++i) {
      at::Tensor& v = values[i];
      if (!at::isFloatingType(v.scalar_type()) || v.is_view()) continue;
      // As f64 times 1 + noise; then rounded back, which moves half floats by whole steps.
      const double epsilon = v.scalar_type() == at::kHalf       ? 0x1p-11
                             : v.scalar_type() == at::kBFloat16 ? 0x1p-8
                             : v.scalar_type() == at::kFloat    ? 0x1p-24
                                                                : 0x1p-53;
      const int64_t salt = random.integer(0, 1000);
      const at::Tensor wave =
          ((at::arange(v.numel(), at::kLong) * 31 + salt).remainder(7).to(at::kDouble) / 3 - 1).reshape(v.sizes());
      v = (v.to(at::kDouble) * (1 + wave * (epsilon * noise.epsilons))).to(v.scalar_type());
    }
  }
  if (p.backward) {
    const at::Tensor loss = loss_of(pick_results(p, values));
    if (loss.defined()) loss.backward();
  }
  return values;
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
