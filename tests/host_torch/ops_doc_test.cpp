// docs/ops.md is what the rules and their test lines say. Refresh it with
//   PRECAST_REFRESH=1 bin/test_host_torch -tc='docs/ops.md*'
#include <ATen/core/LegacyTypeDispatch.h>
#include <doctest/doctest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <set>
#include <sstream>

#include "emit/lower.h"
#include "op_cases.h"
#include "passes/forms.h"
#include "passes/passes.h"
#include "passes/rules.h"
#include "sized_forms.h"

using namespace precast;
using namespace precast::host_torch;

namespace {

constexpr const char* kHeader = R"(# Ops

What is lowered, generated from the rules in `src/passes` and `src/loops` and from their test lines in
`tests/host_torch/core_ops*`; `bin/test_host_torch -tc='docs/ops.md*'` tells when it is stale, and how to refresh it.

- **dtypes**: those that a test line compares with eager, as core graph and as compiled kernel. None: no line yet.
- **backward**: the gradient's own op, where ATen has one with a rule here. Other gradients are made of ops by autograd, and
  stand here as those.
- **lowered as**: *loop*, a core op with a rule of its own; *routine*, an algorithm of the kernels' preamble; else the core
  ops of its formula. *host*: runs through LibTorch's dispatcher, with the reason (in some lines: for those operands only).
- **any size**: *yes*, where a test line becomes kernels with a first size that only a call knows (and those equal to it);
  *host*, where one runs through the dispatcher for that reason, with the sizes of the call. Empty: no line has such a form.
- In-place and `out=` forms follow the op that they are named after.

| op | dtypes | backward | any size | lowered as |
| --- | --- | --- | --- | --- |
)";

struct Entry {
  std::set<std::string> core, routines, hosts;
  std::set<ir::Dtype> dtypes;
  std::string any_size;
};

std::string bare(std::string op) { return op.starts_with("aten::") ? op.substr(6) : op; }

// The row that a line speaks for: its op, or the one it is the in-place or out= form of.
std::string row_of(const std::string& op) {
  if (const std::string twin = passes::in_place_twin(op); passes::find_rule(twin)) return twin;
  if (passes::find_rule(op)) return op;
  const std::string twin = passes::out_twin(op, passes::find_rule);
  return twin.empty() ? op : twin;
}

std::string backward_of(const std::string& op) {
  const std::string base = op.substr(0, op.find('.'));
  for (const std::string& root : {base, base.substr(0, base.rfind("_forward"))})
    for (const char* end : {"_backward", "_dense_backward", "_backward_data"})
      if (passes::find_rule(root + end)) return "`" + bare(root + end) + "`";
  return "";
}

void note_sized(Entry& e, const Case& c) {
  if (e.any_size == "yes") return;
  auto form = sized_form(c);
  if (!form) return;
  passes::to_core(form->graph);
  const emit::Emitted emitted = emit::lower(form->graph);
  e.any_size = emitted.host_ops.empty() ? "yes" : "*host*";
  if (std::getenv("PRECAST_WHY"))
    for (const emit::HostOp& h : emitted.host_ops) std::fprintf(stderr, "%s: %s\n", c.body.c_str(), h.why.c_str());
}

void note(Entry& e, const Case& c) {
  ir::Graph core = record(c, 1).graph;
  passes::to_core(core);
  const emit::Emitted emitted = emit::lower(core);
  for (const emit::HostOp& h : emitted.host_ops) e.hosts.insert(h.why);
  if (!emitted.host_ops.empty()) return;
  note_sized(e, c);
  if (const auto d = ir::dtype_from_name(c.dtype)) e.dtypes.insert(*d);
  e.routines.insert(emitted.routines.begin(), emitted.routines.end());
  for (const ir::Node& n : core.nodes)
    if (n.op.starts_with("aten::")) e.core.insert(bare(n.op.substr(0, n.op.find('.'))));
}

// Rules that a line cannot try.
const std::map<std::string, std::string> kElsewhere = {
    {"_efficientzerotensor", "full; autograd's zeros, which no eager op takes"},
    {"_functional_assert_async", "an assertion, tried by the programs that check"},
    {"convolution_overrideable", "as convolution; for other devices"},
    {"empty", "memory of any content"},
    {"empty_like", "memory of any content"},
    {"empty_strided", "memory of any content"},
    {"new_empty", "memory of any content"},
    {"new_empty_strided", "memory of any content"},
    {"mkldnn_rnn_layer", "*routine* lstm; tried on networks, f32"},
    {"mkldnn_rnn_layer_backward", "*routine* lstm_backward; tried on networks, f32"},
};

template <class Words>
std::string joined(const Words& words, const char* between = " ") {
  std::string all;
  for (const auto& w : words) all += (all.empty() ? "" : between) + std::string(w);
  return all;
}

std::string lowered_as(const std::string& op, const Entry& e) {
  std::vector<std::string> how;
  std::set<std::string> core = e.core;
  const std::string self = bare(op.substr(0, op.find('.')));
  if (!e.routines.empty()) how.push_back("*routine* " + joined(e.routines));
  if (e.routines.empty() && core.erase(self)) how.push_back("*loop*");
  core.erase(self);
  core.erase("_to_copy"), core.erase("clone");
  if (!core.empty()) how.push_back(joined(core));
  if (how.empty() && !e.dtypes.empty()) how.push_back("a view or copy");
  if (!e.hosts.empty()) how.push_back("*host*: " + joined(e.hosts, "; "));
  if (how.empty()) {
    const auto elsewhere = kElsewhere.find(self);
    CHECK_MESSAGE(elsewhere != kElsewhere.end(), op << " has a rule and no test line");
    if (elsewhere != kElsewhere.end()) how.push_back(elsewhere->second);
  }
  return joined(how, "; ");
}

std::string generated() {
  std::map<std::string, Entry> entries;
  for (const std::string_view op : passes::ops_with_rules()) entries[row_of(std::string(op))];
  for (const Case& c : read_cases()) {
    const size_t start = c.body.find("aten::");
    note(entries[row_of(c.body.substr(start, c.body.find('(') - start))], c);
  }
  std::string text = kHeader;
  for (const auto& [op, e] : entries) {
    std::vector<std::string_view> dtypes;
    for (const ir::Dtype d : e.dtypes) dtypes.push_back(ir::name(d));
    text += "| `" + bare(op) + "` | " + joined(dtypes) + " | " + backward_of(op) + " | " + e.any_size + " | " +
            lowered_as(op, e) + " |\n";
  }
  return text;
}

}  // namespace

TEST_CASE("docs/ops.md is what the rules say") {
  if (std::getenv("PRECAST_OPS")) return;
  c10::InferenceMode no_autograd;
  const auto path = std::filesystem::path(PRECAST_SOURCES) / "docs/ops.md";
  const std::string now = generated();
  if (std::getenv("PRECAST_REFRESH")) std::ofstream(path) << now;
  std::ifstream file(path);
  std::stringstream text;
  text << file.rdbuf();
  CHECK_MESSAGE(
      text.str() == now,
      "docs/ops.md is stale: run PRECAST_REFRESH=1 bin/test_host_torch -tc='docs/ops.md*' in the build folder");
}
