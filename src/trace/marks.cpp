#include "trace/marks.h"

#include <c10/core/WrapDimMinimal.h>

#include <mutex>
#include <stdexcept>
#include <unordered_map>

#include "trace/dispatch.h"
#include "util/checks.h"

namespace precast {

namespace {

struct Marked {
  c10::weak_intrusive_ptr<c10::TensorImpl> tensor;  // keeps the address from being used again
  trace::Marks marks;
};
struct Table {
  std::mutex mutex;
  std::unordered_map<const c10::TensorImpl*, Marked> marked;

  trace::Marks& of(const at::Tensor& t) {
    std::erase_if(marked, [](const auto& m) { return m.second.tensor.expired(); });
    auto impl = t.getIntrusivePtr();
    return marked.try_emplace(impl.get(), Marked{c10::weak_intrusive_ptr<c10::TensorImpl>(impl), {}})
        .first->second.marks;
  }
};
Table& table() {
  static Table t;
  return t;
}

int64_t checked(const at::Tensor& t, int64_t dim, const char* what) {
  if (!t.defined()) throw std::invalid_argument(std::string(what) + ": the tensor is undefined");
  if (trace::is_recording())
    refuse(Check::dynamic_mark_inside,
           std::string(what) + ": a tensor was marked inside a recorded function; mark the arguments before the call");
  if (dim < -t.dim() || dim >= t.dim())
    throw std::invalid_argument(std::string(what) + ": dim " + std::to_string(dim) + " of a tensor with " +
                                std::to_string(t.dim()) + " dims");
  return dim < 0 ? dim + t.dim() : dim;
}

}  // namespace

void mark_unbacked(const at::Tensor& t, int64_t dim, Mark mark) {
  dim = checked(t, dim, "mark_unbacked");
  if (mark.strict) mark = Mark{.strict = true, .specialize_on = mark.specialize_on};
  if (mark.min && mark.max && *mark.min > *mark.max)
    throw std::invalid_argument("mark_unbacked: min is " + std::to_string(*mark.min) + " and max is " +
                                std::to_string(*mark.max));
  for (const auto& bound : {mark.min, mark.max, mark.hint_override})
    if (bound && *bound < 0)
      throw std::invalid_argument("mark_unbacked: a bound or hint of " + std::to_string(*bound) +
                                  "; sizes are not negative");
  std::lock_guard lock(table().mutex);
  table().of(t).unbacked[dim] = std::move(mark);
}

void mark_dynamic(const at::Tensor& t, int64_t dim) {
  checked(t, dim, "mark_dynamic");
  std::lock_guard lock(table().mutex);
  table().of(t).dynamic = true;
}

trace::Marks trace::marks_of(const at::Tensor& t) {
  std::lock_guard lock(table().mutex);
  const auto at = t.defined() ? table().marked.find(t.unsafeGetTensorImpl()) : table().marked.end();
  return at == table().marked.end() ? Marks{} : at->second.marks;
}

void trace::set_marks(const at::Tensor& t, Marks marks) {
  std::lock_guard lock(table().mutex);
  table().of(t) = std::move(marks);
}

}  // namespace precast
