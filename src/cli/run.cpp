// precast run: an artifact on .npy files, without LibTorch unless it has host ops.
#include <CLI/CLI.hpp>
#include <cstring>
#include <filesystem>
#include <iostream>
#include <memory>

#include "cli/commands.h"
#include "cli/inputs.h"
#include "cli/plugin.h"
#include "cli/report.h"
#include "cli/sizes.h"
#include "cli/table.h"
#include "cli/values.h"
#include "io/npy.h"
#include "io/safetensors.h"
#include "precast/error.h"
#include "precast/runtime.h"
#include "runtime/weights.h"

namespace precast::cli {
namespace {

namespace fs = std::filesystem;

constexpr const char* kAbout =
    "Runs an artifact on the given inputs and writes each result as DIR/0.npy, DIR/1.npy, ... Needs no LibTorch when "
    "the\n"
    "artifact has no host ops (`precast info` tells).";

constexpr const char* kExample =
    "\n\nExample:\n"
    "  precast run out.cpp out.cache --weights w.safetensors --input x.npy -o results\n"
    "  precast run out.cpp out.cache --weights w.safetensors --input 'f32[1,576]' -o results\n"
    "\n"
    "`precast weights` makes w.safetensors. Give one --input for each tensor argument; numbers and strings are fixed "
    "in\n"
    "the artifact. What the call changes is written too: DIR/input0.npy for argument tensors,\n"
    "DIR/gradients.safetensors, and with --save-weights the updated weights. bfloat16 results are stored as uint16, "
    "for\n"
    "NumPy has no bfloat16.\n"
    "\n"
    "Next: in Python, numpy.load('results/0.npy').";

struct Options {
  std::string artifact, cache, weights, out, save_weights;
  std::vector<std::string> inputs;
  uint64_t seed = 0;
};

void check_runtime(int code) {
  if (code != PRECAST_OK) throw PrecompileError(precast_last_error());
}

io::Array to_array(const precast_tensor& t) {  // borrows the memory
  ir::Type type;
  type.dtype = static_cast<ir::Dtype>(t.dtype);
  type.sizes.assign(t.sizes, t.sizes + t.ndim);
  type.strides.assign(t.strides, t.strides + t.ndim);
  return {std::move(type), static_cast<std::byte*>(t.data), nullptr};
}

// All leaves of the call: the user's tensors, and numbers and strings as the artifact fixes them.
std::vector<io::Input> complete_inputs(const artifact::Metadata& m, const Options& o) {
  const artifact::Signature& s = m.signature;
  std::vector<io::Input> given = parse_inputs(o.inputs, o.seed);
  std::vector<const artifact::UserLeaf*> tensors;
  std::string expected;
  for (const artifact::UserLeaf& leaf : s.leaves)
    if (leaf.kind == artifact::UserLeaf::Kind::tensor) {
      tensors.push_back(&leaf);
      expected += "\n  --input '" + input_text(leaf) + "'    (" + leaf.where + ")";
    }
  const bool all = given.size() == s.leaves.size();
  if (!all && given.size() != tensors.size())
    throw PrecompileError("the artifact takes " + plural(static_cast<int64_t>(tensors.size()), "tensor") + ", and " +
                          plural(static_cast<int64_t>(given.size()), "input") + " were given; expected" +
                          (expected.empty() ? " none" : ":" + expected));
  std::vector<io::Input> inputs;
  size_t next = 0;
  for (const artifact::UserLeaf& leaf : s.leaves) {
    const bool is_tensor = leaf.kind == artifact::UserLeaf::Kind::tensor;
    if (!is_tensor && !all) {
      inputs.push_back({input_text(leaf), std::nullopt, leaf.value});
      continue;
    }
    inputs.push_back(std::move(given[next++]));
  }
  const SymbolValues sizes = sizes_of(m, inputs);
  for (size_t i = 0; i < inputs.size(); ++i)
    if (s.leaves[i].kind == artifact::UserLeaf::Kind::tensor && inputs[i].array)
      inputs[i].array =
          runtime::in_layout(*inputs[i].array, at_sizes(s.leaves[i].tensor.type, sizes), s.leaves[i].where);
  return inputs;
}

// Host ops of the artifact, run by the plugin. Without host ops it is loaded only if the graph itself must be run,
// since neither cache nor compiler is of use.
class HostOps {
 public:
  explicit HostOps(const Pair& pair) : path_(pair.artifact_path) {
    const auto& ops = pair.text.metadata.host_ops;
    if (needs_torch(pair.text.metadata))
      open(ops.empty() ? "an artifact of backend \"eager\"" : "the host op " + ops[0].op);
  }
  ~HostOps() {
    if (plugin_) plugin_->close_host_ops(context_);
  }
  HostOps(const HostOps&) = delete;
  HostOps& operator=(const HostOps&) = delete;

  const precast_host_ops* get() const { return plugin_ || has_torch_plugin() ? &ops_ : nullptr; }

 private:
  void open(const std::string& why) {
    const precast_plugin& plugin = torch_plugin(why);
    context_ = plugin.open_host_ops(path_.c_str());
    if (!context_) throw PrecompileError(plugin.last_error());
    plugin_ = &plugin;
  }
  int run(precast_i32 index, const precast_i64* symbols, void* const* in, void** out) {
    try {
      if (!plugin_) open("running an artifact's graph op by op");
    } catch (const std::exception& e) {
      error() = e.what();
      return 1;
    }
    const int code = plugin_->host_op(context_, index, symbols, in, out);
    if (code) error() = plugin_->last_error();
    return code;
  }
  static std::string& error() {
    thread_local std::string text;
    return text;
  }

  std::string path_;
  const precast_plugin* plugin_ = nullptr;
  void* context_ = nullptr;
  precast_host_ops ops_{this,
                        [](void* self, precast_i32 index, const precast_i64* symbols, void* const* in, void** out) {
                          return static_cast<HostOps*>(self)->run(index, symbols, in, out);
                        },
                        [] { return error().c_str(); }};
};

struct Model {
  precast_runnable* model = nullptr;
  precast_binding* binding = nullptr;
  precast_outputs* outputs = nullptr;
  ~Model() {
    precast_free_outputs(outputs);
    precast_free_binding(binding);
    precast_free_runnable(model);
  }
};

void write_results(const Model& m, const artifact::Signature& s, const fs::path& dir) {
  const std::vector<std::string> places = result_places(s);
  for (int i = 0; i < precast_num_outputs(m.outputs); ++i) {
    const precast_leaf& leaf = *precast_output(m.outputs, i);
    const std::string name = std::to_string(i) + ".npy", &place = places.at(static_cast<size_t>(i));
    io::Array array;
    if (leaf.kind == PRECAST_TENSOR) {
      array = to_array(leaf.t);
    } else if (leaf.kind == PRECAST_BOOL || leaf.kind == PRECAST_INT || leaf.kind == PRECAST_DOUBLE) {
      const ir::Dtype dtype = leaf.kind == PRECAST_BOOL  ? ir::Dtype::b8
                              : leaf.kind == PRECAST_INT ? ir::Dtype::i64
                                                         : ir::Dtype::f64;
      array = io::allocate(ir::contiguous(dtype, {}));
      if (leaf.kind == PRECAST_DOUBLE)
        std::memcpy(array.data, &leaf.d, sizeof leaf.d);
      else
        std::memcpy(array.data, &leaf.i, static_cast<size_t>(ir::itemsize(dtype)));
    } else {
      std::cout << place << ": "
                << (leaf.kind == PRECAST_STRING
                        ? "a string, \"" + std::string(leaf.s, static_cast<size_t>(leaf.length)) + "\""
                        : "none")
                << ", not written\n";
      continue;
    }
    io::write_npy(dir / name, array);
    std::cout << place << ": " << ir::to_string(array.type) << " -> " << (dir / name).string() << "\n";
  }
}

void write_effects(const Model& m, const artifact::Signature& s, const std::vector<io::Input>& inputs,
                   const runtime::Weights& weights, const Options& o) {
  const auto n_bound = static_cast<int>(s.params.size() + s.buffers.size());
  int written_weights = 0;
  for (const artifact::WriteBack& write : s.writes) {
    if (write.source < n_bound) {
      ++written_weights;
      continue;
    }
    int source = n_bound;  // which argument this source is
    for (size_t i = 0; i < inputs.size(); ++i) {
      if (s.leaves[i].kind != artifact::UserLeaf::Kind::tensor || source++ != write.source) continue;
      const fs::path path = fs::path(o.out) / ("input" + std::to_string(write.source - n_bound) + ".npy");
      io::write_npy(path, *inputs[i].array);
      std::cout << s.leaves[i].where << " was changed: " << ir::to_string(inputs[i].array->type) << " -> "
                << path.string() << "\n";
    }
  }
  std::vector<io::NamedArray> gradients;
  for (int i = 0; i < precast_num_gradients(m.outputs); ++i) {
    int accumulate = 0;
    const precast_named& g = *precast_gradient(m.outputs, i, &accumulate);
    gradients.push_back({g.name, to_array(g.tensor)});
  }
  if (!gradients.empty()) {
    const fs::path path = fs::path(o.out) / "gradients.safetensors";
    io::write_safetensors(path, gradients);
    std::cout << plural(static_cast<int64_t>(gradients.size()), "gradient") << " -> " << path.string() << "\n";
  }
  if (!o.save_weights.empty()) {
    io::write_safetensors(o.save_weights, weights.tensors(), {{"format", "pt"}});
    std::cout << "weights, " << written_weights << " of them changed -> " << o.save_weights << "\n";
  } else if (written_weights) {
    std::cout << plural(written_weights, "weight") << " changed in memory only; --save-weights FILE keeps them\n";
  }
}

void run(const Options& o) {
  const Pair pair = read_pair(o.artifact, "");
  const artifact::Signature& s = pair.text.metadata.signature;
  const runtime::Weights weights(s, o.weights);
  const std::vector<io::Input> inputs = complete_inputs(pair.text.metadata, o);
  const std::vector<precast_leaf> leaves = to_leaves(inputs);
  HostOps host_ops(pair);

  Model m;
  check_runtime(precast_load_with(o.artifact.c_str(), o.cache.c_str(), host_ops.get(), &m.model));
  check_runtime(
      precast_bind(m.model, weights.entries().data(), static_cast<int>(weights.entries().size()), &m.binding));
  check_runtime(precast_call_model(m.binding, leaves.data(), static_cast<int>(leaves.size()), nullptr, &m.outputs));
  std::error_code error;
  fs::create_directories(o.out, error);
  if (error) throw PrecompileError(o.out + ": the folder cannot be made: " + error.message());
  write_results(m, s, o.out);
  write_effects(m, s, inputs, weights, o);
}

}  // namespace

void add_run(CLI::App& program) {
  auto o = std::make_shared<Options>();
  CLI::App* command = program.add_subcommand("run", "run an artifact on .npy files");
  command->description(command->get_description() + "\n\n" + kAbout + "\n");
  command->footer(kInputHelp + std::string(kExample));
  command->add_option("artifact", o->artifact, "text of the artifact")->required()->type_name("OUT.cpp")->check(kNamed);
  command->add_option("cache", o->cache, "its cache")->required()->type_name("OUT.cache")->check(kNamed);
  command->add_option("--weights", o->weights, "weights by name, from `precast weights`")
      ->type_name("W.safetensors")
      ->check(kNamed);
  command->add_option("--input", o->inputs, "one tensor argument (repeat); see below")
      ->type_name("INPUT")
      ->allow_extra_args(false);
  command->add_option("-o,--out", o->out, "folder for the results; made if missing")
      ->required()
      ->type_name("DIR")
      ->check(kNamed);
  command->add_option("--save-weights", o->save_weights, "write the weights as the call leaves them")
      ->type_name("W2.safetensors")
      ->check(kNewFile);
  command->add_option("--seed", o->seed, "seed of generated inputs (default: 0)")->type_name("N");
  command->callback([o] { run(*o); });
}

}  // namespace precast::cli
