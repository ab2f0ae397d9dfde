// What the recorder has to know of an operator, worked out from its schema once; the few facts that
// schemas do not tell (or tell wrongly) are tables in op_info.cpp.
#pragma once
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/jit_type.h>

#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace precast::trace {

struct ArgInfo {
  enum class Kind { tensor, tensors, other } kind = Kind::other;
  std::string name;
  c10::TypePtr type;
  bool writes = false;         // the schema says so
  bool hidden_write = false;   // it does not, and still
  bool reads_contents = true;  // false: only geometry counts (zeros_like), or it is overwritten (out=)
};

struct OpInfo {
  std::string name;  // "aten::add.Tensor"
  std::vector<ArgInfo> args;
  size_t returns = 0;
  bool composite = false;            // has a CompositeImplicitAutograd kernel
  bool writes = false;               // some argument, hidden ones included
  bool is_view = false;              // the schema returns an alias and writes nothing
  bool reshapes = false;             // changes only the tensor's own geometry (t_, set_)
  bool resizes = false;              // resize_: keeps the old elements in front
  bool random = false;               // advances the default generator
  bool pointwise = false;            // may write what it reads, element by element
  bool uninitialized = false;        // returns memory with unknown contents (empty)
  bool metadata_only = false;        // asks for geometry, no tensor comes back
  bool compares_memory = false;      // asks whether two tensors share it
  int hidden_write_if = -1;          // hidden writes happen when this bool argument is true
  std::vector<size_t> values_count;  // arguments by whose values a composite kernel goes, reading them unseen
  enum class Special {
    none,
    add,
    add_,
    as_strided_copy,
    as_strided_scatter,
    zero_tensor,
    copy_
  } special = Special::none;
};

/// Composite overloads whose kernels read the values of some arguments through a pointer and go by them.
std::span<const std::pair<const char*, std::vector<std::string_view>>> value_readers();

class OpInfos {
 public:
  const OpInfo& get(const c10::OperatorHandle&);
  /// The overload that takes numbers where this one takes tensors ("aten::mul.Scalar" for "aten::mul.Tensor").
  const OpInfo* with_numbers(const OpInfo&, const std::vector<size_t>& args);

 private:
  std::unordered_map<const c10::OperatorName*, std::unique_ptr<OpInfo>> infos_;
  std::unordered_map<std::string, const OpInfo*> with_numbers_;
};

}  // namespace precast::trace
