// compile_on_one_rank with real processes over a TCPStore that the test holds.
#include <sys/wait.h>
#include <unistd.h>

#include <fstream>
#include <future>
#include <thread>
#include <torch/csrc/distributed/c10d/TCPStore.hpp>

#include "precast/one_rank.h"
#include "support.h"

using namespace precast;
using namespace precast::testing;
using namespace std::chrono_literals;

namespace {

/// A folder of one rank, `shared/rank`, from which its process learns who it is and where the store listens.
struct Place {
  std::filesystem::path shared = child_folder().parent_path();
  int rank = std::stoi(child_folder().filename().string()), size = 0;
  uint16_t port = 0;
  Place() { std::ifstream(shared / "store") >> port >> size; }

  LowerOptions options(std::chrono::milliseconds timeout) const {
    c10d::TCPStoreOptions store;
    store.port = port, store.waitWorkers = false;
    LowerOptions o;
    o.isa = {"baseline"};
    o.compile_on_one_rank =
        ranks(c10::make_intrusive<c10d::TCPStore>(std::string("127.0.0.1"), store), rank, size, timeout);
    return o;
  }
};

at::Tensor step(Mlp& model, at::Tensor x) {
  model->zero_grad();
  at::Tensor loss = model->forward(x).pow(2).mean();
  loss.backward();
  return loss.detach();
}

/// Runs `child` in a process for each rank, all at once; returns when they have passed.
void in_ranks(const char* child, int size, const Folder& folder) {
  c10d::TCPStoreOptions options;
  options.port = 0, options.isServer = true, options.waitWorkers = false;
  const auto store = c10::make_intrusive<c10d::TCPStore>(std::string("127.0.0.1"), options);
  std::ofstream(folder.path / "store") << store->getPort() << " " << size;
  std::vector<std::future<void>> all;
  for (int rank = 0; rank < size; ++rank) {
    const auto place = folder.path / std::to_string(rank);
    std::filesystem::create_directories(place);
    all.push_back(std::async(std::launch::async, [=] { run_in_fresh_process(child, place); }));
  }
  for (auto& f : all) f.get();
}

std::string read(const std::filesystem::path& path) {
  std::stringstream text;
  text << std::ifstream(path, std::ios::binary).rdbuf();
  return text.str();
}

}  // namespace

TEST_CASE("child: captures together" * doctest::skip()) {
  const Place place;
  torch::manual_seed(1 + place.rank);  // each with weights and inputs of its own
  Mlp model, eager;
  const auto parameters = eager->parameters();
  {
    torch::NoGradGuard no_grad;
    for (size_t i = 0; i < parameters.size(); ++i) parameters[i].copy_(model->parameters()[i]);
  }
  for (int round = 0; round < 2; ++round) {  // captures are told apart by their order
    const at::Tensor x = torch::randn({3 + round, 4});
    int runs = 0;
    const auto counted = [&](Mlp& m, at::Tensor t) {
      ++runs;
      return step(m, t);
    };
    auto cap = capture(counted, {child_folder() / "m.cpp", child_folder() / "m.cache"}, place.options(60s));
    const at::Tensor loss = cap(model, x);
    CHECK(runs == (place.rank == 0 ? 1 : 0));
    CHECK(close(loss, step(eager, x)));
    for (size_t i = 0; i < parameters.size(); ++i) CHECK(close(model->parameters()[i].grad(), parameters[i].grad()));
    contains(message_of([&] { cap(model, x); }), "takes exactly one call");
    cap.finish();
    CHECK(cap.summary().complete());
    const auto f = load<at::Tensor(Mlp&, at::Tensor)>({child_folder() / "m.cpp", child_folder() / "m.cache"});
    CHECK(close(f(model, x), step(eager, x)));
  }
  const Pair pair = precompile(place.options(60s), [](at::Tensor t) { return t + 1; }, torch::zeros({2}));
  CHECK_FALSE(pair.cache.empty());
}

TEST_CASE("one rank captures, the others run what it made") {
  for (const int size : {2, 3}) {
    const Folder folder;
    in_ranks("child: captures together", size, folder);
    for (int rank = 1; rank < size; ++rank)
      for (const char* half : {"m.cpp", "m.cache"})
        CHECK(read(folder.path / "0" / half) == read(folder.path / std::to_string(rank) / half));
  }
}

TEST_CASE("child: disagrees" * doctest::skip()) {
  const Place place;
  bool ran = false;
  auto cap = capture(
      [&](at::Tensor x) {
        ran = true;
        return x + 1;
      },
      {child_folder() / "m.cpp", child_folder() / "m.cache"}, place.options(60s));
  const std::string message = message_of([&] { cap(torch::zeros({place.rank == 2 ? 3 : 2})); });
  contains(message,
           "rank 2 was called with other arguments than rank 0: expected argument 0: f32[2], found argument 0: "
           "f32[3]");
  CHECK_FALSE(ran);
  CHECK_THROWS_AS(cap.finish(), PrecompileError);
  CHECK_FALSE(std::filesystem::exists(child_folder() / "m.cpp"));
}

TEST_CASE("one rank: ranks that disagree on arguments") { in_ranks("child: disagrees", 3, Folder()); }

TEST_CASE("child: fails" * doctest::skip()) {
  const Place place;
  bool fail = true;
  auto cap = capture(
      [&](at::Tensor x) {
        if (fail) throw std::domain_error("not yet");
        return x + 1;
      },
      {child_folder() / "m.cpp", child_folder() / "m.cache"}, place.options(60s));
  const auto call = [&] { return cap(torch::zeros({2})); };
  if (place.rank == 0)
    CHECK(message_of<std::domain_error>(call) == "not yet");
  else
    contains(message_of(call), "the capture on rank 0 failed: std::domain_error: not yet");
  fail = false;
  CHECK(torch::equal(call(), torch::ones({2})));
  cap.finish();
}

TEST_CASE("one rank: a capture that fails is known to all") { in_ranks("child: fails", 2, Folder()); }

TEST_CASE("child: loses another" * doctest::skip()) {
  const Place place;
  const auto message = [&](std::chrono::milliseconds timeout, std::function<at::Tensor(at::Tensor)> fn) {
    return message_of([&] { precompile(place.options(timeout), fn, torch::zeros({2})); });
  };
  const auto plus = [](at::Tensor x) { return x + 1; };
  // Rank 2 does not come in time: the others say so.
  if (place.rank == 2)
    std::this_thread::sleep_for(3s);
  else
    contains(message(1s, plus), "rank 2 has not come to this capture within 1 s");
  // Rank 0 dies while it captures.
  const pid_t child = place.rank == 0 ? fork() : -1;
  if (child == 0) {
    precompile(place.options(60s), [](at::Tensor x) { return _exit(9), x; }, torch::zeros({2}));
    _exit(1);
  }
  if (place.rank == 0) {
    int status = 0;
    waitpid(child, &status, 0);
    CHECK(WEXITSTATUS(status) == 9);
  } else {
    auto options = place.options(4s);
    if (place.rank == 2)  // it has made one capture less
      precompile({.isa = {"baseline"},
                  .compile_on_one_rank = Ranks{.rank = 0,
                                               .size = 1,
                                               .set = [](const std::string&, const std::string&) {},
                                               .get = options.compile_on_one_rank->get}},
                 plus, torch::zeros({2}));
    contains(message_of([&] { precompile(options, plus, torch::zeros({2})); }),
             "rank 0 has not delivered the artifact within 4 s");
  }
}

TEST_CASE("one rank: a rank that dies, and one that is late") { in_ranks("child: loses another", 3, Folder()); }

TEST_CASE("one rank: wrong options") {
  LowerOptions options;
  options.compile_on_one_rank = Ranks{.rank = 2, .size = 2};
  CHECK(message_of<std::invalid_argument>([&] { precompile(options, [](at::Tensor x) { return x; }, at::Tensor()); }) ==
        "compile_on_one_rank: rank must be in [0, size), got rank 2 of 2");
  options.compile_on_one_rank->rank = 1;
  contains(
      message_of<std::invalid_argument>([&] { precompile(options, [](at::Tensor x) { return x; }, at::Tensor()); }),
      "the store has no set or no get");
}
