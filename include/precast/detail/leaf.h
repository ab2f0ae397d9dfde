// How calls cross from the user's types into the compiled core: modules, leaves and a structure string.
// Nothing here owns anything but results; all of it lives on the stack of one call.
#pragma once
#include <ATen/core/Tensor.h>
#include <c10/util/SmallVector.h>

#include <cstdint>
#include <string>
#include <string_view>

namespace torch::nn {
class Module;
}
namespace torch::jit {
struct Module;
}

namespace precast::detail {

enum class Kind : int32_t { none = 0, boolean = 1, integer = 2, real = 3, string = 4, tensor = 5 };

/// A leaf of the arguments, or of fn's result while it is recorded; points into the caller's objects.
struct Leaf {
  Kind kind = Kind::none;
  int32_t length = 0;  // of `text`
  union {
    int64_t integer = 0;  // boolean, integer
    double real;
    const char* text;
    const at::Tensor* tensor;
  };
};
using Leaves = c10::SmallVector<Leaf, 16>;

/// A leaf of the result of an artifact. `text` lives as long as the artifact.
struct ResultLeaf {
  Kind kind = Kind::none;
  int64_t integer = 0;
  double real = 0;
  std::string_view text;
  at::Tensor tensor;
};

/// A module argument, whatever handle it came in: one of the two is set.
struct ModuleRef {
  const torch::nn::Module* module = nullptr;
  const torch::jit::Module* script = nullptr;
  const void* object = nullptr;  // `module` as the type that the caller knows it by,
  size_t bytes = 0;              // and the size of that
};

struct Arguments {
  int positional = 0;
  c10::SmallVector<ModuleRef, 4> modules;
  c10::SmallVector<int, 4> module_positions;
  Leaves leaves;               // of the other arguments, in depth-first order
  const char* spec = nullptr;  // structure of the other arguments, a tuple: "(*, [*, *])"
};

/// One node of a structure in depth-first order; `key` is its key in the parent.
struct Node {
  enum Type : char { leaf = '*', tuple = '(', list = '[', dict = '{', record = 'R' } type = leaf;
  int children = 0;
  std::string_view key;    // dict and record entries
  Kind kind = Kind::none;  // leaf
  std::string_view name;   // record
};

/// Reads a result back into the user's types, or compares a structure with them.
struct Cursor {
  const Node* node = nullptr;
  ResultLeaf* leaf = nullptr;
};

}  // namespace precast::detail
