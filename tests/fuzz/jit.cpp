#include "jit.h"

#include <precast/compile.h>
#include <torch/torch.h>

#include <cstdio>
#include <set>

#include "generate.h"
#include "outcome.h"
#include "util/warn.h"

namespace precast::fuzz {
namespace {

using Tensors = std::vector<at::Tensor>;

/// Inputs of one program: parameters and buffers in a module, the rest in a list.
struct Net : torch::nn::Module {
  Tensors all, user;
  Net(const Program& p, Variant variant) : all(make_inputs(p, variant)) {
    for (size_t i = 0; i < all.size(); ++i) {
      const std::string name = "v" + std::to_string(i);
      if (p.inputs[i].role == Role::user) user.push_back(all[i]);
      if (p.inputs[i].role == Role::buffer) register_buffer(name, all[i]);
      if (p.inputs[i].role == Role::parameter) register_parameter(name, all[i], all[i].requires_grad());
    }
  }
};
using Function = std::function<Tensors(Net&, Tensors)>;

/// The steps on whatever inputs come; backward is inside, if the program has one.
Function function_of(const Program& p) {
  return [&p](Net& net, Tensors user) {
    Tensors inputs = net.all;
    size_t next = 0;
    for (size_t i = 0; i < inputs.size(); ++i)
      if (p.inputs[i].role == Role::user) inputs[i] = user[next++];
    return pick_results(p, run_steps(p, inputs));
  };
}

/// Of all results that have one: outside of what is compiled.
void backward(const Tensors& results) {
  at::Tensor sum;
  std::set<const void*> seen;
  for (const at::Tensor& r : results)
    if (r.defined() && r.requires_grad() && seen.insert(r.unsafeGetTensorImpl()).second && r.numel() > 0) {
      const at::Tensor part = r.is_complex() ? at::real(r).sum() : r.sum();
      sum = sum.defined() ? sum + part.to(sum.scalar_type()) : part;
    }
  if (sum.defined()) sum.backward();
}

/// The call with everything it leaves behind. `outside`: then the backward of its results.
template <class F>
Outcome outcome_with(const F& f, const Program& p, Variant variant, bool outside) {
  Net net(p, variant);
  try {
    const Tensors results = f(net, net.user);
    Outcome o = outcome_of(results, net.all);
    if (!outside) return o;
    backward(results);
    return outcome_of(results, net.all);
  } catch (const std::exception& e) {
    Outcome o;
    o.error = e.what();
    return o;
  }
}

/// The same steps on inputs of another kind.
std::vector<std::pair<const char*, Program>> kinds(const Program& p) {
  std::vector<std::pair<const char*, Program>> all = {{"as made", p}, {"strides", p}, {"dtypes", p}, {"sizes", p}};
  for (Input& in : all[1].second.inputs)
    if (in.layout == Layout::contiguous && in.sizes.size() >= 2) in.layout = Layout::transposed;
  for (Input& in : all[2].second.inputs)
    if (in.dtype == at::kFloat) in.dtype = at::kDouble;
  int64_t size = 0;
  for (const Input& in : p.inputs)
    for (const int64_t s : in.sizes)
      if (size == 0 && s > 1) size = s;
  for (Input& in : all[3].second.inputs)
    for (int64_t& s : in.sizes)
      if (s == size) s += 3;
  return all;
}

/// Where it differs from eager, or nothing.
std::string judge(const Program& made, bool outside, const char* backend) {
  Program p = made;
  if (outside) p.backward = false;
  const Function eager = function_of(p);
  const auto f = compile(eager, {.backend = backend});
  const auto all = kinds(p);
  for (const int round : {0, 1})
    for (const auto& [what, q] : all)
      for (const Variant variant : {Variant::capture, Variant::other}) {
        if (round == 1 && variant == Variant::other) continue;
        const Outcome expected = outcome_with(eager, q, variant, outside);
        const std::string place = std::string(backend) + (outside ? ", backward outside, " : ", ") + what +
                                  (variant == Variant::other ? ", other values" : "") + (round ? ", again" : "");
        for (const int call : {1, 2}) {
          const Outcome found = outcome_with(f, q, variant, outside);
          if (expected.error.empty() != found.error.empty())
            return place + ": " +
                   (expected.error.empty() ? "threw: " + found.error : "eager throws: " + expected.error);
          if (!expected.error.empty()) continue;
          Slack slack;
          try {
            slack = slack_of(q, variant, 1, expected);
          } catch (const std::exception&) {
            continue;  // with noise eager throws
          }
          if (std::string d = difference(expected, found, slack); !d.empty())
            return place + ", call " + std::to_string(call) + ": " + d;
        }
      }
  return {};
}

}  // namespace

int run_jit(uint64_t seed, int programs) {
  set_warning_sink([](std::string_view) {});
  int failed = 0;
  for (int i = 0; i < programs; ++i) {
    const Program p = generate(seed + static_cast<uint64_t>(i));
    for (const bool outside : {false, true}) {
      if (outside && !p.backward) continue;
      const std::string what = judge(p, outside, i % 20 == 19 ? "inductor" : "aot_eager");
      reset();
      if (what.empty()) continue;
      ++failed;
      std::printf("FAILED: program %llu: %s\n%s\n", static_cast<unsigned long long>(p.seed), what.c_str(),
                  print_steps(p).c_str());
      std::fflush(stdout);
    }
  }
  std::printf("%d programs through compile(): %d failed\n", programs, failed);
  return failed;
}

}  // namespace precast::fuzz
