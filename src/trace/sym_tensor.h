// A tensor whose sizes are expressions while a call is recorded: it lies in the real memory, computes for real, and
// shows LibTorch and the user's function symbolic sizes. When the call is over it is an ordinary tensor.
#pragma once
#include <ATen/core/Tensor.h>
#include <c10/util/SmallVector.h>

#include <memory>
#include <mutex>
#include <unordered_set>

#include "ir/type.h"
#include "trace/symbols.h"

namespace precast::trace {

class SymTensor;

/// Those that are alive.
struct SymTensors {
  std::shared_ptr<Symbols> symbols;
  Point general;  // sizes of no special kind: what holds at them holds "in general position"
  std::mutex mutex;
  std::unordered_set<SymTensor*> alive;
  /// All become ordinary tensors of the sizes they really have.
  void thaw();
};

class SymTensor final : public c10::TensorImpl {
 public:
  /// `real`, seen with these sizes. The offset counts elements.
  SymTensor(std::shared_ptr<SymTensors>, const at::Tensor& real, ir::Type, ir::Size offset);
  ~SymTensor() override;

  static SymTensor* of(const at::Tensor& t) {
    return t.defined() ? dynamic_cast<SymTensor*>(t.unsafeGetTensorImpl()) : nullptr;
  }
  const ir::Type& type() const { return type_; }
  const ir::Size& offset() const { return offset_; }
  bool is_live() const { return set_->symbols->live; }
  /// The same memory as an ordinary tensor.
  at::Tensor plain() const;

  c10::intrusive_ptr<c10::TensorImpl> shallow_copy_and_detach(const c10::VariableVersion&, bool) const override;
  c10::intrusive_ptr<c10::TensorImpl> shallow_copy_and_detach(c10::VariableVersion&&, bool) const override;
  void shallow_copy_from(const c10::intrusive_ptr<c10::TensorImpl>&) override;

 protected:
  at::IntArrayRef sizes_custom() const override;
  at::IntArrayRef strides_custom() const override;
  int64_t size_custom(int64_t) const override;
  int64_t numel_custom() const override;
  int64_t storage_offset_custom() const override;
  int64_t dim_custom() const override { return type_.dim(); }
  c10::SymIntArrayRef sym_sizes_custom() const override { return sizes_; }
  c10::SymInt sym_size_custom(int64_t) const override;
  c10::SymIntArrayRef sym_strides_custom() const override { return strides_; }
  c10::SymInt sym_numel_custom() const override;
  c10::SymInt sym_storage_offset_custom() const override;
  c10::SymBool sym_is_contiguous_custom(at::MemoryFormat) const override;
  bool is_strides_like_custom(at::MemoryFormat) const override;
  c10::SymBool sym_is_non_overlapping_and_dense_custom() const override;

 private:
  friend struct SymTensors;
  size_t wrapped(int64_t dim) const;
  int64_t known(const ir::Size&, const char* what) const;
  at::Tensor general() const;  // of the general sizes, without memory

  std::shared_ptr<SymTensors> set_;
  ir::Type type_;
  ir::Size offset_;
  c10::SmallVector<c10::SymInt, 5> sizes_, strides_;
};

}  // namespace precast::trace
