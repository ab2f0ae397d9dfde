// The calling convention of one artifact: what the caller passes, how it becomes graph inputs, and
// what graph outputs become (results, write-backs, gradients). Stored as metadata; see metadata.h.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "ir/graph.h"

namespace precast::artifact {

struct TensorMeta {
  std::string name;  // params and buffers; "m0.fc.weight" when several modules
  ir::Type type;
  bool requires_grad = false;
  bool read = true;  // the graph reads or writes it
};

/// An entry of named_parameters()/named_buffers() with duplicates; `tensor` indexes params then buffers.
struct ModuleSlot {
  std::string name;
  int module = 0;
  bool is_buffer = false;
  int tensor = 0;
};

/// A leaf of the user arguments. A number, bool or string is a condition on its value.
struct UserLeaf {
  enum class Kind { none = 0, boolean = 1, integer = 2, real = 3, string = 4, tensor = 5 } kind = Kind::tensor;
  std::string where;  // "argument 1", "argument 2[0]['mask']": used in messages
  TensorMeta tensor;
  ir::Attr value;  // bool, int64_t, double or std::string
};

/// A source is a tensor the caller passes: params, buffers, then the user leaves that are tensors.
struct GraphInput {
  int source = 0;
  int64_t offset_bytes = 0;
};
struct Alias {
  int a = 0, b = 0;
  bool shared = false;
  int64_t delta_bytes = 0;
};

/// One leaf of fn's result, in OUT_SPEC order.
struct Result {
  enum class Kind { none, boolean, integer, real, string, output, source, output_view, source_view } kind = Kind::none;
  int index = 0;               // which graph output, or which source
  ir::Size offset_bytes = 0;   // views: window relative to the first byte of the output / source
  ir::Type type;               // views
  ir::Attr value;              // constants
  bool required_grad = false;  // in eager it would require grad: one warning at load
  int same_as = -1;            // this earlier result, the same object again
};
struct WriteBack {
  int source = 0;
  int output = 0;
};
/// A window on a graph output.
struct Part {
  ir::Size offset_bytes = 0;
  ir::Type type;
};
struct Gradient {
  int source = 0;
  int output = 0;              // the graph output that holds it
  bool accumulate = true;      // added to the .grad that is there; false: takes its place
  bool in_place = true;        // into the tensor object that is there, if one is; false: a new object
  std::optional<Part> part{};  // the new object shares the output's memory with results or other gradients
};

/// An attribute of a TorchScript module that is no tensor; a call reads it unseen, so its value is a condition.
struct ModuleAttribute {
  std::string name;
  int module = 0;
  std::string value;  // as LibTorch prints it
};

struct Signature {
  std::string backend = "inductor", tracer = "make_fx";
  int num_positional_args = 0;
  std::vector<int> module_positions;
  std::vector<TensorMeta> params, buffers;  // interned by identity
  std::vector<ModuleSlot> slots;            // all modules' params, then all modules' buffers
  std::optional<std::string> in_spec;       // structure of the user arguments: see spec.h
  std::string out_spec;
  std::vector<UserLeaf> leaves;
  std::vector<GraphInput> graph_inputs;  // one per Graph::inputs
  std::vector<Alias> aliases;
  std::vector<Result> results;  // leaves of out_spec
  std::vector<WriteBack> writes;
  std::vector<int> fixed_layouts;  // sources whose layout is the captured one in the eager backend as well
  std::vector<Gradient> grads;
  std::vector<int> cleared_grads;  // sources whose .grad ends undefined (zero_grad inside fn)
  std::vector<int> zeroed_grads;   // sources whose .grad is filled with zeros, if there is one
  std::vector<ModuleAttribute> attributes;
  std::vector<std::string> modes;       // per module, a letter for each submodule: t(raining) or e(valuation)
  std::vector<std::string> conditions;  // recorded values in words, for info
  std::string torch_version;
};

/// Of every source, in order. Pointers into the signature.
std::vector<const ir::Type*> source_types(const Signature&);

}  // namespace precast::artifact
