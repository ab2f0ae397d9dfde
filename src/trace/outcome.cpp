#include "trace/outcome.h"

#include <torch/version.h>

#include <algorithm>
#include <map>
#include <unordered_set>

#include "host_torch/tensor_types.h"

namespace precast::trace {

using artifact::Result;

namespace {

Result number_result(const ir::Attr& value) {
  Result r;
  r.value = value;
  if (std::holds_alternative<bool>(value)) r.kind = Result::Kind::boolean;
  if (std::holds_alternative<int64_t>(value)) r.kind = Result::Kind::integer;
  if (std::holds_alternative<double>(value)) r.kind = Result::Kind::real;
  if (std::holds_alternative<std::string>(value)) r.kind = Result::Kind::string;
  return r;
}

}  // namespace

Outcome::Outcome(OpRecorder& r, const Inputs& inputs, const Gradients& gradients)
    : r_(r), inputs_(inputs), gradients_(gradients) {}

int Outcome::add_output(ir::ValueId id, Expected e) {
  r_.builder.graph.outputs.push_back(id);
  expected.push_back(std::move(e));
  return static_cast<int>(r_.builder.graph.outputs.size()) - 1;
}

Result Outcome::source_result(const Leaf& leaf, const Inputs::Group& group) const {
  Result r;
  const Window w = window_of(leaf.tensor);
  r.index = group.members[0];
  r.kind = Result::Kind::source_view;
  for (int m : group.members) {
    const Inputs::Entry& e = inputs_.entries()[static_cast<size_t>(m)];
    if (e.source->tensor.unsafeGetTensorImpl() == leaf.tensor.unsafeGetTensorImpl()) {
      r.kind = Result::Kind::source;
      r.index = m;
      return r;
    }
    if (e.window.bytes().contains(w.bytes())) r.index = m;
  }
  r.offset_bytes = w.offset - inputs_.entries()[static_cast<size_t>(r.index)].window.offset;
  r.type = w.type;
  return r;
}

void Outcome::add_results(const std::vector<Leaf>& leaves) {
  std::map<StorageState*, std::vector<size_t>> sharing;  // results in one storage
  for (size_t i = 0; i < leaves.size(); ++i) {
    const Leaf& leaf = leaves[i];
    if (!leaf.is_tensor || !leaf.tensor.defined()) continue;
    if (std::string kind = unsupported_kind(leaf.tensor); !kind.empty())
      r_.refuse("result " + std::to_string(i) + " is " + kind + "; only plain strided CPU tensors can be recorded");
    r_.read(leaf.tensor, "result " + std::to_string(i));
    sharing[r_.storages.find(leaf.tensor)].push_back(i);
  }
  std::map<const void*, size_t> objects;  // first result that is this object
  std::map<StorageState*, int> whole;     // output that holds the whole root, for storages with several results
  for (size_t i = 0; i < leaves.size(); ++i) {
    const Leaf& leaf = leaves[i];
    if (leaf.is_tensor && leaf.tensor.defined()) {
      const auto [first, is_new] = objects.emplace(leaf.tensor.unsafeGetTensorImpl(), i);
      if (!is_new) {
        signature.results.push_back(signature.results[first->second]);
        continue;
      }
    }
    Result result;
    if (!leaf.is_tensor) {
      result = number_result(leaf.value);
    } else if (leaf.tensor.defined()) {
      const std::string what = "result " + std::to_string(i);
      StorageState* s = r_.storages.find(leaf.tensor);
      if (s->input_group >= 0) {
        result = source_result(leaf, inputs_.groups()[static_cast<size_t>(s->input_group)]);
      } else if (sharing[s].size() == 1) {
        result.kind = Result::Kind::output;
        result.index = add_output(r_.read(leaf.tensor, what), {what, leaf.tensor, {}});
      } else {
        const ir::ValueId root = r_.builder.root(*s);
        auto [at, is_new] = whole.try_emplace(s, -1);
        const at::Tensor real = s->known.contains(s->root) ? tensor_at(leaf.tensor.storage(), s->root) : at::Tensor();
        if (is_new) at->second = add_output(root, {what, real, {}});
        const Window w = window_of(leaf.tensor);
        result.kind = w == s->root && is_new ? Result::Kind::output : Result::Kind::output_view;
        result.index = at->second;
        result.offset_bytes = w.offset - s->root.offset;
        result.type = w.type;
      }
      result.required_grad = leaf.tensor.requires_grad();
    }
    signature.results.push_back(std::move(result));
  }
}

void Outcome::add_writes() {
  for (const Inputs::Group& g : inputs_.groups()) {
    std::vector<Window> done;
    for (int m : g.members) {
      const Inputs::Entry& e = inputs_.entries()[static_cast<size_t>(m)];
      const bool written =
          std::any_of(g.written.begin(), g.written.end(), [&](Bytes b) { return b.intersects(e.window.bytes()); });
      if (!written || std::find(done.begin(), done.end(), e.window) != done.end()) continue;
      done.push_back(e.window);
      const ir::ValueId value = r_.read(e.source->tensor, e.source->name);
      signature.writes.push_back({m, add_output(value, {e.source->name, e.source->tensor, {}})});
    }
  }
}

void Outcome::add_gradients() {
  for (const Gradients::Slot& slot : gradients_.slots()) {
    const at::Tensor& now = slot.tensor.grad();
    if (!now.defined()) {
      if (slot.stand_in.defined()) signature.cleared_grads.push_back(slot.source);
      continue;
    }
    const std::string what = "the gradient of " + inputs_.entries()[static_cast<size_t>(slot.source)].source->name;
    StorageState* s = r_.storages.find(now);
    if (s && s->gradient_of == slot.source) {
      if (s->known.none()) continue;  // nothing was added
      signature.grads.push_back({slot.source, add_output(s->value, {what, now, slot.callers}), true});
    } else {
      signature.grads.push_back({slot.source, add_output(r_.read(now, what), {what, now, {}}), false});
    }
  }
}

void Outcome::finish(const Sources& sources) {
  GraphInputs final = finish_inputs(r_.builder.graph, inputs_);
  const auto& entries = inputs_.entries();
  for (size_t i = 0; i < entries.size(); ++i) {
    artifact::TensorMeta m;
    m.name = entries[i].source->name;
    m.type = entries[i].window.type;
    m.requires_grad = entries[i].requires_grad;
    m.read = final.read[i];
    if (i < sources.params.size())
      signature.params.push_back(std::move(m));
    else if (static_cast<int>(i) < inputs_.count_module_tensors())
      signature.buffers.push_back(std::move(m));
    else
      signature.leaves.push_back({.kind = artifact::UserLeaf::Kind::tensor,
                                  .where = entries[i].source->name,
                                  .tensor = std::move(m),
                                  .value = {}});
  }
  for (const GraphInputs::One& one : final.inputs)
    signature.graph_inputs.push_back(
        {one.source, one.window.offset - entries[static_cast<size_t>(one.source)].window.offset});
  graph_inputs = std::move(final.inputs);
  signature.aliases = std::move(final.aliases);
  signature.conditions = r_.conditions;
  signature.torch_version = TORCH_VERSION;
}

void Outcome::check_escapes(const std::vector<Leaf>& leaves) const {
  std::unordered_set<const c10::StorageImpl*> accounted;
  const auto account = [&](const at::Tensor& t) {
    if (t.defined() && t.has_storage()) accounted.insert(t.storage().unsafeGetStorageImpl());
  };
  std::vector<at::Tensor> roots;
  for (const Leaf& leaf : leaves)
    if (leaf.is_tensor) roots.push_back(leaf.tensor);
  for (const Gradients::Slot& slot : gradients_.slots()) {
    roots.push_back(slot.tensor.grad());
    account(slot.stand_in);
  }
  for (const Inputs::Entry& e : inputs_.entries()) roots.push_back(e.source->tensor);
  for (const at::Tensor& root : roots) {
    if (!root.defined()) continue;
    account(root);
    const auto saved = saved_tensors(root);
    if (!saved) return;  // an autograd node that cannot tell: nobody can be accused
    for (const at::Tensor& t : *saved) account(t);
  }
  r_.storages.for_each_alive([&](const StorageState& s) {
    if (s.input_group >= 0 || accounted.count(s.impl) || s.size == 0) return;
    r_.refuse(
        "a tensor made inside the recorded function by " + (s.maker ? s.maker->name : std::string("an operation")) +
        ", " + ir::to_string(s.root.type) +
        ", is still held after the call, and is neither a result nor a gradient: "
        "state kept in a closure, a cache or an optimizer. The artifact could not keep it: return it, or pass it in as "
        "an argument and write into it");
  });
}

}  // namespace precast::trace
