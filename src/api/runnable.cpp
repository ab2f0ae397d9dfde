// A loaded artifact behind the public templates: matches models, describes arguments, runs, delivers.
#include <map>
#include <mutex>

#include "api/structure_nodes.h"
#include "host_torch/describe.h"
#include "host_torch/effects.h"
#include "host_torch/host.h"
#include "host_torch/module_imprint.h"
#include "host_torch/module_state.h"
#include "host_torch/save_weights.h"
#include "host_torch/tensor_types.h"
#include "precast/detail/core.h"
#include "precast/error.h"
#include "runtime/artifact.h"
#include "trace/dispatch.h"
#include "util/checks.h"
#include "util/errors.h"
#include "util/warn.h"

namespace precast::detail {

/// Interned module tensors, parameters then buffers.
class Binding {
 public:
  explicit Binding(std::vector<at::Tensor> all) : tensors(std::move(all)) {
    for (const at::Tensor& t : tensors) pointers.push_back(&t);
  }
  const std::vector<at::Tensor> tensors;
  std::vector<const at::Tensor*> pointers;  // to them
};

class Snapshot {
 public:
  struct Weights {
    std::unique_ptr<const Binding> read;  // copies; the live tensor where the artifact writes it
    std::unique_ptr<char[]> memory;
    char* prepared = nullptr;
  };
  std::shared_ptr<const Binding> live;
  mutable std::mutex mutex;
  std::shared_ptr<const Weights> weights;
};

namespace {

using artifact::Signature;
using artifact::UserLeaf;
using host_torch::CallHost;

constexpr size_t kAlignment = 64;

std::vector<Kind> argument_kinds(const Signature& s) {
  std::vector<Kind> kinds;
  for (const UserLeaf& leaf : s.leaves) kinds.push_back(static_cast<Kind>(leaf.kind));
  return kinds;
}

/// Without a recorded structure the leaves stand side by side.
artifact::Tree argument_tree(const Signature& s) {
  if (s.in_spec) return artifact::parse_tree(*s.in_spec);
  artifact::Tree tree;
  tree.kind = artifact::Tree::Kind::tuple;
  tree.children.resize(s.leaves.size());
  return tree;
}

std::vector<Kind> result_kinds(const Signature& s) {
  std::vector<Kind> kinds;
  for (const artifact::Result& r : s.results)
    kinds.push_back(r.kind < artifact::Result::Kind::output ? static_cast<Kind>(r.kind) : Kind::tensor);
  return kinds;
}

precast_leaf describe_leaf(const Leaf& leaf) {
  precast_leaf out{};
  out.kind = static_cast<precast_i32>(leaf.kind);
  switch (leaf.kind) {
    case Kind::none:
      break;
    case Kind::boolean:
    case Kind::integer:
      out.i = leaf.integer;
      break;
    case Kind::real:
      out.d = leaf.real;
      break;
    case Kind::string:
      out.s = leaf.text;
      out.length = leaf.length;
      break;
    case Kind::tensor:
      host_torch::describe(*leaf.tensor, out.t);
      break;
  }
  return out;
}

class LoadedRunnable final : public Runnable {
  using Pointers = std::span<const at::Tensor* const>;

 public:
  explicit LoadedRunnable(runtime::ArtifactPtr artifact, LoadOptions options = {})
      : artifact_(std::move(artifact)),
        signature_(artifact_->signature()),
        host_(*artifact_, {std::move(options.graph_function), options.step_memory}),
        exclusive_gradients_(host_torch::exclusive_gradients(signature_)),
        arguments_(argument_tree(signature_), argument_kinds(signature_)),
        results_(artifact::parse_tree(signature_.out_spec), result_kinds(signature_)) {
    written_.resize(signature_.params.size() + signature_.buffers.size() + signature_.leaves.size());
    for (const artifact::WriteBack& w : signature_.writes) written_.at(static_cast<size_t>(w.source)) = true;
    for (const artifact::Result& r : signature_.results) loses_grad_ = loses_grad_ || r.required_grad;
  }

  void call(const Arguments& a, std::span<ResultLeaf> results) const override {
    Tensors live;
    if (std::equal(a.module_positions.begin(), a.module_positions.end(), signature_.module_positions.begin(),
                   signature_.module_positions.end()))  // otherwise the driver refuses it by name
      find_tensors({a.modules.data(), a.modules.size()}, live);
    run({live.data(), live.size()}, nullptr, a, results);
  }
  void call(const Binding& b, const Arguments& a, std::span<ResultLeaf> results) const override {
    run(b.pointers, nullptr, with_modules(a), results);
  }
  void call(const Snapshot& s, const Arguments& a, std::span<ResultLeaf> results) const override {
    std::shared_ptr<const Snapshot::Weights> weights;
    {
      std::lock_guard lock(s.mutex);
      weights = s.weights;
    }
    run(s.live->pointers, weights.get(), with_modules(a), results);
  }

  void call(Pointers module_tensors, const Arguments& a, std::span<ResultLeaf> results) const override {
    run(module_tensors, nullptr, a, results);
  }

  std::shared_ptr<const Binding> bind(std::span<const ModuleRef> modules) const override {
    if (modules.size() != signature_.module_positions.size())
      refuse(Check::call_bind_count, "bind: expected " + std::to_string(signature_.module_positions.size()) +
                                         " modules, found " + std::to_string(modules.size()) +
                                         ". Pass all modules of the captured call, in their order.");
    return match(modules);
  }
  std::shared_ptr<Snapshot> freeze(std::span<const ModuleRef> modules) const override {
    auto snapshot = std::make_shared<Snapshot>();
    snapshot->live = bind(modules);
    refresh(*snapshot);
    return snapshot;
  }
  void refresh(Snapshot& s) const override {
    auto weights = std::make_shared<Snapshot::Weights>();
    weights->read = std::make_unique<const Binding>(copies_of(s.live->tensors));
    if (const auto bytes = static_cast<size_t>(artifact_->prepared_bytes())) {
      weights->memory.reset(new char[bytes + kAlignment]);
      const auto address = reinterpret_cast<uintptr_t>(weights->memory.get());
      weights->prepared = weights->memory.get() + (kAlignment - address % kAlignment) % kAlignment;
      CallHost host(host_);
      c10::SmallVector<precast_tensor, 128> bound = describe_all(weights->read->pointers);
      precast_call call{};
      call.n_bound = static_cast<precast_i32>(bound.size());
      call.bound = bound.data();
      if (const int code = artifact_->prepare(host.abi(), call, weights->prepared)) host.raise(code);
    }
    std::lock_guard lock(s.mutex);
    s.weights = std::move(weights);
  }

  std::span<const Node> result_structure() const override { return results_.nodes(); }
  size_t result_leaves() const override { return signature_.results.size(); }
  std::span<const Node> argument_structure(int i) const override {
    return signature_.in_spec ? arguments_.child(i) : std::span<const Node>();
  }
  void check_arguments(int positional, std::span<const int> module_positions) const override {
    if (positional != signature_.num_positional_args)
      refuse(Check::load_signature_count, "load: the artifact takes " + std::to_string(signature_.num_positional_args) +
                                              " arguments, the signature asked for has " + std::to_string(positional));
    for (int i = 0; i < positional; ++i) {
      const auto names = [i](const auto& list) { return std::find(list.begin(), list.end(), i) != list.end(); };
      if (names(module_positions) != names(signature_.module_positions))
        refuse(Check::load_signature_modules,
               "load: argument " + std::to_string(i) + " is " +
                   (names(signature_.module_positions) ? "a module" : "no module") + " in the artifact, and is " +
                   (names(module_positions) ? "one" : "none") + " in the signature asked for");
    }
  }
  void refuse_argument(int positional, const std::string& asked) const override {
    refuse(Check::load_signature_argument, "load: argument " + std::to_string(positional) + " is " + asked +
                                               " in the signature asked for; the artifact takes the arguments " +
                                               in_words(argument_tree(signature_), argument_kinds(signature_)));
  }
  void refuse_result(const std::string& asked) const override {
    refuse(Check::load_signature_result,
           "load: the result is " + asked + " in the signature asked for; the artifact returns " +
               in_words(artifact::parse_tree(signature_.out_spec), result_kinds(signature_)));
  }
  const std::string& backend() const override { return signature_.backend; }
  std::string metadata() const override { return artifact::to_json(artifact_->metadata()); }
  std::string graph() const override { return artifact_->text().graph; }

 private:
  using Tensors = c10::SmallVector<const at::Tensor*, 128>;
  /// "([tensor, tensor], int)"
  static std::string in_words(const artifact::Tree& tree, const std::vector<Kind>& kinds) {
    static const char* const names[] = {"none", "bool", "int", "float", "str", "tensor"};
    return artifact::print(tree, [&, next = size_t{0}]() mutable { return names[static_cast<size_t>(kinds[next++])]; });
  }

  static void warn_of_lost_grad() {
    warn(
        "a result of this artifact requires grad in eager and does not here: gradients flow inside fn only. Run the "
        "backward in fn, or call the artifact where gradients are off (torch::NoGradGuard)");
  }

  /// Copies of the tensors that share memory as they do; what lies with a tensor that the artifact writes stays live.
  std::vector<at::Tensor> copies_of(const std::vector<at::Tensor>& tensors) const {
    at::NoGradGuard no_grad;
    std::map<const c10::StorageImpl*, at::Tensor> copies;  // undefined: live
    for (size_t i = 0; i < tensors.size(); ++i)
      if (written_[i]) copies[tensors[i].storage().unsafeGetStorageImpl()];
    std::vector<at::Tensor> out;
    for (const at::Tensor& t : tensors) {
      ir::Type whole = ir::contiguous(ir::Dtype::u8, {static_cast<int64_t>(t.storage().nbytes())});
      const int64_t offset = t.storage_offset() * t.element_size();
      auto [at, is_new] = copies.try_emplace(t.storage().unsafeGetStorageImpl());
      if (is_new) at->second = host_torch::clone_bytes(host_torch::window(t, -offset, whole));
      out.push_back(at->second.defined() ? host_torch::window(at->second, offset, host_torch::type_of(t)) : t);
    }
    return out;
  }

  static c10::SmallVector<precast_tensor, 128> describe_all(Pointers tensors) {
    c10::SmallVector<precast_tensor, 128> out(tensors.size());
    for (size_t i = 0; i < tensors.size(); ++i) host_torch::describe(*tensors[i], out[i]);
    return out;
  }

  /// The model seen last needs no second look at its structure, only at its identities.
  void find_tensors(std::span<const ModuleRef> modules, Tensors& out) const {
    if (modules.empty()) return;
    std::shared_ptr<const host_torch::ModuleImprint> known;
    {
      std::lock_guard lock(known_mutex_);
      known = known_;
    }
    if (known && known->matches(modules, out)) return;
    known = std::make_shared<const host_torch::ModuleImprint>(modules, match(modules)->tensors);
    known->matches(modules, out);
    std::lock_guard lock(known_mutex_);
    known_ = known;
  }

  void check_attributes(std::span<const ModuleRef> modules) const {
    const auto where = [&](int module) {
      return "the model (argument " + std::to_string(signature_.module_positions.at(static_cast<size_t>(module))) + ")";
    };
    const auto attributes = host_torch::module_attributes(modules);
    for (size_t i = 0; i < std::max(attributes.size(), signature_.attributes.size()); ++i) {
      const bool lacks = i >= attributes.size(), extra = i >= signature_.attributes.size();
      const artifact::ModuleAttribute& a = extra ? attributes[i] : signature_.attributes[i];
      const bool other = !lacks && !extra && (attributes[i].name != a.name || attributes[i].module != a.module);
      if (!lacks && !extra && !other && attributes[i].value == a.value) continue;
      refuse(Check::call_attribute,
             "attribute '" + a.name + "' of " + where(a.module) + ": expected " + (extra ? "none" : a.value) +
                 ", found " +
                 (lacks   ? "none"
                  : other ? "attribute '" + attributes[i].name + "'"
                          : attributes[i].value) +
                 ". The recorded call read it, so its value is a condition: pass a model with the same, or "
                 "capture again.");
    }
    const auto modes = host_torch::module_modes(modules);
    for (size_t i = 0; i < std::min(modes.size(), signature_.modes.size()); ++i) {
      const std::string &now = modes[i], &then = signature_.modes[i];
      const auto differs = static_cast<size_t>(std::ranges::mismatch(now, then).in1 - now.begin());
      if (differs >= std::min(now.size(), then.size())) continue;
      const auto words = [&](const std::string& m) { return m[differs] == 't' ? "training" : "evaluation"; };
      std::call_once(told_mode_, [&] {
        warn((differs ? "a part of " : "") + where(static_cast<int>(i)) + " is in " + words(now) +
             " mode here and was in " + words(then) + " mode at capture. The artifact does what was captured");
      });
    }
  }

  std::shared_ptr<const Binding> match(std::span<const ModuleRef> modules) const {
    const auto listed = host_torch::module_tensors(modules);
    std::vector<precast_named> entries(listed.size());
    for (size_t i = 0; i < listed.size(); ++i) {
      entries[i].name = listed[i].name.c_str();
      entries[i].module = listed[i].module;
      entries[i].is_buffer = listed[i].is_buffer;
      host_torch::describe(listed[i].tensor, entries[i].tensor);
    }
    const size_t n = signature_.params.size() + signature_.buffers.size();
    std::vector<int> entry_of(n);
    CallHost host(host_);
    if (const int code =
            artifact_->check_modules(host.abi(), entries.data(), static_cast<int>(entries.size()), entry_of.data()))
      host.raise(code);
    check_attributes(modules);
    std::vector<at::Tensor> tensors;
    for (int entry : entry_of) tensors.push_back(listed[static_cast<size_t>(entry)].tensor);
    return std::make_shared<const Binding>(std::move(tensors));
  }

  /// Arguments of a bound call as if the modules stood at their positions.
  Arguments with_modules(const Arguments& a) const {
    Arguments out;
    out.positional = a.positional + static_cast<int>(signature_.module_positions.size());
    out.module_positions.assign(signature_.module_positions.begin(), signature_.module_positions.end());
    out.leaves = a.leaves;
    out.spec = a.spec;
    return out;
  }

  void run(Pointers live, const Snapshot::Weights* frozen, const Arguments& a, std::span<ResultLeaf> results) const {
    if (trace::is_recording()) {
      const char* const message =
          "a loaded artifact was called inside a function that is being recorded; its kernels show no operations, so "
          "call the function it was captured from there";
      if (!trace::runs_through()) refuse(Check::call_while_recording, message);
      trace::refuse_recording(message);
    }
    std::optional<c10::InferenceMode> normal;  // gradients outlive the mode
    if (!signature_.grads.empty() && c10::InferenceMode::is_enabled()) normal.emplace(false);
    c10::SmallVector<precast_leaf, 8> leaves;
    Tensors sources(live.begin(), live.end());
    for (const Leaf& leaf : a.leaves)
      if (leaf.kind == Kind::tensor) sources.push_back(leaf.tensor);
    for (const artifact::WriteBack& w : signature_.writes) {  // a copy-on-write storage becomes its own first
      const auto source = static_cast<size_t>(w.source);
      if (source < sources.size() && sources[source]->defined() && sources[source]->has_storage())
        sources[source]->mutable_data_ptr();
    }
    const host_torch::SourceTensors all(sources.data(), sources.size());
    if (live.size() == signature_.params.size() + signature_.buffers.size())
      host_torch::check_gradients(signature_, all);
    for (const Leaf& leaf : a.leaves) leaves.push_back(describe_leaf(leaf));
    auto bound = describe_all(frozen ? Pointers(frozen->read->pointers) : live);
    c10::SmallVector<precast_tensor, 8> outputs(artifact_->metadata().outputs.size());
    c10::SmallVector<precast_i64, 16> numbers(static_cast<size_t>(artifact_->spec().n_call_numbers));

    CallHost host(host_);
    precast_call call{};
    call.n_positional = a.positional;
    call.n_modules = static_cast<precast_i32>(a.module_positions.size());
    call.module_positions = a.module_positions.data();
    call.in_spec = a.spec;
    call.n_leaves = static_cast<precast_i32>(leaves.size());
    call.leaves = leaves.data();
    call.n_bound = static_cast<precast_i32>(bound.size());
    call.bound = bound.data();
    call.prepared = frozen ? frozen->prepared : nullptr;
    call.outputs = outputs.data();
    call.numbers = numbers.data();
    if (const int code = artifact_->call(host.abi(), call)) host.raise(code);

    if (loses_grad_ && at::GradMode::is_enabled()) std::call_once(told_, warn_of_lost_grad);
    host_torch::mark_written(signature_, all);
    const host_torch::Values values = artifact::values_of(artifact_->metadata(), numbers.data());
    host_torch::deliver_gradients(signature_, exclusive_gradients_, all, outputs.data(), values);
    host_torch::pack_results(signature_, all, outputs.data(), values, results);
  }

  runtime::ArtifactPtr artifact_;
  const Signature& signature_;
  host_torch::TorchHost host_;
  std::vector<char> exclusive_gradients_;
  api::StructureNodes arguments_, results_;
  std::vector<char> written_;  // by source
  bool loses_grad_ = false;    // a result required grad at capture
  mutable std::once_flag told_, told_mode_;
  mutable std::mutex known_mutex_;
  mutable std::shared_ptr<const host_torch::ModuleImprint> known_;
};

}  // namespace

RunnablePtr load(const PairPaths& paths) {
  return std::make_shared<LoadedRunnable>(runtime::load(paths.artifact_path, paths.cache_path));
}

void save_weights(const ModuleRef& module, const std::filesystem::path& path) {
  host_torch::save_weights(module, path);
}
RunnablePtr load_from_memory(const Pair& pair, LoadOptions options) {
  runtime::LoadOptions how;
  how.announce = options.announce;
  return std::make_shared<LoadedRunnable>(runtime::load_from_memory(pair.code, pair.cache, how), std::move(options));
}

}  // namespace precast::detail
