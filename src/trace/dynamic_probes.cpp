// The ops of a call at other sizes than its own, as it goes on.
#include <ATen/ops/arange.h>
#include <ATen/ops/index_select.h>
#include <ATen/ops/zeros.h>
#include <c10/core/impl/LocalDispatchKeySet.h>

#include <algorithm>

#include "host_torch/tensor_types.h"
#include "precast/error.h"
#include "trace/dynamic.h"
#include "trace/geometry.h"
#include "trace/random_state.h"
#include "trace/torch_internals.h"

namespace precast::trace {

using ir::Size;

namespace {

std::string first_line(const std::string& text) { return text.substr(0, text.find('\n')); }

}  // namespace

at::Tensor Dynamic::contents_at(const Marked& m, const Point& p) const {
  std::vector<int64_t> sizes;
  for (const Size& s : m.type.sizes) sizes.push_back(symbols_->at(s, p).value());
  at::Tensor t = m.contents;
  for (size_t d = 0; d < sizes.size(); ++d) {
    const auto dim = static_cast<int64_t>(d);
    if (t.size(dim) == sizes[d]) continue;
    if (t.size(dim) == 0) {
      std::vector<int64_t> now = t.sizes().vec();
      now[d] = sizes[d];
      t = at::zeros(now, t.options());
    } else {
      t = t.index_select(dim, at::arange(sizes[d]).remainder(t.size(dim)));
    }
  }
  return t;
}

void Dynamic::start(LogRun& run, bool harmless) const {
  const auto zeroed = [&](const at::Tensor& t) { return harmless && at::isIntegralType(t.scalar_type(), false); };
  for (const Base& b : bases_) {
    if (b.marked) continue;
    if (b.source >= 0 && zeroed(source(b.source).tensor))
      run.set(b.storage, at::zeros({static_cast<int64_t>(b.real.nbytes())}, at::kByte).storage(), false);
    else
      run.set(b.storage, b.real, /*shared=*/true);
  }
  for (const Marked& m : marked_) {
    const int id = storages_.at(m.real.storage().unsafeGetStorageImpl()).id;
    // Laid out as the mark says, after as many elements as in the call.
    const at::Tensor contents = contents_at(m, run.point());
    ir::Type type = m.type;
    for (Size& s : type.sizes) s = symbols_->at(s, run.point()).value();
    for (Size& s : type.strides) s = symbols_->at(s, run.point()).value();
    const int64_t offset = m.real.storage_offset() * ir::itemsize(type.dtype);
    const at::Tensor memory = at::zeros({offset + std::max<int64_t>(type.span_bytes(), 0)}, at::kByte);
    run.set(id, memory.storage(), false);
    if (!zeroed(contents)) host_torch::copy_window(tensor_at(memory.storage(), {type, offset}), contents);
  }
}

void Dynamic::restart(int64_t least) {
  c10::impl::ExcludeDispatchKeyGuard unrecorded(kRecordingKey);
  least_ = least;
  std::vector<Point> points = general_points(*symbols_, least);
  if (points.empty())
    refuse(Check::dynamic_bounds,
           "the bounds of a marked dim leave fewer than three sizes; do not mark it, or capture "
           "once for each size");
  fit_ = std::make_unique<Fit>(symbols_, points);
  for (const Size& s : expressions_) fit_->know(s);
  tensors_->general = points[0];
  shadows_.clear();
  for (Point& p : points) {
    LogRun& run = shadows_.emplace_back(*symbols_, std::move(p));
    start(run);
  }
  changes_ = symbols_->changes;
}

/// Runs the newest entry at all points.
void Dynamic::step_all(const LogEntry& e, std::vector<std::vector<at::Tensor>>& results) {
  const KeepRandomState keep(e.info->random);
  results.clear();
  std::string failure;
  if (changes_ != symbols_->changes) {
    failure = "sizes turned out to be one";
  } else {
    try {
      for (LogRun& s : shadows_) results.push_back(s.step(e));
      return;
    } catch (const std::exception& x) {
      failure = first_line(x.what());
    }
  }
  recover(e.info->name, failure, results);
}

/// An op that works in the call does not at other sizes: some of them have to be equal, or larger.
void Dynamic::recover(const std::string& op, const std::string& failure,
                      std::vector<std::vector<at::Tensor>>& results) {
  const KeepRandomState keep(true);
  const auto works = [&](int64_t least) {
    try {
      restart(least);
      for (const LogEntry& e : log_) {
        results.clear();
        for (LogRun& s : shadows_) results.push_back(s.step(e));
      }
      return true;
    } catch (const PrecompileError&) {
      if (least == least_ && shadows_.empty()) throw;
      return false;
    } catch (const std::exception&) {
      return false;
    }
  };
  if (changes_ != symbols_->changes && works(least_)) return;
  std::vector<std::pair<int, int>> pairs;
  const int n = static_cast<int>(symbols_->all.size());
  for (int i = 0; i < n; ++i)
    for (int j = i + 1; j < n; ++j)
      if (symbols_->root(i) == i && symbols_->root(j) == j &&
          symbols_->all[static_cast<size_t>(i)].real == symbols_->all[static_cast<size_t>(j)].real)
        pairs.emplace_back(i, j);
  const std::vector<Symbols::One> before = symbols_->all;
  const auto with = [&](std::initializer_list<size_t> chosen) {
    symbols_->all = before;
    for (size_t c : chosen) symbols_->join(pairs[c].first, pairs[c].second);
    return works(least_);
  };
  for (size_t a = 0; a < pairs.size(); ++a)
    if (with({a})) return;
  for (size_t a = 0; a < pairs.size(); ++a)
    for (size_t b = 0; b < a; ++b)
      if (with({a, b})) return;
  symbols_->all = before;
  int64_t largest = 0;
  for (const Symbols::One& one : symbols_->all) largest = std::max(largest, one.real);
  for (const int64_t least : {int64_t{17}, int64_t{65}, int64_t{257}, (largest / 12 + 1) * 12 + 5})
    if (least > least_ && least <= std::max<int64_t>(largest * 2, 65) && works(least)) return;
  symbols_->refuse(Check::dynamic_op, op + " works at the sizes of this call and not at others of the marked dims" +
                                          calling_place() + ": " + failure +
                                          ". Do not mark that dim, or give it bounds");
}

}  // namespace precast::trace
