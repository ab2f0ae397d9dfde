#include "trace/sym_tensor.h"

#include <c10/core/WrapDimMinimal.h>

#include <algorithm>

#include "host_torch/tensor_types.h"
#include "precast/error.h"
#include "trace/geometry.h"

namespace precast::trace {

void SymTensors::thaw() {
  symbols->live = false;
  std::lock_guard lock(mutex);
  for (SymTensor* t : alive) t->set_custom_sizes_strides(c10::TensorImpl::SizesStridesPolicy::Default);
}

SymTensor::SymTensor(std::shared_ptr<SymTensors> set, const at::Tensor& real, ir::Type type, ir::Size offset)
    : c10::TensorImpl(c10::Storage(real.storage()), real.key_set(), real.dtype()),
      set_(std::move(set)),
      type_(std::move(type)),
      offset_(std::move(offset)) {
  set_sizes_and_strides(real.sizes(), real.strides(), real.storage_offset());
  for (const ir::Size& s : type_.sizes) sizes_.push_back(set_->symbols->to_sym(s));
  for (const ir::Size& s : type_.strides) strides_.push_back(set_->symbols->to_sym(s));
  if (is_live()) set_custom_sizes_strides(SizesStridesPolicy::CustomSizes);
  std::lock_guard lock(set_->mutex);
  set_->alive.insert(this);
}

SymTensor::~SymTensor() {
  std::lock_guard lock(set_->mutex);
  set_->alive.erase(this);
}

at::Tensor SymTensor::plain() const {
  ir::Type real = type_;
  real.sizes = ir::sizes({sizes_default().begin(), sizes_default().end()});
  real.strides = ir::sizes({strides_default().begin(), strides_default().end()});
  return tensor_at(storage(), {std::move(real), storage_offset_default() * static_cast<int64_t>(itemsize())});
}

namespace {
c10::intrusive_ptr<SymTensor> copy(const SymTensor& t, const std::shared_ptr<SymTensors>& set) {
  auto c = c10::make_intrusive<SymTensor>(set, t.plain(), t.type(), t.offset());
  return c;
}
}  // namespace

c10::intrusive_ptr<c10::TensorImpl> SymTensor::shallow_copy_and_detach(const c10::VariableVersion& v,
                                                                       bool change) const {
  auto c = copy(*this, set_);
  if (!c->is_inference()) c->set_version_counter(v);
  c->set_allow_tensor_metadata_change(change);
  return c;
}
c10::intrusive_ptr<c10::TensorImpl> SymTensor::shallow_copy_and_detach(c10::VariableVersion&& v, bool change) const {
  auto c = copy(*this, set_);
  if (!c->is_inference()) c->set_version_counter(std::move(v));
  c->set_allow_tensor_metadata_change(change);
  return c;
}
void SymTensor::shallow_copy_from(const c10::intrusive_ptr<c10::TensorImpl>& other) {
  if (is_live())
    set_->symbols->refuse(Check::dynamic_op,
                          "set_data gives other memory to a tensor whose sizes are open (mark_unbacked)" +
                              calling_place() + "; bind a variable to the new tensor instead");
  c10::TensorImpl::shallow_copy_from(other);
}

size_t SymTensor::wrapped(int64_t d) const {
  return static_cast<size_t>(c10::maybe_wrap_dim(d, type_.dim(), /*wrap_scalar=*/false));
}

int64_t SymTensor::known(const ir::Size& s, const char* what) const {
  const ir::Size now = set_->symbols->canonical(s);
  if (!now.is_symbolic()) return now;
  set_->symbols->refuse_guard(std::string("the ") + what + " " + ir::to_string(now) + " as a number",
                              set_->symbols->origins(now));
}

namespace {

// Functions of LibTorch that read all sizes for something that the recording does not need, or to check them.
struct Reader {
  const char* function;
  TruthPtr (*checks)(const ir::Dims&);         // may be null
  bool (*allowed)(const ir::Dims&) = nullptr;  // null: always
};
constexpr Reader kReaders[] = {
    {"torch::nn::BatchNormImplBase",
     [](const ir::Dims& sizes) -> TruthPtr {  // more than one value in each channel
       ir::Size count = sizes.at(0);
       for (size_t d = 2; d < sizes.size(); ++d) count *= sizes[d];
       const auto one = std::make_shared<Truth>(Truth{.kind = Truth::Kind::equal, .a = count, .b = 1});
       return std::make_shared<Truth>(Truth{.kind = Truth::Kind::negation, .left = one});
     }},
    {"c10::FunctionSchema::checkArg", nullptr},  // TorchScript's types of arguments
    {"at::_ops::upsample_", nullptr,             // they look at the dims of the image
     [](const ir::Dims& sizes) {
       return std::none_of(sizes.begin() + 2, sizes.end(), [](const ir::Size& s) { return s.is_symbolic(); });
     }},
};

bool is_harmless(Symbols& symbols, const ir::Dims& sizes) {
  for (const Reader& r : kReaders) {
    if (!is_called_by(r.function) || (r.allowed && !r.allowed(sizes))) continue;
    if (r.checks) symbols.assumed.push_back(r.checks(sizes));
    return true;
  }
  return false;
}

}  // namespace

at::IntArrayRef SymTensor::sizes_custom() const {
  if (!is_live() || (ir::is_symbolic(type_.sizes) && is_harmless(*set_->symbols, type_.sizes))) return sizes_default();
  for (const ir::Size& s : type_.sizes) known(s, "size");
  return sizes_default();
}
at::IntArrayRef SymTensor::strides_custom() const {
  if (!is_live() || (ir::is_symbolic(type_.strides) && is_called_by(kReaders[1].function))) return strides_default();
  for (const ir::Size& s : type_.strides) known(s, "stride");
  return strides_default();
}
int64_t SymTensor::size_custom(int64_t d) const { return known(type_.sizes[wrapped(d)], "size"); }
int64_t SymTensor::numel_custom() const {
  // LSTMs ask whether there are any.
  if (numel_default() > 0 && calling_op() == "aten::lstm_input") return numel_default();
  return known(type_.numel(), "number of elements");
}
int64_t SymTensor::storage_offset_custom() const { return known(offset_, "storage offset"); }
c10::SymInt SymTensor::sym_size_custom(int64_t d) const { return sizes_[wrapped(d)]; }
c10::SymInt SymTensor::sym_numel_custom() const { return set_->symbols->to_sym(type_.numel()); }
c10::SymInt SymTensor::sym_storage_offset_custom() const { return set_->symbols->to_sym(offset_); }

at::Tensor SymTensor::general() const {
  const auto numbers = [&](const ir::Dims& dims) {
    std::vector<int64_t> v;
    for (const ir::Size& s : dims) v.push_back(set_->symbols->at(s, set_->general).value());
    return v;
  };
  auto t = at::detail::make_tensor<c10::TensorImpl>(
      c10::Storage(c10::Storage::use_byte_size_t(), 0, at::DataPtr(), nullptr, false),
      c10::DispatchKeySet(c10::DispatchKey::CPU), dtype());
  t.unsafeGetTensorImpl()->set_sizes_and_strides(numbers(type_.sizes), numbers(type_.strides));
  return t;
}

c10::SymBool SymTensor::sym_is_contiguous_custom(at::MemoryFormat f) const { return general().is_contiguous(f); }
bool SymTensor::is_strides_like_custom(at::MemoryFormat f) const {
  return general().unsafeGetTensorImpl()->is_strides_like(f);
}
c10::SymBool SymTensor::sym_is_non_overlapping_and_dense_custom() const {
  return general().is_non_overlapping_and_dense();
}

}  // namespace precast::trace
