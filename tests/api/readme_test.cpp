// The example in README.md, taken from there when the build is configured: it compiles, runs, and does what it says.
#define main()     \
  readme_unused(); \
  void readme_main()
#include "readme_example.inc"
#undef main

#include "api/support.h"

using namespace precast::testing;

TEST_CASE("README's example runs, and its pair does what step() does") {
  Folder folder;
  const auto here = std::filesystem::current_path();
  std::filesystem::current_path(folder.path);
  readme_main();
  const auto f = precast::load<at::Tensor(Net&, at::Tensor, at::Tensor)>({"step.cpp", "step.cache"});
  std::filesystem::current_path(here);

  torch::manual_seed(1);
  Net model;
  torch::manual_seed(1);
  Net eager;
  const auto x = torch::randn({64, 784}), target = torch::randint(10, {64});
  CHECK(close(f(model, x, target), step(eager, x, target)));
  for (size_t i = 0; i < model.parameters().size(); ++i)
    CHECK(close(model.parameters()[i].grad(), eager.parameters()[i].grad()));
}
