#include "host_torch/sized_executors.h"

#include <algorithm>

#include "ir/print.h"

namespace precast::host_torch {

namespace {
constexpr size_t kKept = 64;
}

std::shared_ptr<const GraphExecutor> SizedExecutors::get(const artifact::Metadata& metadata, const std::string& graph,
                                                         const precast_i64* symbols) {
  const Sizes sizes(symbols, symbols + metadata.symbols.size());
  const std::lock_guard lock(mutex_);
  const auto found = std::ranges::find(recent_, sizes, &Entry::sizes);
  if (found != recent_.end()) {
    recent_.splice(recent_.begin(), recent_, found);
  } else {
    auto made =
        std::make_shared<const GraphExecutor>(ir::substitute(ir::parse(graph), artifact::values_of(metadata, symbols)));
    recent_.push_front({sizes, std::move(made)});
    if (recent_.size() > kKept) recent_.pop_back();
  }
  return recent_.front().executor;
}

}  // namespace precast::host_torch
