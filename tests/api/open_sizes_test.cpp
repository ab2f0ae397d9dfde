// Captures with open sizes: one artifact, loaded, at many sizes, against eager.
#include <doctest/doctest.h>
#include <precast/precast.h>
#include <torch/torch.h>

#include "support.h"

using torch::Tensor;

namespace {
Tensor twice(const Tensor& x) { return x * 2; }
}  // namespace

TEST_CASE("open sizes: by the eager backend") {
  const Tensor x = torch::randn({4, 6});
  precast::mark_unbacked(x, 0);
  CHECK_THROWS_WITH_AS(precast::precompile(precast::LowerOptions{.backend = "eager"}, twice, x),
                       doctest::Contains("backend=\"eager\" does not implement"), precast::NotImplementedError);
}
