#include "trace/host_readers.h"

#include <ATen/ATen.h>
#include <torch/library.h>

#include <limits>

#include "trace/dispatch.h"
#include "trace/sym_tensor.h"

namespace precast::trace {

namespace {

using Stack = torch::jit::Stack;

/// one_hot looks for the smallest and largest index; scatter_ refuses the same ones.
bool one_hot(Stack& stack) {
  const at::Tensor self = stack[stack.size() - 2].toTensor();
  const int64_t classes = stack.back().toInt();
  if (classes <= 0 || self.scalar_type() != at::kLong || (!SymTensor::of(self) && self.numel() == 0)) return false;
  std::vector<c10::SymInt> sizes = self.sym_sizes().vec();
  sizes.emplace_back(classes);
  torch::jit::drop(stack, 2);
  stack.emplace_back(at::zeros_symint(sizes, self.options()).scatter_(-1, self.unsqueeze(-1), 1));
  return true;
}

/// A tensor of these numbers, made by operators: at::tensor writes through a pointer.
at::Tensor tensor_of(const std::vector<int64_t>& numbers, const at::TensorOptions& options) {
  std::vector<at::Tensor> each;
  for (const int64_t n : numbers) each.push_back(at::full({1}, n, options));
  return at::cat(each);
}

/// ctc_loss turns tensors of lengths into lists of numbers, and a list into a tensor; _ctc_loss takes either.
bool ctc_loss(Stack& stack) {
  const c10::IValue* a = stack.data() + stack.size() - 7;
  const at::Tensor probabilities = a[0].toTensor(), targets = a[1].toTensor().to(at::kLong);
  const int64_t blank = a[4].toInt(), reduction = a[5].toInt();
  const bool zero_infinity = a[6].toBool(), batched = probabilities.dim() == 3, lists = !a[2].isTensor();
  const at::Tensor batch = batched ? probabilities : probabilities.unsqueeze(1);
  if (lists && a[3].toIntVector().empty()) return false;
  at::Tensor loss =
      lists ? std::get<0>(at::_ctc_loss(batch, targets, a[2].toIntVector(), a[3].toIntVector(), blank, zero_infinity))
            : std::get<0>(at::_ctc_loss(batch, targets, a[2].toTensor(), a[3].toTensor(), blank, zero_infinity));
  if (zero_infinity)
    loss = at::where(loss == std::numeric_limits<double>::infinity(), at::zeros({}, loss.options()), loss);
  if (reduction == at::Reduction::Mean)
    loss = (loss / (lists ? tensor_of(a[3].toIntVector(), loss.options()) : a[3].toTensor()).clamp_min(1)).mean();
  else if (reduction == at::Reduction::Sum)
    loss = loss.sum();
  else if (!batched)
    loss = loss.squeeze(0);
  torch::jit::drop(stack, 7);
  stack.emplace_back(std::move(loss));
  return true;
}

/// batch_norm leaves its statistics alone where there are no elements; native_batch_norm, which is what is recorded,
/// does not run then. With open sizes both have to be said.
bool batch_norm(Stack& stack) {
  const c10::IValue* a = stack.data() + stack.size() - 9;
  const at::Tensor input = a[0].toTensor();
  const auto optional = [&](int i) { return a[i].isNone() ? at::Tensor() : a[i].toTensor(); };
  const at::Tensor mean = optional(3), var = optional(4);
  if (!SymTensor::of(input) || !a[5].toBool() || !mean.defined() || !var.defined() || !input.sym_numel().is_symbolic())
    return false;
  const at::Tensor new_mean = mean.clone(), new_var = var.clone();
  at::Tensor out = std::get<0>(at::_batch_norm_impl_index(input, optional(1), optional(2), new_mean, new_var, true,
                                                          a[6].toDouble(), a[7].toDouble(), a[8].toBool()));
  const at::NoGradGuard no_grad;
  const at::Tensor any = at::full({}, c10::Scalar(input.sym_numel()), at::kLong).gt(0);
  mean.copy_(at::where(any, new_mean, mean));
  var.copy_(at::where(any, new_var, var));
  torch::jit::drop(stack, 9);
  stack.emplace_back(std::move(out));
  return true;
}

/// max_pool1d has a kernel of its own where there is no gradient, and reads sizes on the way to it.
bool max_pool1d(Stack& stack) {
  const c10::IValue* a = stack.data() + stack.size() - 6;
  const at::Tensor self = a[0].toTensor();
  if (!SymTensor::of(self)) return false;
  at::Tensor out = std::get<0>(at::max_pool1d_with_indices(self, a[1].toIntVector(), a[2].toIntVector(),
                                                           a[3].toIntVector(), a[4].toIntVector(), a[5].toBool()));
  torch::jit::drop(stack, 6);
  stack.emplace_back(std::move(out));
  return true;
}

struct Reader {
  const char *name, *overload;
  bool (*run)(Stack&);  // false: this call reads nothing, or cannot do without
};
constexpr Reader kReaders[] = {{"aten::one_hot", "", one_hot},
                               {"aten::ctc_loss", "Tensor", ctc_loss},
                               {"aten::ctc_loss", "IntList", ctc_loss},
                               {"aten::batch_norm", "", batch_norm},
                               {"aten::max_pool1d", "", max_pool1d}};

void on_reader(const c10::OperatorHandle& op, c10::DispatchKeySet keys, Stack* stack) {
  if (is_recording() && run_without_reading(op, *stack)) return;
  op.redispatchBoxed(keys & c10::DispatchKeySet(c10::DispatchKeySet::FULL_AFTER, c10::DispatchKey::AutogradCPU), stack);
}

}  // namespace

bool run_without_reading(const c10::OperatorHandle& op, Stack& stack) {
  for (const Reader& r : kReaders)
    if (op.operator_name().name == r.name && op.operator_name().overload_name == r.overload) return r.run(stack);
  return false;
}

void register_host_readers() {
  static const bool registered = [] {
    static torch::Library library(torch::Library::IMPL, "aten", c10::DispatchKey::AutogradCPU, __FILE__, __LINE__);
    for (const Reader& r : kReaders) {
      const std::string overload = *r.overload ? std::string(".") + r.overload : "";
      library.impl((r.name + overload).c_str(), torch::CppFunction::makeFromBoxedFunction<&on_reader>());
    }
    return true;
  }();
  (void)registered;
}

}  // namespace precast::trace
