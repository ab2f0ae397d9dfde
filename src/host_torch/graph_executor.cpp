#include "host_torch/graph_executor.h"

#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/grad_mode.h>

#include "host_torch/attributes.h"
#include "host_torch/empty_ops.h"
#include "host_torch/random_ops.h"
#include "host_torch/tensor_types.h"
#include "ir/print.h"
#include "precast/error.h"
#include "util/checks.h"
#include "util/errors.h"

namespace precast::host_torch {

namespace {

using ir::ValueId;
using Env = std::vector<at::Tensor>;

/// A tensor operand and where it goes on the stack; item < 0: it is the argument itself.
struct Operand {
  ir::Slot slot;
  int position = 0, item = -1;
  ValueId value = ir::kNoValue;
};

struct ListParameter {
  int position = 0;
  size_t length = 0;
  bool optional_entries = false;
};

enum class Kind { op, view, scatter };

struct Step {
  Kind kind = Kind::op;
  const ir::Node* node = nullptr;
  std::optional<c10::OperatorHandle> op;
  std::vector<c10::IValue> stack;  // all arguments that are no tensors
  std::vector<Operand> operands;
  std::vector<ListParameter> lists;
  int64_t offset = 0;  // prim
  ir::Type window;     // prim::scatter
  std::vector<ValueId> dead_after;
};

const ir::Attr& required(const ir::Node& n, const char* name) {
  const ir::Attr* a = n.find(name);
  PRECAST_CHECK(a, n.op + " has no argument " + name);
  return *a;
}

bool is_tensor_list(const c10::Type& type, bool* optional_entries) {
  const auto* list = type.castRaw<c10::ListType>();
  if (!list) return false;
  const c10::TypePtr& element = list->getElementType();
  *optional_entries = element->kind() == c10::TypeKind::OptionalType;
  return element->isSubtypeOf(*c10::OptionalType::ofTensor());
}

c10::OperatorHandle find_operator(const std::string& op) {
  const size_t dot = op.find('.');
  const std::string name = op.substr(0, dot), overload = dot == std::string::npos ? "" : op.substr(dot + 1);
  if (auto found = c10::Dispatcher::singleton().findSchema({name, overload})) return *found;
  throw PrecompileError("operator " + op +
                        " is not registered in this LibTorch (" TORCH_VERSION
                        "): load the library that defines it, or capture again with this version");
}

void add_operand(Step& step, ir::Slot slot, int position, int item, ValueId value) {
  step.operands.push_back({slot, position, item, value});
}

Step op_step(const ir::Node& n) {
  Step step;
  step.node = &n;
  step.op = find_operator(n.op);
  const auto& parameters = step.op->schema().arguments();
  size_t used = 0;
  for (int p = 0; p < static_cast<int>(parameters.size()); ++p) {
    const c10::Argument& parameter = parameters[static_cast<size_t>(p)];
    const auto at = std::find_if(n.args.begin(), n.args.end(), [&](auto& a) { return a.name == parameter.name(); });
    step.stack.emplace_back();
    if (at == n.args.end()) {
      if (!parameter.default_value())
        throw PrecompileError(n.op + ": the graph gives no argument '" + parameter.name() + "'");
      step.stack.back() = *parameter.default_value();
      continue;
    }
    ++used;
    const int index = static_cast<int>(at - n.args.begin());
    bool optional_entries = false;
    if (auto* ref = std::get_if<ir::Ref>(&at->value); ref && ref->id != ir::kNoValue) {
      add_operand(step, {index, 0}, p, -1, ref->id);
    } else if (auto* refs = std::get_if<std::vector<ir::Ref>>(&at->value);
               refs && is_tensor_list(*(parameter.type()->kind() == c10::TypeKind::OptionalType
                                            ? parameter.type()->castRaw<c10::OptionalType>()->getElementType()
                                            : parameter.type()),
                                      &optional_entries)) {
      step.lists.push_back({p, refs->size(), optional_entries});
      for (int i = 0; i < static_cast<int>(refs->size()); ++i)
        add_operand(step, {index, i}, p, i, (*refs)[static_cast<size_t>(i)].id);
    } else {
      const bool none = std::holds_alternative<ir::Ref>(at->value);
      step.stack.back() = to_ivalue(none ? ir::Attr{} : at->value, parameter, n.op);
    }
  }
  if (used != n.args.size())
    for (const ir::Arg& a : n.args)
      if (!step.op->schema().argumentIndexWithName(a.name))
        throw PrecompileError(n.op + ": this LibTorch (" TORCH_VERSION ") knows no argument '" + a.name + "'");
  return step;
}

Step prim_step(const ir::Node& n) {
  Step step;
  step.node = &n;
  step.kind = n.op == "prim::view" ? Kind::view : Kind::scatter;
  step.offset = std::get<int64_t>(required(n, "offset"));
  add_operand(step, {}, 0, -1, std::get<ir::Ref>(required(n, "base")).id);
  if (step.kind == Kind::scatter) {
    add_operand(step, {}, 1, -1, std::get<ir::Ref>(required(n, "src")).id);
    step.window.sizes = *ir::as_dims(required(n, "sizes"));
    step.window.strides = *ir::as_dims(required(n, "strides"));
  }
  return step;
}

/// After which step each value is not needed any more.
void plan_lifetimes(const ir::Graph& g, std::vector<Step>& steps) {
  std::vector<int> last(g.values.size(), -1);
  for (int s = 0; s < static_cast<int>(steps.size()); ++s) {
    const ir::Node& n = *steps[static_cast<size_t>(s)].node;
    for (ValueId v : ir::defined_values(n)) last[static_cast<size_t>(v)] = s;
    ir::for_each_operand(n, [&](ir::Slot, ValueId v) {
      if (v != ir::kNoValue) last[static_cast<size_t>(v)] = s;
    });
    for (const ir::Shared& shared : n.shared) last[static_cast<size_t>(shared.base)] = s;
  }
  for (ValueId v : g.outputs) last[static_cast<size_t>(v)] = -1;
  for (size_t v = 0; v < last.size(); ++v)
    if (last[v] >= 0) steps[static_cast<size_t>(last[v])].dead_after.push_back(static_cast<ValueId>(v));
}

/// The tensors one op call gets instead of the operands' own values, because it writes them.
struct Clones {
  std::vector<at::Tensor> writes, shared;               // as in the node
  std::vector<std::pair<ir::Slot, at::Tensor>> placed;  // operand slot -> tensor

  Clones(const ir::Node& n, const Step& step, const Env& env) {
    for (const ir::Write& w : n.writes) {
      const auto at =
          std::find_if(step.operands.begin(), step.operands.end(), [&](const Operand& o) { return o.slot == w.slot; });
      PRECAST_CHECK(at != step.operands.end() && at->value != ir::kNoValue, n.op + " writes an operand it has not");
      writes.push_back(clone_bytes(env[static_cast<size_t>(at->value)]));
      placed.emplace_back(w.slot, writes.back());
    }
    for (const ir::Shared& s : n.shared) {
      shared.push_back(clone_bytes(env[static_cast<size_t>(s.base)]));
      for (const auto& view : s.views)
        placed.emplace_back(view.slot, window(shared.back(), view.offset_bytes, view.type));
    }
  }

  const at::Tensor* find(ir::Slot slot) const {
    for (auto& [at, tensor] : placed)
      if (at == slot) return &tensor;
    return nullptr;
  }
};

std::vector<c10::IValue> arguments(const Step& step, const Env& env, const Clones& clones) {
  std::vector<c10::IValue> stack = step.stack;
  const auto tensor = [&](const Operand& o) {
    if (const at::Tensor* clone = clones.find(o.slot)) return *clone;
    return o.value == ir::kNoValue ? at::Tensor() : env[static_cast<size_t>(o.value)];
  };
  auto next = step.lists.begin();
  for (auto o = step.operands.begin(); o != step.operands.end() || next != step.lists.end();) {
    if (next != step.lists.end() && (o == step.operands.end() || o->position >= next->position)) {
      c10::List<at::Tensor> plain;
      c10::List<std::optional<at::Tensor>> optional;
      for (size_t i = 0; i < next->length; ++i, ++o) {
        at::Tensor t = tensor(*o);
        if (!next->optional_entries)
          plain.push_back(std::move(t));
        else
          optional.push_back(t.defined() ? std::optional(std::move(t)) : std::nullopt);
      }
      auto& slot = stack[static_cast<size_t>(next->position)];
      slot = next->optional_entries ? c10::IValue(std::move(optional)) : c10::IValue(std::move(plain));
      ++next;
    } else {
      stack[static_cast<size_t>(o->position)] = tensor(*o);
      ++o;
    }
  }
  return stack;
}

class Run {
 public:
  Run(const ir::Graph& g, Env& env) : graph_(g), env_(env) {}

  void step(const Step& s) {
    switch (s.kind) {
      case Kind::op:
        return call(s);
      case Kind::view: {
        const ValueId out = s.node->outs.at(0).id;
        env_[static_cast<size_t>(out)] = window(operand(s, 0), s.offset, graph_.type(out));
        return;
      }
      case Kind::scatter: {
        const ValueId out = s.node->outs.at(0).id;
        at::Tensor result = clone_bytes(operand(s, 0));
        const at::Tensor& src = operand(s, 1);
        ir::Type target = s.window;
        target.dtype = static_cast<ir::Dtype>(src.scalar_type());
        copy_window(window(result, s.offset, target), src);
        env_[static_cast<size_t>(out)] = std::move(result);
        return;
      }
    }
  }

 private:
  const at::Tensor& operand(const Step& s, size_t i) const { return env_[static_cast<size_t>(s.operands[i].value)]; }

  void define(ValueId id, const at::Tensor& t, const std::string& op) {
    // A workspace is for the op's own backward: how large it is no expression tells.
    const bool workspace = op.starts_with("aten::mkldnn_rnn_layer") && t.scalar_type() == at::kByte;
    env_[static_cast<size_t>(id)] = workspace ? t : conform(t, graph_.type(id), "result of " + op);
  }

  void call(const Step& s) {
    const ir::Node& n = *s.node;
    const Clones clones(n, s, env_);
    std::vector<c10::IValue> stack = arguments(s, env_, clones);
    if (!stack.empty() && stack[0].isTensor() && has_nothing_to_do(n.op, stack[0].toTensor()))
      return do_nothing(n, clones);
    s.op->callBoxed(stack);
    PRECAST_CHECK(stack.size() >= n.outs.size(), n.op + " returns fewer values than the graph names");
    for (size_t i = 0; i < n.outs.size(); ++i) result(n, n.outs[i], stack[i]);
    for (size_t i = 0; i < n.writes.size(); ++i) define(n.writes[i].value, clones.writes[i], n.op);
    for (size_t i = 0; i < n.shared.size(); ++i) define(n.shared[i].value, clones.shared[i], n.op);
  }

  void do_nothing(const ir::Node& n, const Clones& clones) {
    for (const ir::Out& o : n.outs)
      if (o.id != ir::kNoValue) env_[static_cast<size_t>(o.id)] = empty(graph_.type(o.id)).zero_();
    for (size_t i = 0; i < n.writes.size(); ++i) define(n.writes[i].value, clones.writes[i], n.op);
    for (size_t i = 0; i < n.shared.size(); ++i) define(n.shared[i].value, clones.shared[i], n.op);
  }

  /// " of the result of aten::sum": what a node reads, for people.
  std::string origins(const ir::Node& n) const {
    std::string text;
    ir::for_each_operand(n, [&](ir::Slot, ir::ValueId id) {
      if (id == ir::kNoValue) return;
      std::string what = graph_.values[static_cast<size_t>(id)].name;
      for (const ir::Node& maker : graph_.nodes)
        ir::for_each_definition(maker, [&](ir::ValueId made) {
          if (made == id) what = "the result of " + maker.op;
        });
      if (!what.empty()) text += (text.empty() ? " of " : " and ") + what;
    });
    return text;
  }

  void result(const ir::Node& n, const ir::Out& out, const c10::IValue& found) {
    if (out.is_list) {
      const auto list = found.toTensorVector();
      if (list.size() != out.list.size())
        throw PrecompileError(n.op + ": expected " + std::to_string(out.list.size()) + " results, found " +
                              std::to_string(list.size()) + "; shapes are specialized to the recorded call");
      for (size_t i = 0; i < list.size(); ++i)
        if (out.list[i].id != ir::kNoValue) define(out.list[i].id, list[i], n.op);
    } else if (out.id != ir::kNoValue) {
      define(out.id, found.toTensor(), n.op);
    } else if (!std::holds_alternative<std::monostate>(out.expect) && !equals(found, out.expect)) {
      refuse(Check::call_condition,
             n.op + origins(n) + ": expected " + in_words(out.expect) + " as in the recorded call, found " +
                 in_words(found) +
                 ". Control flow and numbers are those of that call: capture again for this input, or keep the value a "
                 "tensor. Node: " +
                 ir::print(graph_, n));
    }
  }

  const ir::Graph& graph_;
  Env& env_;
};

}  // namespace

struct GraphExecutor::Program {
  ir::Graph graph;
  std::vector<Step> steps;
  bool draws = false;

  explicit Program(ir::Graph g) : graph(std::move(g)) {
    for (const ir::Node& n : graph.nodes) {
      steps.push_back(n.op.starts_with("prim::") ? prim_step(n) : op_step(n));
      draws = draws || (steps.back().op && is_random(*steps.back().op));
    }
    plan_lifetimes(graph, steps);
  }
};

GraphExecutor::GraphExecutor(ir::Graph g) : program_(std::make_unique<Program>(std::move(g))) {}
GraphExecutor::~GraphExecutor() = default;
GraphExecutor::GraphExecutor(GraphExecutor&&) noexcept = default;

const ir::Graph& GraphExecutor::graph() const { return program_->graph; }
bool GraphExecutor::draws() const { return program_->draws; }

std::vector<at::Tensor> GraphExecutor::run(const std::vector<at::Tensor>& inputs) const {
  const ir::Graph& g = program_->graph;
  if (inputs.size() != g.inputs.size())
    throw PrecompileError("the graph takes " + std::to_string(g.inputs.size()) + " tensors, found " +
                          std::to_string(inputs.size()));
  at::AutoDispatchBelowADInplaceOrView below_autograd;
  at::AutoGradMode as_recorded(true);  // some kernels ask for it: mkldnn_rnn_layer keeps its workspace only then
  c10::impl::ExcludeDispatchKeyGuard no_autocast(c10::autocast_dispatch_keyset);
  Env env(g.values.size());
  for (size_t i = 0; i < inputs.size(); ++i) {
    const ir::Value& v = g.values[static_cast<size_t>(g.inputs[i])];
    const std::string name = v.name.empty() ? "graph input " + std::to_string(i) : "'" + v.name + "'";
    env[static_cast<size_t>(g.inputs[i])] = conform(inputs[i], v.type, name);
  }
  Run run(g, env);
  for (const Step& s : program_->steps) {
    run.step(s);
    for (ValueId v : s.dead_after) env[static_cast<size_t>(v)] = at::Tensor();
  }
  std::vector<at::Tensor> outputs;
  for (ValueId v : g.outputs) outputs.push_back(env[static_cast<size_t>(v)]);
  return outputs;
}

}  // namespace precast::host_torch
