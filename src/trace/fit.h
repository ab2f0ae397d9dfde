// From numbers that were seen at several sizes to the expression that gives them.
#pragma once
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
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
  /// `from`: what it may be made of.
  std::optional<ir::Size> operator()(const std::vector<int64_t>& seen, const ir::Dims& from = {});
  /// A point that is needed: it tells expressions (or one and a number) apart that are equal at all points so far.
  const std::optional<Point>& needed() const { return needed_; }

 private:
  std::optional<ir::Size> polynomial(const std::vector<int64_t>&) const;
  ir::Dims made_of(const std::vector<int64_t>&, const ir::Dims& from) const;
  ir::Dims rounded(const std::vector<int64_t>&, const ir::Dims& from) const;
  std::optional<ir::Size> one_of(const ir::Dims& candidates);
  std::optional<std::vector<int64_t>> values(const ir::Size&) const;  // at the points
  std::optional<Point> apart(const ir::Size&, const ir::Size&);

  std::shared_ptr<const Symbols> symbols_;
  std::vector<Point> points_;
  std::vector<int> roots_;  // the symbols that are not joined to others
  std::map<std::vector<int64_t>, ir::Size> known_;
  std::set<std::pair<std::string, std::string>> equal_;  // written differently
  std::optional<Point> needed_;
};

/// Sizes to look at: different for each symbol, within its bounds, at least least[symbol] where they allow it. Empty
/// when the bounds leave too few.
std::vector<Point> general_points(const Symbols&, const std::vector<int64_t>& least);

}  // namespace precast::trace
