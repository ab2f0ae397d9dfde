// From numbers that were seen at several sizes to the expression that gives them.
#pragma once
#include <map>
#include <optional>
#include <vector>

#include "trace/symbols.h"

namespace precast::trace {

class Fit {
 public:
  Fit(std::shared_ptr<const Symbols>, std::vector<Point>);

  const std::vector<Point>& points() const { return points_; }
  /// Expressions that occur: what equals one of them at every point is that one.
  void know(const ir::Size&);
  /// seen[p]: at points()[p]. Nothing where no simple expression gives these numbers.
  /// `from`: what it may be a rounded quotient of.
  std::optional<ir::Size> operator()(const std::vector<int64_t>& seen, const ir::Dims& from = {}) const;

 private:
  std::optional<ir::Size> polynomial(const std::vector<int64_t>&) const;
  std::optional<ir::Size> rounded(const std::vector<int64_t>&, const ir::Dims& from) const;
  bool same(const ir::Size&, const ir::Size&) const;

  std::shared_ptr<const Symbols> symbols_;
  std::vector<Point> points_;
  std::vector<int> roots_;  // the symbols that are not joined to others
  std::map<std::vector<int64_t>, ir::Size> known_;
};

/// Sizes to look at: different for each symbol, within its bounds, at least `least` where they allow it. Empty when the
/// bounds leave too few.
std::vector<Point> general_points(const Symbols&, int64_t least);

}  // namespace precast::trace
