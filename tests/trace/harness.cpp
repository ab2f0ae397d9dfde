#include "harness.h"

#include <ATen/CPUGeneratorImpl.h>
#include <doctest/doctest.h>

#include <map>

#include "host_torch/graph_executor.h"
#include "host_torch/tensor_types.h"
#include "ir/print.h"
#include "ir/verify.h"
#include "trace/geometry.h"

namespace precast::trace::testing {

namespace {

using artifact::Result;

constexpr uint64_t kRunSeed = 77;

/// Every tensor a program may change, in a fixed order: parameters, buffers, inputs.
Tensors reachable(const State& s) {
  Tensors all;
  if (s.module) {
    for (auto& p : s.module->parameters()) all.push_back(p);
    for (auto& b : s.module->buffers()) all.push_back(b);
  }
  all.insert(all.end(), s.inputs.begin(), s.inputs.end());
  return all;
}

std::string difference(const Tensor& a, const Tensor& b, bool exact) {
  torch::NoGradGuard no_grad;
  if (a.defined() != b.defined()) return a.defined() ? "is undefined in the second" : "is undefined in the first";
  if (!a.defined()) return "";
  ir::Type ta = host_torch::type_of(a), tb = host_torch::type_of(b);
  for (ir::Type* t : {&ta, &tb})
    for (size_t d = 0; !exact && d < t->sizes.size(); ++d)
      if (t->sizes[d] == 1) t->strides[d] = 1;  // means nothing
  if (a.numel() ? !(ta == tb) : ta.sizes != tb.sizes || ta.dtype != tb.dtype)
    return "has type " + ir::to_string(ta) + " and " + ir::to_string(tb);
  const Tensor x = a.detach().resolve_conj().resolve_neg(), y = b.detach().resolve_conj().resolve_neg();
  if (x.is_sparse()) return difference(x.to_dense(), y.to_dense(), exact);
  if (exact ? torch::allclose(x, y, 0, 0, true) : torch::allclose(x, y, 1e-5, 1e-6, true)) return "";
  return "differs by " + c10::str((x.to(torch::kDouble) - y.to(torch::kDouble)).abs().max().item<double>());
}

/// Which pairs of tensors share storage, as a string.
std::string sharing(const Tensors& list) {
  std::string s;
  for (size_t i = 0; i < list.size(); ++i)
    for (size_t j = 0; j < i; ++j)
      s += list[i].defined() && list[j].defined() && list[i].is_alias_of(list[j]) ? '1' : '0';
  return s;
}

struct Seen {  // after a call
  Tensors results, reachable, grads;
  Tensor random;
};

Tensors grads_of(const Tensors& list) {
  Tensors grads;
  for (const Tensor& t : list) grads.push_back(t.defined() && t.is_leaf() ? t.grad() : Tensor());
  return grads;
}

Tensor random_state() { return at::detail::getDefaultCPUGenerator().get_state(); }

std::vector<std::string> compare(const Seen& a, const Seen& b, bool exact) {
  std::vector<std::string> found;
  const auto each = [&](const char* what, const Tensors& x, const Tensors& y) {
    if (x.size() != y.size()) return found.push_back(std::string("another number of ") + what + "s");
    for (size_t i = 0; i < x.size(); ++i)
      if (std::string d = difference(x[i], y[i], exact); !d.empty())
        found.push_back(what + (" " + std::to_string(i)) + ' ' + d);
  };
  each("result", a.results, b.results);
  each("tensor", a.reachable, b.reachable);
  each("gradient", a.grads, b.grads);
  const auto all = [](const Seen& s) {
    Tensors list = s.results;
    list.insert(list.end(), s.reachable.begin(), s.reachable.end());
    return list;
  };
  if (sharing(all(a)) != sharing(all(b))) found.push_back("shares memory otherwise");
  if (!torch::equal(a.random, b.random)) found.push_back("leaves another random state");
  return found;
}

Seen seen(const State& s, Tensors results) {
  const Tensors all = reachable(s);
  return {std::move(results), all, grads_of(all), random_state()};
}

/// What an artifact's driver does, for the tests: checks aliases, runs the graph, writes back, hands out results.
Tensors play(const Recording& rec, const State& state) {
  torch::NoGradGuard no_grad;
  const Tensors sources = [&] {
    Tensors list;
    const Sources s = sources_of(state);
    for (auto* part : {&s.params, &s.buffers, &s.user})
      for (const Source& one : *part) list.push_back(one.tensor);
    return list;
  }();
  const auto& sig = rec.signature;
  const auto address = [&](int source) { return static_cast<char*>(sources[static_cast<size_t>(source)].data_ptr()); };
  for (const auto& a : sig.aliases)
    if (a.shared) REQUIRE(address(a.b) - address(a.a) == a.delta_bytes);
  Tensors inputs;
  for (size_t i = 0; i < sig.graph_inputs.size(); ++i)
    inputs.push_back(host_torch::window(sources[static_cast<size_t>(sig.graph_inputs[i].source)],
                                        sig.graph_inputs[i].offset_bytes, rec.graph.type(rec.graph.inputs[i])));
  Tensors out = host_torch::GraphExecutor(rec.graph).run(inputs);
  Tensors fresh;  // outputs belong to the caller
  for (const Tensor& t : out) fresh.push_back(host_torch::clone_bytes(t));
  for (const auto& w : sig.writes)
    host_torch::copy_window(sources[static_cast<size_t>(w.source)].detach(), fresh[static_cast<size_t>(w.output)]);
  for (const auto& g : sig.grads) {
    Tensor& grad = sources[static_cast<size_t>(g.source)].mutable_grad();
    const Tensor& value = fresh[static_cast<size_t>(g.output)];
    if (g.accumulate && grad.defined())
      grad.add_(value);
    else
      grad = value;
  }
  for (int s : sig.cleared_grads) sources[static_cast<size_t>(s)].mutable_grad() = Tensor();
  Tensors results;
  for (const Result& r : sig.results) {
    switch (r.kind) {
      case Result::Kind::output:
        results.push_back(fresh[static_cast<size_t>(r.index)]);
        break;
      case Result::Kind::source:
        results.push_back(sources[static_cast<size_t>(r.index)]);
        break;
      case Result::Kind::output_view:
        results.push_back(host_torch::window(fresh[static_cast<size_t>(r.index)], r.offset_bytes, r.type));
        break;
      case Result::Kind::source_view:
        results.push_back(host_torch::window(sources[static_cast<size_t>(r.index)], r.offset_bytes, r.type));
        break;
      default:
        results.emplace_back();
    }
  }
  return results;
}

}  // namespace

Program on_tensors(std::string name, std::vector<std::vector<int64_t>> shapes,
                   std::function<Tensors(const Tensors&)> fn) {
  return {std::move(name),
          [shapes] {
            State s;
            for (auto& shape : shapes) s.inputs.push_back(torch::randn(shape));
            return s;
          },
          [fn](State& s) { return fn(s.inputs); }};
}

Sources sources_of(const State& state) {
  Sources s;
  const auto add = [](std::vector<Source>& list, const Tensor& t, const std::string& name) {
    for (const Source& have : list)
      if (have.tensor.unsafeGetTensorImpl() == t.unsafeGetTensorImpl()) return;
    list.push_back({t, name});
  };
  if (state.module) {
    auto module = state.module;
    for (auto& p : module->named_parameters()) add(s.params, p.value(), "parameter '" + p.key() + "'");
    for (auto& b : module->named_buffers()) add(s.buffers, b.value(), "buffer '" + b.key() + "'");
    detail::ModuleRef ref;
    ref.module = module.get();
    s.modules = std::make_shared<host_torch::ModuleState>(std::span(&ref, 1));
  }
  for (size_t i = 0; i < state.inputs.size(); ++i) {
    auto* handle = const_cast<Tensor*>(&state.inputs[i]);  // recording puts it back
    s.user.push_back({state.inputs[i], "argument " + std::to_string(i), handle});
  }
  return s;
}

State state_from(const Program& p, uint64_t seed) {
  torch::manual_seed(seed);
  return p.make();
}

Recording record(const Program& p, State& state, const Options& options) {
  return trace::record(
      sources_of(state),
      [&] {
        std::vector<Leaf> leaves;
        for (Tensor& t : p.fn(state)) leaves.push_back({std::move(t), {}, true});
        return leaves;
      },
      options);
}

void check(const Program& p) {
  CAPTURE(p.name);
  const auto eager = [&](uint64_t seed) {
    State s = state_from(p, seed);
    torch::manual_seed(kRunSeed + seed);
    Tensors results = p.fn(s);
    return std::pair(s, seen(s, std::move(results)));
  };
  const auto report = [&](const char* when, const std::vector<std::string>& found) {
    std::string all;
    for (auto& f : found) all += "\n  " + f;
    CHECK_MESSAGE(found.empty(), p.name << ", " << when << ":" << all);
  };
  try {
    State s = state_from(p, 1);
    torch::manual_seed(kRunSeed + 1);
    Recording rec = record(p, s);
    Tensors results;
    for (Leaf& leaf : rec.results) results.push_back(leaf.tensor);
    const Seen recorded = seen(s, std::move(results));
    report("recorded against eager", compare(recorded, eager(1).second, true));
    ir::verify(rec.graph, "record");
    const std::string text = ir::print(rec.graph);
    CHECK_MESSAGE(ir::print(ir::parse(text)) == text, p.name << ": the graph's text does not round trip:\n" << text);
    for (uint64_t seed : {1, 2}) {
      State again = state_from(p, seed);
      torch::manual_seed(kRunSeed + seed);
      const Seen played = [&] {
        Tensors out = play(rec, again);
        return seen(again, std::move(out));
      }();
      const auto found = compare(played, eager(seed).second, p.exact);
      report(seed == 1 ? "replayed on the same inputs" : "replayed on new inputs", found);
      if (!found.empty() && getenv("SHOW_GRAPH")) MESSAGE(text);
    }
  } catch (const std::exception& e) {
    FAIL_CHECK(p.name << ": " << std::string(e.what()).substr(0, 1500));
  }
}

void check_all(const std::vector<Program>& programs) {
  const char* only = getenv("PROGRAM");
  for (const Program& p : programs)
    if (!only || p.name.find(only) != std::string::npos) check(p);
}

Recording at_sizes_of(const Recording& rec, const State& state) {
  std::map<int, int64_t> values;
  for (size_t i = 0; i < state.inputs.size(); ++i) {
    const ir::Dims& sizes = rec.signature.leaves[i].tensor.type.sizes;
    for (size_t d = 0; d < sizes.size(); ++d)
      for (const ir::Symbol& s : rec.graph.symbols)
        if (sizes[d] == ir::Size::symbol(s)) {
          const int64_t v = state.inputs[i].size(static_cast<int64_t>(d));
          REQUIRE(values.try_emplace(s.id, v).first->second == v);
        }
  }
  const auto value = [&](const ir::Symbol& s) { return values.at(s.id); };
  Recording at{ir::substitute(rec.graph, value), rec.signature, {}};
  for (auto& r : at.signature.results) {
    r.type = ir::substitute(r.type, value);
    r.offset_bytes = r.offset_bytes.value(value).value();
  }
  return at;
}

namespace {
void check(const OpenProgram& p) {
  CAPTURE(p.name);
  const auto state = [&](int64_t n) {
    torch::manual_seed(1);
    State s = p.make(n);
    torch::manual_seed(kRunSeed);
    return s;
  };
  const auto eager = [&](int64_t n) {
    State s = state(n);
    Tensors results = p.fn(s);
    return seen(s, std::move(results));
  };
  try {
    State s = state(p.example);
    p.mark(s);
    Recording rec = record({p.name, {}, p.fn}, s);
    Tensors results;
    for (Leaf& leaf : rec.results) results.push_back(leaf.tensor);
    const auto report = [&](const std::string& when, const std::vector<std::string>& found) {
      std::string all;
      for (auto& f : found) all += "\n  " + f;
      CHECK_MESSAGE(found.empty(),
                    p.name << ", " << when << ":" << all << (getenv("SHOW_GRAPH") ? ir::print(rec.graph) : ""));
    };
    report("recorded against eager", compare(seen(s, std::move(results)), eager(p.example), p.example > 1));
    ir::verify(rec.graph, "record");
    const std::string text = ir::print(rec.graph);
    CHECK_MESSAGE(ir::print(ir::parse(text)) == text, p.name << ": the graph's text does not round trip:\n" << text);
    for (int64_t n : p.sizes) {
      const std::string when = "at " + std::to_string(n);
      try {
        State again = state(n);
        Tensors out = play(at_sizes_of(rec, again), again);
        std::vector<std::string> found = compare(seen(again, std::move(out)), eager(n), p.exact);
        // Eager makes no copy where a size of 0 or 1 makes it unnecessary.
        if (n < 2) std::erase(found, "shares memory otherwise");
        report(when, found);
      } catch (const std::exception& e) {
        FAIL_CHECK(p.name << " " << when << ": " << std::string(e.what()).substr(0, 1500)
                          << (getenv("SHOW_GRAPH") ? ir::print(rec.graph) : ""));
      }
    }
  } catch (const std::exception& e) {
    FAIL_CHECK(p.name << ": " << std::string(e.what()).substr(0, 1500));
  }
}
}  // namespace

void check_all(const std::vector<OpenProgram>& programs) {
  const char* only = getenv("PROGRAM");
  for (const OpenProgram& p : programs)
    if (!only || p.name.find(only) != std::string::npos) check(p);
}

std::string refusal(const Program& p, const Options& options) {
  CAPTURE(p.name);
  State s = state_from(p, 1), untouched = state_from(p, 1);
  torch::manual_seed(kRunSeed);
  const Tensors grads_before = grads_of(reachable(s));
  std::string message;
  try {
    record(p, s, options);
  } catch (const PrecompileError& e) {
    message = e.what();
  }
  if (message.empty()) return message;
  Seen now = seen(s, {});
  torch::manual_seed(kRunSeed);
  Seen before = seen(untouched, {});
  std::string all;
  for (auto& f : compare(now, before, true)) all += "\n  " + f;
  CHECK_MESSAGE(all.empty(), p.name << ": a refused call left something changed:" << all);
  const Tensors grads_now = grads_of(reachable(s));
  for (size_t i = 0; i < grads_now.size(); ++i)
    CHECK_MESSAGE(grads_now[i].unsafeGetTensorImpl() == grads_before[i].unsafeGetTensorImpl(),
                  p.name << ": .grad " << i << " is another object");
  return message;
}

}  // namespace precast::trace::testing
