// The compiled core behind the templates of compile.h.
#pragma once
#include <c10/util/SmallVector.h>

#include <cstddef>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <typeinfo>

#include "precast/detail/core.h"

namespace precast {
struct CompileOptions;
}

namespace precast::detail {

/// What is compiled of one callable type: guarded variants, shared by all copies.
class CompiledFunction;
using CompiledPtr = std::shared_ptr<CompiledFunction>;

/// Which callable it is. Equal `code` shares what has been compiled; null: nobody else shares it.
struct CallableIdentity {
  const std::type_info* code = nullptr;
  const void* address = nullptr;  // of a plain function
  std::string name;               // for people
};
/// Throws std::invalid_argument for an option that is wrong.
CompiledPtr compiled_function(const CallableIdentity&, const CompileOptions&);

/// The callable with the arguments of one call.
struct EagerCall {
  void* self = nullptr;
  /// Calls fn for real; gives its result to the sink, if there is one.
  void (*run)(void* self, const ResultSink*) = nullptr;
  /// The result of `run`, once more.
  void (*look)(void* self, const ResultSink&) = nullptr;
  /// The arguments as they are now, modules left out: fn may have got references to them.
  void (*arguments)(void* self, const std::function<void(const Arguments&)>&) = nullptr;
  /// A copy of both that may be called later, or an empty function where there can be none.
  std::function<void(const ResultSink&)> (*keep)(void* self) = nullptr;
};

struct CompiledResult {
  c10::SmallVector<ResultLeaf, 4> leaves;
  std::span<const Node> structure;
  std::shared_ptr<const void> keeps;  // what `structure` points into
};
/// True: the result is in `out`. False: `eager` has been run, and has it.
bool call(CompiledFunction&, const Arguments&, std::span<const std::byte> closure, const EagerCall& eager,
          CompiledResult& out);

/// A call whose arguments cannot be described: runs eagerly, or throws CompileError (`fullgraph`).
void call_unseen(CompiledFunction&, const EagerCall&, const std::string& why);

std::string explain(const CompiledFunction&);

}  // namespace precast::detail
