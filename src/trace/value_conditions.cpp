#include "trace/value_conditions.h"

#include <c10/core/impl/LocalDispatchKeySet.h>
#include <torch/library.h>

#include <cstring>

#include "host_torch/attributes.h"
#include "host_torch/tensor_types.h"
#include "trace/attribute.h"
#include "trace/symbols.h"

namespace precast::trace {

namespace {

/// A list of numbers as nodes: a `full` for each run of equal ones.
ir::ValueId constant(GraphBuilder& builder, const at::Tensor& values) {
  const ir::Type type = host_torch::type_of(values);
  const auto* bytes = static_cast<const char*>(values.const_data_ptr());
  const size_t item = values.itemsize();
  const auto same = [&](int64_t a, int64_t b) {
    return std::memcmp(bytes + static_cast<size_t>(a) * item, bytes + static_cast<size_t>(b) * item, item) == 0;
  };
  std::vector<ir::Ref> runs;
  for (int64_t begin = 0, end = 0; begin < values.numel(); begin = end) {
    while (end < values.numel() && same(begin, end)) ++end;
    const ir::Dims size(type.sizes.size(), end - begin);
    const ir::Attr number = to_attribute(number_in(values.dim() ? values.select(0, begin) : values));
    runs.push_back({builder.add_node("aten::full",
                                     {{"size", size},
                                      {"fill_value", number},
                                      {"dtype", type.dtype},
                                      {"layout", {}},
                                      {"device", type.device},
                                      {"pin_memory", {}}},
                                     ir::contiguous(type.dtype, size))});
  }
  if (runs.size() == 1) return runs[0].id;
  return builder.add_node("aten::cat", {{"tensors", runs}, {"dim", int64_t{0}}}, type);
}

}  // namespace

bool become_constant(GraphBuilder& builder, StorageState& s, const at::Tensor& t) {
  const bool literal = s.maker && s.maker->uninitialized && s.value == ir::kNoValue && s.known.none();
  const ir::Type& type = s.root.type;
  if (!literal || type.sizes.size() > 1 || type.numel() == 0 || type.strides != ir::contiguous_strides(type.sizes))
    return false;
  c10::impl::ExcludeDispatchKeyGuard unrecorded(kRecordingKey);
  builder.replace(s, s.root, constant(builder, tensor_at(t.storage(), s.root)));
  return true;
}

void register_value_conditions() {
  static const bool registered = [] {
    static torch::Library library(torch::Library::IMPL, "aten", c10::DispatchKey::AutogradCPU, __FILE__, __LINE__);
    for (const auto& [name, arguments] : value_readers())
      library.impl(name + std::strlen("aten::"), torch::CppFunction::makeFallthrough());
    return true;
  }();
  (void)registered;
}

ValueConditions::ValueConditions(OpRecorder& r, const OpInfo& info, const torch::jit::Stack& stack)
    : r_(r), info_(info) {
  const size_t first = stack.size() - info.args.size();
  for (size_t i : info.values_count)
    if (const c10::IValue& v = stack[first + i]; v.isTensor() && v.toTensor().defined())
      fix_values(v.toTensor(), info.args[i].name);
  r_.reading_values += !info.values_count.empty();
}

ValueConditions::~ValueConditions() {
  r_.reading_values -= !info_.values_count.empty();
  for (StorageState* state : open_) {
    --state->held_open;
    r_.seal(*state);
  }
}

void ValueConditions::fix_values(const at::Tensor& t, const std::string& argument) {
  if (!at::isIntegralType(t.scalar_type(), /*includeBool=*/true) || t.dim() > 1)
    r_.refuse(Check::op_values, info_.name + ": expected a list of integers as '" + argument + "', found " +
                                    ir::to_string(window_of(t).type));
  const ir::ValueId given = r_.read(t, info_.name);
  if (t.numel() == 0) return;
  StorageState& s = *r_.storages.find(t);
  ++s.held_open;
  if (s.sealed) unseal(s.impl);
  s.sealed = false;
  open_.push_back(&s);

  if (r_.builder.is_constant({given})) return;  // the same in every call
  c10::impl::ExcludeDispatchKeyGuard unrecorded(kRecordingKey);
  const at::Tensor values = t.contiguous(), numbers = values.to(at::kLong);
  ir::Node equal;
  equal.op = "aten::equal";
  equal.args = {{"self", refer(given)}, {"other", refer(constant(r_.builder, values))}};
  equal.outs.resize(1);
  equal.outs[0].expect = true;
  r_.builder.graph.nodes.push_back(std::move(equal));
  const int64_t* p = numbers.const_data_ptr<int64_t>();
  r_.conditions.push_back(info_.name + ": " + argument + " = " +
                          host_torch::in_words(ir::Attr(std::vector<int64_t>(p, p + numbers.numel()))) +
                          (r_.name_places ? calling_place() : ""));
}

void ValueConditions::take_results(const torch::jit::Stack& stack) {
  if (info_.values_count.empty()) return;
  for (size_t i = stack.size() - info_.returns; i < stack.size(); ++i)
    if (stack[i].isTensor() && stack[i].toTensor().defined())
      if (StorageState* s = r_.storages.find(stack[i].toTensor())) {
        become_constant(r_.builder, *s, stack[i].toTensor());
        r_.seal(*s);
      }
}

}  // namespace precast::trace
