// Captures and calls from several threads, forks, and handles that go away while others call.
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <future>
#include <thread>

#include "support.h"

using namespace precast;
using namespace precast::testing;

namespace {

at::Tensor forward(Mlp& model, at::Tensor x) { return model->forward(x); }
at::Tensor train(Mlp& model, at::Tensor x) {
  at::Tensor loss = model->forward(x).pow(2).mean();
  loss.backward();
  return loss.detach();
}

template <class Fn>
void in_threads(int n, Fn fn) {
  std::vector<std::future<void>> all;
  for (int i = 0; i < n; ++i) all.push_back(std::async(std::launch::async, fn, i));
  for (auto& t : all) t.get();
}

/// Runs `check` in a forked child, which has a minute.
template <class Check>
void in_fork(Check check) {
  const pid_t child = fork();
  REQUIRE(child >= 0);
  if (child == 0) {
    alarm(60);
    _exit(check() ? 0 : 1);
  }
  int status = 0;
  REQUIRE(waitpid(child, &status, 0) == child);
  CHECK(WIFEXITED(status));
  CHECK(WEXITSTATUS(status) == 0);
}

}  // namespace

TEST_CASE("threads: captures do not mix") {
  const Mlp alone;
  Mlp model = alone;
  const at::Tensor x = torch::randn({2, 4});
  const std::string text = precompile({.backend = "eager"}, train, model, x).code;
  std::vector<std::string> texts(4);
  in_threads(4, [&](int i) {
    for (int round = 0; round < 5; ++round) {
      Mlp own;
      texts[static_cast<size_t>(i)] = precompile({.backend = "eager"}, train, own, torch::randn({2, 4})).code;
    }
  });
  for (const std::string& other : texts) CHECK(other == text);
}

TEST_CASE("threads: a capture leaves another thread alone that uses the same weights") {
  Mlp model;
  const at::Tensor x = torch::randn({2, 4}), expected = model->forward(x).detach();
  std::atomic<bool> done{false};
  std::atomic<int> wrong{0}, right{0};
  std::thread serving([&] {
    torch::NoGradGuard no_grad;
    while (!done) ++(torch::equal(model->forward(x), expected) ? right : wrong);
  });
  std::string refused;
  try {
    for (int round = 0; round < 20 || right < 100; ++round) {
      precompile({.backend = "eager"}, forward, model, x);
      precompile({.backend = "eager"}, train, model, x);
    }
  } catch (const std::exception& e) {
    refused = e.what();
  }
  done = true;
  serving.join();
  CHECK(refused == "");
  CHECK(wrong == 0);
}

TEST_CASE("threads: one runnable, many callers, and a handle that goes away") {
  for (const char* backend : {"eager", "inductor"}) {
    Mlp model;
    const at::Tensor x = torch::randn({2, 4});
    auto f = std::make_unique<PrecompiledRunnable<at::Tensor(Mlp&, at::Tensor)>>(
        load_from_memory<at::Tensor(Mlp&, at::Tensor)>(precompile({.backend = backend}, forward, model, x)));
    std::atomic<int> wrong{0}, ready{0};
    std::atomic<bool> dropped{false};
    std::thread owner([&] {
      while (ready < 3) std::this_thread::yield();
      f->unload();
      f.reset();
      dropped = true;
    });
    in_threads(3, [&](int i) {
      const auto copy = *f;
      ++ready;
      Mlp own;
      const at::Tensor mine = torch::full({2, 4}, i + 0.5), expected = own->forward(mine).detach();
      for (int round = 0; round < 200 || !dropped; ++round) wrong += !close(copy(own, mine), expected);
    });
    owner.join();
    CHECK(wrong == 0);
  }
}

TEST_CASE("threads: a fork after load, and after calls that used threads") {
  const auto large = [](at::Tensor x) { return (x * 2).tanh().sum(0) + 1; };
  const at::Tensor x = torch::randn({300, 3000}), expected = large(x);
  for (const char* backend : {"eager", "inductor"}) {
    const auto f = load_from_memory<at::Tensor(at::Tensor)>(precompile({.backend = backend}, large, x));
    const auto right = [&] { return close(f(x), expected); };
    if (std::string(backend) == "inductor") in_fork(right);  // eager's own operators have used threads here
    CHECK(right());
    if (std::string(backend) == "inductor") in_fork(right);
  }
}
