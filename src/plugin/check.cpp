#include <ATen/ATen.h>
#include <ATen/CPUGeneratorImpl.h>

#include "artifact/spec.h"
#include "host_torch/module_tensors.h"
#include "plugin/commands.h"
#include "plugin/compare.h"
#include "plugin/script.h"
#include "precast/precast.h"

namespace precast::plugin {
namespace {

// One side of the comparison: a model, inputs, and what the call made of them, in the order of the rows.
struct Side {
  torch::jit::Module module;
  std::vector<c10::IValue> inputs;
  c10::IValue result;
};

struct Item {
  std::string what;
  at::Tensor tensor;
  std::string value;  // when it is no tensor
};

std::string words(const detail::Leaf& leaf) {
  switch (leaf.kind) {
    case detail::Kind::boolean:
      return leaf.integer ? "true" : "false";
    case detail::Kind::integer:
      return std::to_string(leaf.integer);
    case detail::Kind::real:
      return std::to_string(leaf.real);
    case detail::Kind::string:
      return std::string(leaf.text, static_cast<size_t>(leaf.length));
    default:
      return "none";
  }
}

// One item a leaf, named by its place below `root`.
void append(std::vector<Item>& items, const std::string& root, const Flat& flat) {
  const std::vector<std::string> places = artifact::leaf_places(artifact::parse_tree(flat.spec), root);
  for (size_t i = 0; i < flat.leaves.size(); ++i) {
    const detail::Leaf& leaf = flat.leaves[i];
    Item item{places.at(i), {}, {}};
    if (leaf.kind == detail::Kind::tensor)
      item.tensor = *leaf.tensor;
    else
      item.value = words(leaf);
    items.push_back(item);
  }
}

std::vector<Item> everything(const Side& side) {
  std::vector<Item> items;
  Flat result;
  result.add(side.result, "the result");
  append(items, "result", result);
  append(items, "input", flatten_arguments(side.inputs));
  const detail::ModuleRef module{nullptr, &side.module};
  for (const auto& t : host_torch::module_tensors({&module, 1}))
    items.push_back({(t.is_buffer ? "buffer '" : "parameter '") + t.name + "'", t.tensor, {}});
  return items;
}

std::vector<at::Tensor> copies(const std::vector<Item>& items) {
  std::vector<at::Tensor> tensors;
  for (const Item& item : items) tensors.push_back(item.tensor.defined() ? item.tensor.detach().clone() : item.tensor);
  return tensors;
}

bool changed(const at::Tensor& before, const at::Tensor& after) {
  return before.defined() && after.defined() && before.sizes() == after.sizes() &&
         !compare(before, after, 0, 0).why.empty();
}

// The rounds of one comparison load the pair once. Never freed: the process ends with it.
const detail::Runnable& loaded(const std::string& artifact, const std::string& cache) {
  static std::string names;
  static detail::RunnablePtr& core = *new detail::RunnablePtr;
  if (const std::string wanted = artifact + '\0' + cache; !core || names != wanted) {
    core = detail::load({artifact, cache});
    names = wanted;
  }
  return *core;
}

}  // namespace

void check(const precast_check_request& request, void (*row)(void* context, const precast_check_row*), void* context) {
  const Script script(request.callable);
  const auto complete = [&] { return script.complete(to_ivalues(request.inputs, request.n_inputs)); };
  Side eager{script.copy(), complete(), {}}, artifact{script.copy(), complete(), {}};
  const std::vector<at::Tensor> before = copies(everything(eager));

  // Both sides draw the same random numbers. Eager first: nothing of precast has touched LibTorch by then.
  at::Generator generator = at::detail::getDefaultCPUGenerator();
  const at::Tensor numbers = generator.get_state();
  eager.result = in_model([&] { return script.run(eager.module, eager.inputs); });
  generator.set_state(numbers);
  const detail::Runnable& core = loaded(request.artifact_path, request.cache_path);
  const Flat arguments = flatten_arguments(artifact.inputs);
  std::vector<detail::ResultLeaf> leaves(core.result_leaves());
  core.call(arguments_of(artifact.module, arguments, static_cast<int>(artifact.inputs.size())), leaves);
  artifact.result = detail::to_ivalue(core.result_structure(), leaves);

  const auto expected = everything(eager), found = everything(artifact);
  if (expected.size() != found.size())
    throw PrecompileError(
        "eager returned a result of another structure than the artifact: the pair was captured from another model or "
        "method");
  const size_t n_outputs = expected.size() - (before.size() - 1);  // without a result, `before` has one: none
  for (size_t i = 0; i < expected.size(); ++i) {
    const Item &e = expected[i], &f = found[i];
    Comparison c;
    if (e.tensor.defined() || f.tensor.defined())
      c = compare(e.tensor, f.tensor, request.relative, request.absolute);
    else if (e.value != f.value)
      c.why = "expected " + e.value + ", found " + f.value;
    // Inputs and weights are worth a row when the call writes them, or should not have.
    if (i >= n_outputs && c.why.empty() && !changed(before[i - n_outputs + 1], e.tensor)) continue;
    const std::string type = e.tensor.defined() ? words(e.tensor) : e.value;
    const precast_check_row line{e.what.c_str(), type.c_str(), c.difference, c.why.empty(), c.why.c_str()};
    row(context, &line);
  }
}

}  // namespace precast::plugin
