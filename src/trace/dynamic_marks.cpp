// Marks of the arguments become symbols and types; those that cannot be honored are refused.
#include <algorithm>

#include "host_torch/tensor_types.h"
#include "trace/dynamic.h"
#include "trace/marks.h"
#include "trace/torch_internals.h"

namespace precast::trace {

using ir::Size;

namespace {

/// Strides of the layout that the tensor has; nothing for one that is neither contiguous nor channels last.
std::optional<ir::Dims> strides_like(const at::Tensor& t, const ir::Dims& sizes) {
  if (t.is_contiguous()) return ir::contiguous_strides(sizes);
  const bool last = (t.dim() == 4 && t.is_contiguous(at::MemoryFormat::ChannelsLast)) ||
                    (t.dim() == 5 && t.is_contiguous(at::MemoryFormat::ChannelsLast3d));
  if (!last) return {};
  ir::Dims moved = sizes, strides(sizes.size());
  std::rotate(moved.begin() + 1, moved.begin() + 2, moved.end());
  const ir::Dims dense = ir::contiguous_strides(moved);
  strides[0] = dense[0];
  strides[1] = dense.back();
  for (size_t d = 2; d < sizes.size(); ++d) strides[d] = dense[d - 1];
  return strides;
}

}  // namespace

bool Dynamic::wanted(const Sources& s) {
  return std::any_of(s.user.begin(), s.user.end(), [](const Source& u) { return marks_of(u.tensor).any(); });
}

void Dynamic::read_marks() {
  std::map<std::string, int> groups;
  std::map<const void*, size_t> seen;
  for (size_t u = 0; u < sources_.user.size(); ++u) {
    const Source& user = sources_.user[u];
    const Marks marks = marks_of(user.tensor);
    if (!marks.any()) continue;
    if (marks.dynamic)
      refuse(Check::dynamic_mark, user.name +
                                      " is marked with mark_dynamic, and a size that is guarded on needs a "
                                      "compiler at every call; use mark_unbacked, or leave the dim as it is");
    if (const auto [at, is_new] = seen.try_emplace(user.tensor.unsafeGetTensorImpl(), marked_.size()); !is_new) {
      marked_[at->second].users.push_back(u);
      continue;
    }
    if (std::string kind = unsupported_kind(user.tensor); !kind.empty())
      refuse(Check::input_kind, user.name + " is " + kind + "; only plain strided CPU tensors can be recorded");
    Marked& m = marked_.emplace_back();
    m.users = {u};
    m.real = user.tensor;
    m.type = host_torch::type_of(user.tensor);
    for (const auto& [dim, mark] : marks.unbacked) {
      const std::string where = user.name + ", dim " + std::to_string(dim);
      if (mark.specialize_on)
        refuse(Check::dynamic_mark, where +
                                        " is marked with specialize_on, and there is one artifact for all sizes; "
                                        "leave specialize_on out");
      if (dim >= user.tensor.dim())
        refuse(Check::dynamic_mark, where + " is marked, and the tensor has only " + std::to_string(user.tensor.dim()) +
                                        " dims now; mark it again");
      const int64_t real = user.tensor.size(dim);
      ir::Symbol symbol;
      symbol.min = mark.min.value_or(0);
      symbol.max = mark.max.value_or(ir::Symbol::kUnbounded);
      symbol.hint = mark.hint_override.value_or(real);
      if (real < symbol.min || real > symbol.max)
        refuse(Check::dynamic_bounds, where + ": the size is " + std::to_string(real) +
                                          ", outside of its own bounds, " + std::to_string(symbol.min) + " to " +
                                          (mark.max ? std::to_string(symbol.max) : "any") +
                                          "; pass an example within them, or change the mark");
      int id = -1;
      if (mark.shape_id) {
        const auto [at, is_new] = groups.try_emplace(*mark.shape_id, -1);
        if (is_new) at->second = symbols_->add(symbol, real, where);
        id = at->second;
        Symbols::One& one = symbols_->all[static_cast<size_t>(id)];
        if (one.real != real)
          refuse(Check::dynamic_group, where + " is " + std::to_string(real) + " and " + one.where + " is " +
                                           std::to_string(one.real) + ", and both are marked as '" + *mark.shape_id +
                                           "', one size; mark them apart, or pass equal sizes");
        one.symbol.min = std::max(one.symbol.min, symbol.min);
        one.symbol.max = std::min(one.symbol.max, symbol.max);
      } else {
        id = symbols_->add(symbol, real, where);
      }
      m.type.sizes[static_cast<size_t>(dim)] = symbols_->size(id);
    }
  }
  for (Marked& m : marked_) {
    for (Size& s : m.type.sizes) s = symbols_->canonical(s);  // with the bounds of the whole group
    const std::string& name = sources_.user[m.users[0]].name;
    const auto strides = strides_like(m.real, m.type.sizes);
    if (!strides || m.type.conj || m.type.neg)
      refuse(Check::dynamic_layout, name +
                                        " has a marked dim, and a layout that is neither contiguous nor channels last; "
                                        "pass it as contiguous(), or do not mark it");
    if (strides) m.type.strides = *strides;
    for (int i = 0; i < count_sources(); ++i) {
      const at::Tensor& other = source(i).tensor;
      if (other.defined() && other.has_storage() && other.unsafeGetTensorImpl() != m.real.unsafeGetTensorImpl() &&
          m.real.numel() > 0 && other.storage().unsafeGetStorageImpl() == m.real.storage().unsafeGetStorageImpl())
        refuse(Check::dynamic_layout, name + " has a marked dim, and shares its memory with " + source(i).name +
                                          "; pass a copy (.clone()), or do not mark it");
    }
  }
}

}  // namespace precast::trace
