// Each line of core_ops.txt as kernels: lowered, compiled many to a file, and compared with eager.
#include <ATen/core/LegacyTypeDispatch.h>
#include <doctest/doctest.h>

#include <cstring>

#include "emit/lower.h"
#include "host_torch/tensor_types.h"
#include "ir/print.h"
#include "loops/compiled.h"
#include "op_cases.h"
#include "passes/passes.h"
#include "sized_forms.h"

using namespace precast;
using namespace precast::host_torch;

namespace {

reference::Tensor bytes_of(const at::Tensor& t) {
  reference::Tensor r = reference::make(type_of(t));
  if (!r.bytes.empty()) std::memcpy(r.bytes.data(), t.const_data_ptr(), r.bytes.size());
  return r;
}

at::Tensor tensor_of(const reference::Tensor& r) {
  at::Tensor t = host_torch::empty(r.type);
  if (!r.bytes.empty()) std::memcpy(t.mutable_data_ptr(), r.bytes.data(), r.bytes.size());
  return t;
}

struct Pending {
  Case c;
  int number;  // in the batch
};

void run(compiled::Batch& batch, const std::vector<Pending>& cases) {
  batch.compile();
  for (const auto& [c, number] : cases)
    for (unsigned seed : {1, 2, 3}) {
      CAPTURE(c.body);
      CAPTURE(seed);
      const Recorded r = record(c, seed);
      std::vector<reference::Tensor> inputs;
      for (const at::Tensor& t : r.inputs) inputs.push_back(bytes_of(t));
      for (const int pieces : {1, 3}) {
        const auto result = batch.run(number, inputs, pieces);
        REQUIRE_MESSAGE(result.code == 0, result.message);
        for (size_t i = 0; i < r.expected.size(); ++i) {
          const std::string fault = difference(r.expected[i], tensor_of(result.outputs[i]), c);
          CHECK_MESSAGE(fault.empty(), fault, "\n", ir::print(batch.graph(number)));
        }
      }
    }
}

/// The line at some of its sizes, among them one that was not looked at when the form was made.
void run_sized(compiled::Batch& batch, const std::vector<std::pair<SizedForm, int>>& forms) {
  batch.compile();
  for (const auto& [form, number] : forms)
    for (size_t at = 0; at < form.sizes.size(); at += 3) {
      Case c = form.at[at];
      c.within += 5e-5;  // more elements than the line was written for
      CAPTURE(c.body);
      const Recorded r = record(c, 1);
      std::vector<reference::Tensor> inputs;
      for (const at::Tensor& t : r.inputs) inputs.push_back(bytes_of(t));
      for (const int pieces : {1, 3}) {
        const auto result = batch.run(number, {form.sizes[at]}, inputs, pieces);
        REQUIRE_MESSAGE(result.code == 0, result.message);
        for (size_t i = 0; i < r.expected.size(); ++i) {
          const std::string fault = difference(r.expected[i], tensor_of(result.outputs[i]), c);
          CHECK_MESSAGE(fault.empty(), fault, "\n", ir::print(batch.graph(number)));
        }
      }
    }
}

bool lowered_wholly(ir::Graph graph) {
  passes::to_core(graph);
  return emit::lower(graph).host_ops.empty();
}

}  // namespace

TEST_CASE("kernels compute what the ops compute") {
  c10::InferenceMode no_autograd;
  constexpr size_t kBatch = 150;
  std::optional<compiled::Batch> batch;
  std::vector<Pending> pending;
  int checked = 0;
  const auto flush = [&] {
    if (!pending.empty()) run(*batch, pending);
    pending.clear(), batch.reset();
  };
  const auto add = [&](const Case& c, ir::Graph core) {
    CAPTURE(c.body);
    passes::to_core(core);
    if (!batch) batch.emplace();
    pending.push_back({c, batch->add(ir::print(core))});
    ++checked;
    if (pending.size() == kBatch) flush();
  };
  for (const Case& c : read_cases()) {
    if (c.host) continue;
    add(c, record(c, 1).graph);
    // One other layout of each, by turns: a kernel takes its time to compile.
    const std::vector<Case> others = in_other_layouts(c);
    if (others.empty()) continue;
    const Case& other = others[static_cast<size_t>(checked) % others.size()];
    if (const auto r = try_record(other, 1); r && lowered_wholly(r->graph)) add(other, r->graph);
  }
  flush();
  if (!std::getenv("PRECAST_OPS")) CHECK(checked > 800);
}

TEST_CASE("kernels of any size compute what the ops compute") {
  c10::InferenceMode no_autograd;
  constexpr size_t kBatch = 150;
  std::optional<compiled::Batch> batch;
  std::vector<std::pair<SizedForm, int>> pending;
  int checked = 0;
  const auto flush = [&] {
    if (!pending.empty()) run_sized(*batch, pending);
    pending.clear(), batch.reset();
  };
  std::string last;  // one dtype of a line: the others are tried at a known size
  for (const Case& c : read_cases()) {
    if (c.host || c.line == last) continue;
    auto form = sized_form(c);
    if (!form || !lowered_wholly(form->graph)) continue;
    last = c.line;
    CAPTURE(c.body);
    ir::Graph core = form->graph;
    passes::to_core(core);
    if (!batch) batch.emplace();
    const int number = batch->add(ir::print(core));
    pending.emplace_back(std::move(*form), number);
    ++checked;
    if (pending.size() == kBatch) flush();
  }
  flush();
  if (!std::getenv("PRECAST_OPS")) CHECK(checked > 300);
}
