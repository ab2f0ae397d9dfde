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

std::string Outcome::name_of(const Gradients::Slot& slot) const {
  return inputs_.entries()[static_cast<size_t>(slot.source)].source->name;
}

int Outcome::add_output(ir::ValueId id, Expected e) {
  r_.builder.graph.outputs.push_back(id);
  expected.push_back(std::move(e));
  return static_cast<int>(r_.builder.graph.outputs.size()) - 1;
}

Result Outcome::source_result(const at::Tensor& t, const Inputs::Group& group) const {
  Result r;
  const Window w = window_of(t);
  r.index = group.members[0];
  r.kind = Result::Kind::source_view;
  for (int m : group.members) {
    const Inputs::Entry& e = inputs_.entries()[static_cast<size_t>(m)];
    if (e.source->tensor.unsafeGetTensorImpl() == t.unsafeGetTensorImpl()) {
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

/// Makes a tensor that leaves the call a graph output, or a part of one when several lie in its storage.
Result Outcome::place(const at::Tensor& t, const std::string& what) {
  Result r;
  StorageState* s = r_.storages.find(t);
  if (s->input_group >= 0) return source_result(t, inputs_.groups()[static_cast<size_t>(s->input_group)]);
  if (sharing_[s] == 1) {
    r.kind = Result::Kind::output;
    r.index = add_output(r_.read(t, what), {what, t, {}});
    return r;
  }
  const ir::ValueId root = r_.builder.root(*s);
  const auto [at, is_new] = whole_.try_emplace(s, -1);
  const at::Tensor real = s->known.contains(s->root) ? tensor_at(t.storage(), s->root) : at::Tensor();
  if (is_new) at->second = add_output(root, {what, real, {}});
  const Window w = window_of(t);
  r.kind = w == s->root && is_new ? Result::Kind::output : Result::Kind::output_view;
  r.index = at->second;
  r.offset_bytes = w.offset - s->root.offset;
  r.type = w.type;
  return r;
}

void Outcome::add_results(const std::vector<Leaf>& leaves) {
  std::map<const void*, size_t> first_of;  // object -> first result that is it
  for (size_t i = 0; i < leaves.size(); ++i) {
    const at::Tensor& t = leaves[i].tensor;
    if (!leaves[i].is_tensor || !t.defined()) continue;
    const std::string what = "result " + std::to_string(i);
    if (std::string kind = unsupported_kind(t); !kind.empty())
      r_.refuse(Check::result_kind, what + " is " + kind + "; only plain strided CPU tensors can be recorded");
    r_.read(t, what);
    if (first_of.emplace(t.unsafeGetTensorImpl(), i).second) ++sharing_[r_.storages.find(t)];
  }
  for (const Gradients::Slot& slot : gradients_.slots()) {
    const at::Tensor& now = slot.tensor.grad();
    if (!is_new_gradient(slot, now) || first_of.contains(now.unsafeGetTensorImpl())) continue;
    r_.read(now, "the gradient of " + name_of(slot));
    ++sharing_[r_.storages.find(now)];
  }
  for (size_t i = 0; i < leaves.size(); ++i) {
    const Leaf& leaf = leaves[i];
    Result result;
    if (!leaf.is_tensor) {
      result = number_result(leaf.value);
    } else if (leaf.tensor.defined()) {
      const void* object = leaf.tensor.unsafeGetTensorImpl();
      const auto [known, is_new] = objects_.try_emplace(object);
      if (is_new) known->second = place(leaf.tensor, "result " + std::to_string(i));
      result = known->second;
      if (!is_new && result.kind >= Result::Kind::output_view) result.same_as = static_cast<int>(first_of.at(object));
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
    if (slot.shares_with >= 0 && slot.touched())
      r_.refuse(Check::gradient_shares_memory,
                "the gradient of " + name_of(slot) + " shares memory with " +
                    inputs_.entries()[static_cast<size_t>(slot.shares_with)].source->name +
                    ", and the recorded function changes it; pass a copy (.clone())");
    if (slot.state && (slot.state->asked || (slot.emptied() && !now.defined())))
      found_grads.push_back({slot.source, slot.callers.defined()});
    if (now.defined())
      add_gradient(slot, now);
    else if (slot.stand_in.defined() && !slot.emptied())
      signature.cleared_grads.push_back(slot.source);
  }
}

/// Neither the caller's own memory nor a sum with it.
bool Outcome::is_new_gradient(const Gradients::Slot& slot, const at::Tensor& now) const {
  if (!now.defined() || slot.emptied() || slot.is_in_place(now)) return false;
  const StorageState* s = r_.storages.find(now);
  return !s || s->gradient_of != slot.source;
}

void Outcome::add_gradient(const Gradients::Slot& slot, const at::Tensor& now) {
  const std::string what = "the gradient of " + name_of(slot);
  artifact::Gradient g{.source = slot.source};
  const StorageState* s = r_.storages.find(now);
  g.in_place = slot.emptied() || slot.is_in_place(now);  // later calls may have one to zero and to add to
  g.accumulate = s && s->gradient_of == slot.source;
  if (g.accumulate) {
    if (s->value == ir::kNoValue) return;  // nothing was added
    g.output = add_output(s->value, {what, now, slot.callers});
  } else if (g.in_place) {
    if (s->zeroed_of >= 0) return signature.zeroed_grads.push_back(slot.source);
    g.output = add_output(r_.read(now, what), {what, now, {}});
  } else {
    const auto [known, is_new] = objects_.try_emplace(now.unsafeGetTensorImpl());
    if (is_new) known->second = place(now, what);
    const Result& r = known->second;
    if (r.kind == Result::Kind::source || r.kind == Result::Kind::source_view)
      r_.refuse(Check::gradient_bound_to_input, what + " was bound to the memory of " +
                                                    inputs_.entries()[static_cast<size_t>(r.index)].source->name +
                                                    "; bind it to a copy (.clone())");
    g.output = r.index;
    if (r.kind == Result::Kind::output_view) g.part = artifact::Part{r.offset_bytes, r.type};
  }
  signature.grads.push_back(std::move(g));
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
        Check::escaped_state,
        "a tensor made inside the recorded function by " + (s.maker ? s.maker->name : std::string("an operation")) +
            ", " + ir::to_string(s.root.type) +
            ", is still held after the call, and is neither a result nor a gradient: "
            "state kept in a closure, a cache or an optimizer (Adam's moments, momentum). The artifact could not keep "
            "it: return it, or pass it in as "
            "an argument and write into it");
  });
}

}  // namespace precast::trace
