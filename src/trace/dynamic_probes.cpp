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

/// General points, above what windows ask for.
std::vector<Point> Dynamic::spread() const {
  std::vector<int64_t> from;
  for (const int64_t floor : floors_) from.push_back(std::max(least_, floor));
  return general_points(*symbols_, from);
}

void Dynamic::fit_at(std::vector<Point> points) {
  fit_ = std::make_unique<Fit>(symbols_, std::move(points));
  for (const Size& s : expressions_) fit_->know(s);
}

void Dynamic::restart(int64_t least) {
  c10::impl::ExcludeDispatchKeyGuard unrecorded(kRecordingKey);
  least_ = least;
  floors_.resize(symbols_->all.size());
  std::vector<Point> points = spread();
  for (const Point& p : more_points_) {
    bool within = true;
    for (size_t i = 0; i < p.size(); ++i)
      within = within && p[i] >= symbols_->all[i].symbol.min && p[i] <= symbols_->all[i].symbol.max;
    if (within && !points.empty()) points.push_back(p);
  }
  if (points.empty())
    refuse(Check::dynamic_bounds,
           "the bounds of a marked dim leave fewer than three sizes; do not mark it, or capture "
           "once for each size");
  fit_at(points);
  tensors_->general = points[0];
  shadows_.clear();
  for (Point& p : points) {
    LogRun& run = shadows_.emplace_back(*symbols_, std::move(p));
    start(run);
  }
  changes_ = symbols_->changes;
}

/// Runs the newest entry at all points.
void Dynamic::step_all(const LogEntry& e, Results& results) {
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

/// From the start; the results of the newest entry.
void Dynamic::run_all(Results& results) {
  for (const LogEntry& e : log_) {
    results.clear();
    for (LogRun& s : shadows_) results.push_back(s.step(e));
  }
}

/// Sizes of 0 and 1 are special (they broadcast, and have any stride): goes to points where `s` has others, if it has
/// in the call.
void Dynamic::enlarge(const Size& s, Results& results) {
  if (symbols_->real(s) < 2) return;
  const std::vector<int64_t> before = floors_;
  const auto is_small = [&] {
    const std::vector<Point> points = spread();
    return std::any_of(points.begin(), points.end(),
                       [&](const Point& p) { return symbols_->at(s, p).value_or(2) < 2; });
  };
  constexpr int64_t kMost = 4096;
  while (is_small()) {
    bool more = false;
    s.for_each_symbol([&](const ir::Symbol& u) {
      int64_t& floor = floors_[static_cast<size_t>(symbols_->root(u.id))];
      if (floor < std::min(kMost, symbols_->all[static_cast<size_t>(symbols_->root(u.id))].symbol.max))
        floor = std::max<int64_t>(2 * floor, 8), more = true;
    });
    if (!more) floors_ = before;
    if (!more) return;
  }
  if (floors_ == before) return;
  const KeepRandomState keep;
  more_points_.clear();
  try {
    restart(least_);
    run_all(results);
  } catch (const std::exception&) {  // the function does not work there
    floors_ = before;
    restart(least_);
    run_all(results);
  }
  settle(results);
}

/// Goes on until the points tell apart all expressions that are known: two that are equal wherever anybody looked would
/// be taken for one.
void Dynamic::settle(Results& results) {
  constexpr size_t kMost = 32;
  while (fit_->needed()) {
    c10::impl::ExcludeDispatchKeyGuard unrecorded(kRecordingKey);
    const KeepRandomState keep(true);
    const Point p = *fit_->needed();
    std::string failure = more_points_.size() < kMost ? "" : "too many sizes had to be tried";
    std::vector<Point> points = fit_->points();
    points.push_back(p), more_points_.push_back(p);
    fit_at(std::move(points));
    LogRun& run = shadows_.emplace_back(*symbols_, p);
    try {
      if (failure.empty()) start(run);
      for (size_t i = 0; failure.empty() && i < log_.size(); ++i) {
        std::vector<at::Tensor> made = run.step(log_[i]);
        if (i < places_.size()) failure = differs(i, made, p);
        if (i + 1 == log_.size()) results.push_back(std::move(made));
      }
    } catch (const std::exception& x) {
      failure = first_line(x.what());
    }
    if (failure.empty()) continue;
    symbols_->refuse(Check::dynamic_op, "the function cannot be followed at other sizes of the marked dims (" +
                                            symbols_->in_words(p, ", ") + ")" + calling_place() + ": " + failure +
                                            ". Do not mark that dim, or give it bounds");
    throw RunFailure("the recording cannot go on");
  }
}

/// What is wrong with the results of an entry at a point, against the sizes that they have in general; empty: nothing.
std::string Dynamic::differs(size_t entry, const std::vector<at::Tensor>& results, const Point& p) const {
  const std::vector<Place>& places = places_[entry];  // of the newest entry those that are known so far
  for (size_t r = 0; r < std::min(results.size(), places.size()); ++r) {
    const Place& place = places[r];
    if (!results[r].defined() || place.storage < 0) continue;
    const ir::Dims& sizes = place.type.sizes;
    for (size_t d = 0; d < sizes.size(); ++d)
      if (const auto v = symbols_->at(sizes[d], p);
          static_cast<int64_t>(sizes.size()) != results[r].dim() || v != results[r].size(static_cast<int64_t>(d)))
        return log_[entry].info->name + " makes " + c10::str(results[r].sizes()) + ", and in general a size of " +
               ir::to_string(sizes[d]);
  }
  return {};
}

/// An op that works in the call does not at other sizes: some of them have to be equal, or larger.
void Dynamic::recover(const std::string& op, const std::string& failure, Results& results) {
  const KeepRandomState keep(true);
  const auto works = [&](int64_t least) {
    try {
      restart(least);
      run_all(results);
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
