#include "api/agree.h"

#include <ATen/CPUGeneratorImpl.h>

#include <cstdlib>
#include <set>
#include <sstream>

#include "util/warn.h"

namespace precast::testing {

namespace {

constexpr uint64_t kSeeds[] = {1, 2};  // the first is captured
LowerOptions options(const char* backend) { return {.backend = backend, .isa = {"baseline"}}; }

std::vector<std::pair<std::string, Tensor>> reachable(const World& w) {
  std::vector<std::pair<std::string, Tensor>> all;
  for (auto& p : w.module->named_parameters()) all.emplace_back("parameter " + p.key(), p.value());
  for (auto& b : w.module->named_buffers()) all.emplace_back("buffer " + b.key(), b.value());
  for (size_t i = 0; i < w.in.size(); ++i) all.emplace_back("input " + std::to_string(i), w.in[i]);
  return all;
}

Tensor grad_of(const Tensor& t) { return t.defined() && t.is_leaf() ? t.grad() : Tensor(); }

/// All that can be seen of a world after (or before) a call, in words and values that compare.
struct Seen {
  struct One {
    std::string name, type;
    Tensor value;
  };
  std::vector<One> tensors;
  std::set<std::string> identities;  // which of results, world and gradients are one object, which share memory
  Tensor random;
};

std::string type_in_words(const Tensor& t) {
  std::ostringstream s;
  s << t.scalar_type() << ' ' << t.sizes() << " strides " << t.strides();
  if (t.is_conj()) s << " conj";
  if (t.is_neg()) s << " neg";
  return s.str();
}

Tensors grads_of(const World& w) {
  Tensors grads;
  for (auto& [name, t] : reachable(w)) grads.push_back(grad_of(t));
  return grads;
}

Seen look(const World& w, const Tensors& results, const Tensors& old_grads = {}) {
  Seen seen;
  // A gradient that was there before counts by its memory: whether .grad still lies in it.
  std::vector<std::pair<std::string, Tensor>> all;
  for (size_t i = 0; i < results.size(); ++i) all.emplace_back("result " + std::to_string(i), results[i]);
  for (auto& [name, t] : reachable(w)) {
    all.emplace_back(name, t);
    all.emplace_back("the gradient of " + name, grad_of(t));
  }
  const size_t old_from = all.size();
  for (size_t i = 0; i < old_grads.size(); ++i) all.emplace_back("the old gradient " + std::to_string(i), old_grads[i]);
  at::NoGradGuard no_grad;
  for (size_t i = 0; i < all.size(); ++i) {
    const Tensor& t = all[i].second;
    const bool plain =
        t.defined() && t.device().is_cpu() && t.layout() == at::kStrided && !t._is_zerotensor() && i < old_from;
    seen.tensors.push_back({all[i].first,
                            plain         ? type_in_words(t)
                            : t.defined() ? "unusual"
                                          : "undefined",
                            plain ? t.detach().clone() : Tensor()});
    for (size_t k = 0; k < i; ++k) {
      const Tensor& u = all[k].second;
      if (!t.defined() || !u.defined() || !t.has_storage() || !u.has_storage()) continue;
      if (!t.is_same(u) && (!t.is_alias_of(u) || t.numel() == 0 || u.numel() == 0)) continue;
      seen.identities.insert(all[k].first +
                             (t.is_same(u) && k < old_from && i < old_from ? " is " : " shares memory with ") +
                             all[i].first);
    }
  }
  seen.random = at::detail::getDefaultCPUGenerator().get_state();
  return seen;
}

enum class Closeness { bits, floats, halves };

bool same_values(const Tensor& a, const Tensor& b, Closeness how) {
  const Tensor x = a.resolve_conj().resolve_neg().contiguous(), y = b.resolve_conj().resolve_neg().contiguous();
  if (x.numel() == 0) return true;
  const bool floating = x.is_floating_point() || x.is_complex();
  if (how == Closeness::bits || !floating) return torch::equal(x, y) || (floating && torch::allclose(x, y, 0, 0, true));
  if (how == Closeness::halves) return torch::allclose(x, y, 0.1, 1e-2, true);
  const bool half = x.scalar_type() == at::kHalf || x.scalar_type() == at::kBFloat16;
  return torch::allclose(x, y, half ? 1e-2 : 1e-5, half ? 1e-3 : 1e-6, true);
}

void compare(const std::string& when, const Seen& eager, const Seen& ours, Closeness how = Closeness::bits) {
  INFO(when);
  REQUIRE(eager.tensors.size() == ours.tensors.size());
  for (size_t i = 0; i < eager.tensors.size(); ++i) {
    const Seen::One &a = eager.tensors[i], &b = ours.tensors[i];
    INFO(a.name);
    CHECK(b.type == a.type);
    if (a.type != b.type || !a.value.defined()) continue;
    const bool same = same_values(a.value, b.value, how);
    if (!same && a.value.numel() < 50) MESSAGE(a.name << ": " << a.value << "\nfound " << b.value);
    CHECK(same);
  }
  for (const auto* side : {&eager, &ours})
    for (const std::string& fact : side->identities) {
      const bool both = eager.identities.contains(fact) && ours.identities.contains(fact);
      CHECK_MESSAGE(both, (side == &eager ? "missing: " : "not so in eager: ") << fact);
    }
  CHECK(torch::equal(ours.random, eager.random));
}

World world_of(const Program& p, uint64_t seed) {
  torch::manual_seed(seed);
  World w = seed == kSeeds[1] && p.other_make ? p.other_make() : p.make();
  torch::manual_seed(1000 + seed);
  return w;
}

using Call = PrecompiledRunnable<Tensors(torch::nn::Module&, Tensors)>;

bool wanted(const Program& p) {
  const char* only = std::getenv("PROGRAM");
  return !only || p.name.find(only) != std::string::npos;
}

}  // namespace

Program on(std::string name, std::function<Tensors()> in, std::function<Tensors(const Tensors&)> fn) {
  return {std::move(name), [in] { return World{std::make_shared<torch::nn::Module>(), in()}; },
          [fn](torch::nn::Module&, const Tensors& x) { return fn(x); }};
}

void agree(const Program& p) {
  if (!wanted(p)) return;
  INFO("program: ", p.name);
  const WarningSink sink = set_warning_sink([](std::string_view) {});  // of results that require grad in eager
  struct Restore {
    const WarningSink& sink;
    ~Restore() { set_warning_sink(sink); }
  } restore{sink};
  std::vector<Seen> eager;
  for (uint64_t seed : kSeeds) {
    World w = world_of(p, seed);
    const Tensors before = grads_of(w), results = p.fn(*w.module, w.in);
    eager.push_back(look(w, results, before));
  }
  for (const std::string backend : {"eager", "inductor"}) {
    if (backend == "inductor" && !p.kernels) continue;
    INFO("backend: ", backend);
    try {
      World w = world_of(p, kSeeds[0]);
      const Tensors before = grads_of(w);
      detail::CaptureCore core(options(backend.c_str()));
      Tensors results = detail::record(core, p.fn, *w.module, w.in);
      compare("the capturing call", eager[0], look(w, results, before));
      const Closeness closeness = p.exact && backend == "eager" ? Closeness::bits
                                  : p.halves                    ? Closeness::halves
                                                                : Closeness::floats;
      const Call call = load_from_memory<Tensors(torch::nn::Module&, Tensors)>(core.pair());
      for (size_t i = 0; i < eager.size(); ++i) {
        World again = world_of(p, kSeeds[i]);
        const Tensors old = grads_of(again), out = call(*again.module, again.in);
        compare(i == 0 ? "the same call" : "another call", eager[i], look(again, out, old), closeness);
      }
    } catch (const std::exception& e) {
      const bool nothing = std::string_view(e.what()).find("graph that computes nothing") != std::string_view::npos;
      if (backend == "inductor" && nothing) continue;  // the eager backend serves it
      FAIL_CHECK(std::string(e.what()).substr(0, 3000));
    }
  }
}

void agree_all(const std::vector<Program>& programs) {
  for (const Program& p : programs) agree(p);
}

std::string refused(const Program& p) {
  INFO("program: ", p.name);
  World w = world_of(p, 1);
  const Seen before = look(w, {});
  const std::string message = message_of([&] { precompile(options("eager"), p.fn, *w.module, w.in); });
  compare("after a refusal", before, look(w, {}));
  return message;
}

std::string call_refused(const Program& p, const char* backend, const std::function<World()>& other) {
  INFO("program: ", p.name, ", backend: ", backend);
  World w = world_of(p, 1);
  const Call call =
      load_from_memory<Tensors(torch::nn::Module&, Tensors)>(precompile(options(backend), p.fn, *w.module, w.in));
  torch::manual_seed(2);
  World o = other();
  const Seen before = look(o, {});
  const std::string message = message_of([&] { (void)call(*o.module, o.in); });
  compare("after a refused call", before, look(o, {}));
  return message;
}

}  // namespace precast::testing
