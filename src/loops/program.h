// What lowering makes of a graph: buffers, and steps that fill them. Fusion groups the steps into kernels.
#pragma once
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "ir/graph.h"
#include "loops/expr.h"

namespace precast::loops {

struct Buffer {
  enum class Place { arena, prepared, input, output, host, local } place = Place::arena;
  ir::Type type;        // layout in memory
  int slot = -1;        // input, output, host: which
  int64_t offset = 0;   // arena, prepared
  int arena_slot = -1;  // or the slot of the arena (plan.h)
  ir::Size bytes = 0;
  BufferId alias_of = -1;     // stands in the memory of this one: its later version, or what it is a part of
  ir::Size alias_offset = 0;  // bytes
  bool is_part = false;       // of what was joined: nobody else writes there
};

enum class Reduction { none, sum, prod, amax, amin, argmax, argmin, any, all };

/// A tensor the host reads in place.
struct HostOperand {
  BufferId buffer = -1;
  Size offset_bytes = 0;
};

/// An algorithm of the preamble on whole tensors, too large for an expression: attention, a recurrent layer. It sees a
/// struct of these numbers, and pointers by name.
struct Routine {
  std::string function;  // in emit/preamble/
  ir::Dtype dtype = ir::Dtype::f32;
  std::vector<std::pair<std::string, Size>> sizes;
  std::vector<std::pair<std::string, double>> reals;
  std::vector<std::pair<std::string, Dims>> lists;
  struct Pointer {
    std::string name;
    ir::Dtype dtype;
  };
  std::vector<Pointer> reads, writes;  // as the step's operands and results
  Size workspace_bytes = 0;            // on the widest ISA
  double flops = 0;
};

/// The variables of a matrix product, outermost first; those of size 1 are left out.
struct Product {
  std::vector<Atom> batch;  // in both operands and the result
  std::vector<Atom> m, n;   // in the result and a, b
  std::vector<Atom> k;      // in both operands, summed
};

/// Computes one buffer, or a window of one.
struct Step {
  enum class Kind {
    map,     // buffer[at] = body, for all points of `space`
    reduce,  // buffer[at] = reduction of body over `reduced`
    scan,    // buffer[at] = running sum or prod of body along reduced[0]; `at` names it
    write,   // buffer[at] (combine)= body in order; `at` holds run-time indices
    matmul,  // buffer[at] = sum over reduced of a * b, both in memory; `product` sorts the variables
    host,
    routine,  // fills `results` from `operands`; may write operands that are results too
    alias,    // buffer takes over, or holds, the memory of the one it would copy
  } kind = Kind::map;
  std::string what;                       // op, for people
  std::vector<Atom> space, reduced;       // outermost first
  Reduction reduction = Reduction::none;  // reduce, scan; write: none overwrites
  bool part = false;                      // map: other steps write other elements of the buffer, none these
  ExprId body = -1, a = -1, b = -1;
  Product product;       // matmul
  ExprId position = -1;  // argmax, argmin: logical index along `reduced`
  BufferId buffer = -1;
  Index at;
  ir::Dtype dtype = ir::Dtype::f32;  // stored; scan accumulates in a wider one
  int host_op = -1;
  std::shared_ptr<const Routine> routine;
  std::vector<HostOperand> operands;  // host, routine
  std::vector<BufferId> results;
  std::vector<int> after;  // steps that come first, besides those that write what is read
};

struct Program {
  std::vector<ir::Symbol> symbols;
  Exprs exprs;
  std::vector<Buffer> buffers;
  std::vector<Step> steps;        // a valid order
  std::vector<BufferId> outputs;  // one per graph output
};

/// Expressions a step evaluates.
std::vector<ExprId> roots(const Step&, Exprs&);
/// Distinct loads below the step's expressions, those inside indices included.
std::vector<ExprId> loads(const Step&, Exprs&);
void substitute(Step&, Exprs&, const Exprs::Variables&);
Size volume(const std::vector<Atom>&, const Exprs&);

}  // namespace precast::loops
