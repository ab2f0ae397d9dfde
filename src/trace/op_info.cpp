#include "trace/op_info.h"

#include <algorithm>
#include <iterator>
#include <string_view>

#include "host_torch/random_ops.h"

namespace precast::trace {

namespace {

// Writes that schemas hide; found by a sweep over PyTorch's operator database.
struct HiddenWrite {
  std::string_view op;
  std::vector<std::string_view> args;
  std::string_view only_if;  // a bool argument
};
const HiddenWrite kHiddenWrites[] = {
    {"aten::native_batch_norm", {"running_mean", "running_var"}, "training"},
    {"aten::batch_norm_update_stats", {"running_mean", "running_var"}, ""},
    {"aten::batch_norm_gather_stats", {"running_mean", "running_var"}, ""},
    {"aten::batch_norm_gather_stats_with_counts", {"running_mean", "running_var"}, ""},
    {"aten::cudnn_batch_norm", {"running_mean", "running_var"}, "training"},
    {"aten::miopen_batch_norm", {"running_mean", "running_var"}, "training"},
    {"aten::mkldnn_rnn_layer_backward", {"workspace"}, ""},
};

constexpr std::string_view kUninitialized[] = {
    "aten::empty",     "aten::empty_strided",  "aten::empty_like",
    "aten::new_empty", "aten::empty_permuted", "aten::new_empty_strided",
};

// Ops whose first argument gives only its geometry, or is overwritten as a whole.
constexpr std::string_view kFirstIsNotRead[] = {
    "aten::empty_like",   "aten::zeros_like",        "aten::ones_like",   "aten::full_like",      "aten::new_empty",
    "aten::new_zeros",    "aten::new_ones",          "aten::new_full",    "aten::rand_like",      "aten::randn_like",
    "aten::randint_like", "aten::new_empty_strided", "aten::fill_",       "aten::zero_",          "aten::copy_",
    "aten::bernoulli_",   "aten::normal_",           "aten::uniform_",    "aten::random_",        "aten::exponential_",
    "aten::cauchy_",      "aten::geometric_",        "aten::log_normal_", "aten::_foreach_zero_",
};

// Other arguments that are overwritten as a whole.
constexpr std::pair<std::string_view, std::string_view> kOverwritten[] = {
    {"aten::rrelu_with_noise", "noise"},
    {"aten::rrelu_with_noise_", "noise"},
};

constexpr std::string_view kMetadataOnly[] = {
    "aten::is_same_size",
    "aten::_has_same_storage_numel",
    "aten::sym_size",
    "aten::sym_stride",
    "aten::sym_numel",
    "aten::sym_storage_offset",
    "aten::size",
    "aten::stride",
    "aten::is_pinned",
    "aten::_is_zerotensor",
    "aten::is_set_to",
    "aten::is_contiguous",
    "aten::_has_compatible_shallow_copy_type",
    "aten::dim",
    "aten::numel",
    "aten::_assert_tensor_metadata",
};

// Ops that are recorded in a way of their own.
const std::pair<std::string_view, OpInfo::Special> kSpecial[] = {
    {"aten::add.Tensor", OpInfo::Special::add},
    {"aten::add_.Tensor", OpInfo::Special::add_},
    {"aten::as_strided_copy", OpInfo::Special::as_strided_copy},
    {"aten::as_strided_scatter", OpInfo::Special::as_strided_scatter},
    {"aten::_efficientzerotensor", OpInfo::Special::zero_tensor},
    {"aten::copy_", OpInfo::Special::copy_},
};

// Composite kernels that read integers through a pointer; what else they do follows from those values.
const std::pair<const char*, std::vector<std::string_view>> kValueReaders[] = {
    {"aten::lstm.data", {"batch_sizes"}},
    {"aten::gru.data", {"batch_sizes"}},
    {"aten::rnn_tanh.data", {"batch_sizes"}},
    {"aten::rnn_relu.data", {"batch_sizes"}},
    {"aten::_pad_packed_sequence", {"batch_sizes"}},
    {"aten::tensor_split.tensor_indices_or_sections", {"tensor_indices_or_sections"}},
};

template <class Table>
bool listed(const Table& table, std::string_view name) {
  return std::find(std::begin(table), std::end(table), name) != std::end(table);
}

c10::TypePtr without_optional(c10::TypePtr type) {
  if (auto* optional = type->castRaw<c10::OptionalType>()) return optional->getElementType();
  return type;
}

ArgInfo arg_info(const c10::Argument& a) {
  ArgInfo info;
  info.name = a.name();
  info.type = without_optional(a.real_type());
  if (info.type->kind() == c10::TypeKind::TensorType) {
    info.kind = ArgInfo::Kind::tensor;
  } else if (auto* list = info.type->castRaw<c10::ListType>()) {
    if (without_optional(list->getElementType())->kind() == c10::TypeKind::TensorType)
      info.kind = ArgInfo::Kind::tensors;
  }
  info.writes = a.alias_info() && a.alias_info()->isWrite();
  info.reads_contents = !(info.writes && a.kwarg_only());
  return info;
}

std::unique_ptr<OpInfo> op_info(const c10::OperatorHandle& op) {
  auto info = std::make_unique<OpInfo>();
  const c10::FunctionSchema& schema = op.schema();
  const std::string& base = schema.name();
  info->name = base + (schema.overload_name().empty() ? "" : "." + schema.overload_name());
  for (const c10::Argument& a : schema.arguments()) info->args.push_back(arg_info(a));
  info->returns = schema.returns().size();
  info->composite = op.hasKernelForDispatchKey(c10::DispatchKey::CompositeImplicitAutograd);
  info->reshapes = op.hasTag(at::Tag::inplace_view) || base == "aten::set_" || base == "aten::set_data";
  info->resizes = base == "aten::resize_" || base == "aten::resize_as_";
  info->random = host_torch::is_random(op);
  info->pointwise = op.hasTag(at::Tag::pointwise);
  info->uninitialized = listed(kUninitialized, base) && !schema.hasAnyAliasInfo();
  info->metadata_only = listed(kMetadataOnly, base);
  info->compares_memory = base == "aten::is_set_to";
  if (listed(kFirstIsNotRead, base) && !info->args.empty()) info->args[0].reads_contents = false;
  for (const auto& [name, arg] : kOverwritten)
    for (ArgInfo& a : info->args)
      if (name == base && arg == a.name) a.reads_contents = false;
  for (const auto& [name, special] : kSpecial)
    if (name == info->name) info->special = special;
  for (const HiddenWrite& h : kHiddenWrites) {
    if (h.op != base) continue;
    for (size_t i = 0; i < info->args.size(); ++i) {
      if (std::find(h.args.begin(), h.args.end(), info->args[i].name) != h.args.end())
        info->args[i].hidden_write = true;
      if (info->args[i].name == h.only_if) info->hidden_write_if = static_cast<int>(i);
    }
  }
  for (const auto& [name, args] : kValueReaders)
    for (size_t i = 0; name == info->name && i < info->args.size(); ++i)
      if (listed(args, info->args[i].name)) info->values_count.push_back(i);
  info->writes = std::any_of(info->args.begin(), info->args.end(), [](auto& a) { return a.writes || a.hidden_write; });
  info->is_view = !info->writes && std::any_of(schema.returns().begin(), schema.returns().end(),
                                               [](auto& r) { return r.alias_info() != nullptr; });
  return info;
}

/// Whether b is a with numbers in place of the tensors at `numbers`.
bool takes_numbers(const OpInfo& a, const OpInfo& b, const std::vector<size_t>& numbers) {
  if (a.args.size() != b.args.size() || a.returns != b.returns) return false;
  for (size_t i = 0; i < a.args.size(); ++i) {
    const ArgInfo &x = a.args[i], &y = b.args[i];
    const bool number = std::find(numbers.begin(), numbers.end(), i) != numbers.end();
    if (x.name != y.name || x.writes != y.writes) return false;
    if (number ? y.type->kind() != c10::TypeKind::NumberType : *x.type != *y.type) return false;
  }
  return true;
}

}  // namespace

std::span<const std::pair<const char*, std::vector<std::string_view>>> value_readers() { return kValueReaders; }

const OpInfo& OpInfos::get(const c10::OperatorHandle& op) {
  auto& slot = infos_[&op.operator_name()];
  if (!slot) slot = op_info(op);
  return *slot;
}

const OpInfo* OpInfos::with_numbers(const OpInfo& info, const std::vector<size_t>& args) {
  std::string key = info.name;
  for (size_t i : args) key += ' ' + std::to_string(i);
  const auto [at, is_new] = with_numbers_.try_emplace(key, nullptr);
  if (!is_new) return at->second;
  const std::string base = info.name.substr(0, info.name.find('.'));
  auto& dispatcher = c10::Dispatcher::singleton();
  for (const c10::OperatorName& name : dispatcher.getAllOpNames()) {
    if (name.name != base) continue;
    const auto op = dispatcher.findSchema(name);
    if (op && takes_numbers(info, get(*op), args)) return at->second = &get(*op);
  }
  return nullptr;
}

}  // namespace precast::trace
