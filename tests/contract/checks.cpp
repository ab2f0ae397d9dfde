#include "contract/checks.h"

#include <cstddef>

#include "precast/artifact_abi.h"
#include "util/checks.h"

namespace precast::contract {

namespace {

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wunused-function"
namespace driver {
#include "artifact/driver.inc"
}
#pragma GCC diagnostic pop

#define ROW(name) static_cast<int>(precast::Check::name), #name
constexpr Check kChecks[] = {
    {ROW(capture_spent), "Capture", "anything after the capture has ended, a failed write included", "api",
     "capture: single use, also after a failed write"},
    {ROW(capture_second_call), "Capture", "a second call", "api", "capture: exactly one call"},
    {ROW(capture_no_call), "Capture", "writing without a call", "api",
     "capture: a block that made no call raises and writes nothing"},
    {ROW(capture_failed_call), "Capture", "writing when the call has failed", "api",
     "capture: a failed call is told apart from no call"},
    {ROW(capture_nested), "Capture", "a recording inside a recording", "trace", "refusals"},
    {ROW(one_rank_absent), "Several ranks", "a rank that does not come in time", "api",
     "one rank: a rank that dies, and one that is late"},
    {ROW(one_rank_disagrees), "Several ranks", "ranks that were called with other arguments", "api",
     "one rank: ranks that disagree on arguments"},
    {ROW(one_rank_failed), "Several ranks", "a capture that failed on rank 0", "api",
     "one rank: a capture that fails is known to all"},
    {ROW(input_kind), "Inputs", "sparse, nested, quantized, meta and other tensors that are not strided CPU ones",
     "api", "bad input: tensors of an unusual kind, as arguments and inside"},
    {ROW(input_zero_tensor), "Inputs", "autograd's zeros without memory", "api",
     "bad input: tensors of an unusual kind, as arguments and inside"},
    {ROW(input_overlap), "Inputs", "two storages over the same memory", "trace", "two storages over one memory"},
    {ROW(input_rebound), "Effects", "an input given other memory", "trace", "refusals"},
    {ROW(input_geometry), "Effects", "an input whose shape, strides or dtype is changed", "trace", "refusals"},
    {ROW(input_requires_grad), "Effects", "an input whose requires_grad is changed", "trace", "refusals"},
    {ROW(input_memory), "Effects", "an input whose storage is given other memory", "trace",
     "operators of other libraries, and what has no form in a graph"},
    {ROW(input_raw_write), "Effects", "a write to an input through a pointer", "trace",
     "a raw write to an input is found by verification"},
    {ROW(module_changed), "Effects", "a module whose tensors or attributes are bound anew", "api",
     "bad input: an attribute that a TorchScript call reassigns"},
    {ROW(inductor_no_compute), "Results", "a graph that computes nothing, by the inductor backend", "api",
     "backends: what inductor refuses, eager serves"},
    {ROW(inductor_result), "Results", "a float or string as a result, by the inductor backend", "api",
     "backends: what inductor refuses, eager serves"},
    {ROW(backend_graph), "Capture", "a backend function's graph of other inputs or outputs", "api",
     "backends: a function that takes the graph"},
    {ROW(read_closed_over), "Everything live is an input", "a tensor that is no argument and was not made inside",
     "trace", "refusals"},
    {ROW(read_literal), "Everything live is an input", "values that were filled in through a pointer", "trace",
     "refusals"},
    {ROW(read_partly_written), "Everything live is an input", "memory that was written in part", "trace", "refusals"},
    {ROW(read_outside_argument), "Everything live is an input", "memory beyond the tensor that was passed", "trace",
     "memory outside of a passed window"},
    {ROW(read_replaced_memory), "Everything live is an input", "a tensor whose memory was replaced", "trace",
     "operators of other libraries, and what has no form in a graph"},
    {ROW(read_gradient), "Gradients", "a gradient into which the caller's own may be summed", "trace", "refusals"},
    {ROW(read_others_gradient), "Gradients", "the gradient of what is no parameter", "trace",
     "gradients that cannot be carried over"},
    {ROW(op_operand_kind), "Inputs", "an op that reads a tensor that is not strided", "trace",
     "operators of other libraries, and what has no form in a graph"},
    {ROW(op_result_kind), "Inputs", "an op that makes a tensor that is not strided", "trace", "refusals"},
    {ROW(op_argument_form), "Control flow, numbers and shapes", "an op with an argument that has no form in a graph",
     "trace", "operators of other libraries, and what has no form in a graph"},
    {ROW(op_result_form), "Control flow, numbers and shapes", "an op with a result that has no form in a graph",
     "trace", "operators of other libraries, and what has no form in a graph"},
    {ROW(op_generator), "Random numbers", "a generator of its own", "trace", "refusals"},
    {ROW(op_overlap), "Effects", "an op that returns new storage over known memory", "trace",
     "operators of other libraries, and what has no form in a graph"},
    {ROW(op_gives_memory), "Effects", "an op that gives its argument other memory", "trace",
     "operators of other libraries, and what has no form in a graph"},
    {ROW(op_resizes_input), "Effects", "resizing an input", "trace", "refusals"},
    {ROW(op_resizes_output), "Effects", "resizing an input by out=", "trace",
     "operators of other libraries, and what has no form in a graph"},
    {ROW(op_storage_offset), "Effects", "as_strided_scatter at another offset than its operand's", "trace",
     "operators of other libraries, and what has no form in a graph"},
    {ROW(op_values), "Control flow, numbers and shapes", "sizes that an op reads from a tensor of other than integers",
     "trace", "operators of other libraries, and what has no form in a graph"},
    {ROW(dynamic_mark), "Open sizes", "mark_dynamic, specialize_on, and a mark on a dim that is not there", "trace",
     "open sizes: marks that cannot be honored"},
    {ROW(dynamic_mark_inside), "Open sizes", "a mark that is made inside a recorded function", "trace",
     "open sizes: marks that cannot be honored"},
    {ROW(dynamic_layout), "Open sizes", "a marked tensor of an unusual layout, or that shares memory with another",
     "trace", "open sizes: marks that cannot be honored"},
    {ROW(dynamic_bounds), "Open sizes", "an example outside of its own bounds, and bounds that leave hardly any size",
     "trace", "open sizes: marks that cannot be honored"},
    {ROW(dynamic_group), "Open sizes", "other sizes in one shape_id", "trace",
     "open sizes: marks that cannot be honored"},
    {ROW(dynamic_alias), "Open sizes", "a marked argument through a captured variable", "trace",
     "open sizes: operations that differ with the size"},
    {ROW(dynamic_guard), "Open sizes", "a marked size as a number or in a condition", "trace",
     "open sizes: guards are refused by expression, op and place"},
    {ROW(dynamic_op), "Open sizes", "operations that are others at other sizes", "trace",
     "open sizes: operations that differ with the size"},
    {ROW(dynamic_eager), "Open sizes", "a mark with the eager backend", "api", "open sizes: by the eager backend"},
    {ROW(raw_access), "Effects", "data_ptr, accessor and the like on what was made inside", "trace", "refusals"},
    {ROW(raw_write), "Effects", "a write through a pointer that was taken earlier", "api",
     "hidden effects: raw writes to parameters, buffers, gradients, locals"},
    {ROW(foreign_thread), "Effects", "ops of another thread on recorded tensors", "trace",
     "ops in a thread that does not record"},
    {ROW(random_state), "Random numbers", "seeding or using the generator outside of ops", "trace", "refusals"},
    {ROW(result_kind), "Results", "a result that is not strided", "trace",
     "operators of other libraries, and what has no form in a graph"},
    {ROW(gradient_kind), "Gradients", "a parameter whose gradient is not strided", "trace",
     "gradients that cannot be carried over"},
    {ROW(gradient_of_argument), "Gradients", "a backward that reaches a buffer or an argument", "trace", "refusals"},
    {ROW(gradient_shares_memory), "Gradients", "a gradient that shares memory with an input", "trace",
     "gradients that cannot be carried over"},
    {ROW(gradient_bound_to_input), "Gradients", "a gradient bound to the memory of an input", "trace",
     "gradients that cannot be carried over"},
    {ROW(escaped_state), "Effects", "a tensor made inside that outlives the call", "trace", "refusals"},
    {ROW(verify_runs), "Verification", "a graph that does not run again", "trace",
     "operators that do something else when they run again"},
    {ROW(verify_random), "Verification", "a graph that draws other random numbers when it runs again", "trace",
     "operators that do something else when they run again"},
    {ROW(verify_values), "Verification", "a graph that computes something else when it runs again", "trace",
     "operators that do something else when they run again"},
    {ROW(load_backend), "Files", "a cache of another backend", "runtime",
     "a pair that does not belong together is refused by field"},
    {ROW(load_tracer), "Files", "a cache of another tracer", "runtime",
     "a pair that does not belong together is refused by field"},
    {ROW(load_code_hash), "Files", "a cache of another text", "runtime",
     "a pair that does not belong together is refused by field"},
    {ROW(load_signature_count), "Calls", "a signature of another number of arguments", "api",
     "load: a signature that does not fit is refused in words"},
    {ROW(load_signature_modules), "Calls", "a signature with modules in other positions", "api",
     "load: a signature that does not fit is refused in words"},
    {ROW(load_signature_argument), "Calls", "a signature with an argument of another structure", "api",
     "load: a signature that does not fit is refused in words"},
    {ROW(load_signature_result), "Calls", "a signature with a result of another structure", "api",
     "load: a signature that does not fit is refused in words"},
    {ROW(call_bind_count), "The model", "bind or freeze with another number of modules", "api",
     "bind: structure is checked once, weights are read where they are"},
    {ROW(call_attribute), "The model", "a TorchScript attribute of another value", "api",
     "conditions: attributes of a TorchScript module"},
    {ROW(call_while_recording), "Capture", "an artifact called inside a recording", "api",
     "bad input: a loaded artifact called inside fn"},
    {ROW(call_gradient_type), "Gradients", "a gradient of another type than its parameter", "api",
     "bad input: a gradient that the call could not change"},
    {ROW(call_gradient_overlap), "Gradients", "a gradient whose elements share memory", "api",
     "bad input: a gradient that the call could not change"},
    {ROW(call_gradient_shared), "Gradients", "a gradient that shares memory with an argument", "api",
     "bad input: a gradient that the call could not change"},
    {ROW(call_condition), "Control flow, numbers and shapes", "another value than was read at capture", "api",
     "conditions: values read with item() are exact, and nothing has changed when they differ"},
};
#undef ROW

#define ROW(name) driver::PRECAST_CHECK_##name, #name
constexpr Check kDriverChecks[] = {
    {ROW(ARGUMENT_COUNT), "Calls", "another number of arguments", "runtime", "count and positions of the arguments"},
    {ROW(MODULE_POSITIONS), "Calls", "modules in other positions", "runtime", "count and positions of the arguments"},
    {ROW(LEAF_COUNT), "Calls", "another number of values in the arguments", "runtime",
     "count and positions of the arguments"},
    {ROW(STRUCTURE), "Calls", "arguments nested otherwise", "runtime", "structure: the first place that differs"},
    {ROW(KIND), "Calls", "a value of another kind", "runtime", "leaves: kind and value"},
    {ROW(VALUE), "Control flow, numbers and shapes", "another number, bool or string", "runtime",
     "leaves: kind and value"},
    {ROW(UNDEFINED), "Calls", "an undefined tensor", "runtime",
     "each property of a module tensor, at the check and at the call"},
    {ROW(DTYPE), "Dtype, device and layout", "another dtype", "runtime",
     "each property of a module tensor, at the check and at the call"},
    {ROW(DEVICE), "Dtype, device and layout", "another device", "runtime",
     "each property of a module tensor, at the check and at the call"},
    {ROW(STRIDED), "Inputs", "a tensor that is not strided", "runtime",
     "each property of a module tensor, at the check and at the call"},
    {ROW(SHAPE), "Control flow, numbers and shapes", "another shape", "runtime",
     "each property of a module tensor, at the check and at the call"},
    {ROW(EQUAL_SIZES), "Open sizes", "a size that another one decides", "runtime",
     "dynamic: sizes that must agree"},
    {ROW(BOUNDS), "Open sizes", "a size beyond its bounds", "runtime",
     "dynamic: bounds are checked before the layout"},
    {ROW(LAZY_BITS), "Dtype, device and layout", "another lazy conjugate or negative bit", "runtime",
     "each property of a module tensor, at the check and at the call"},
    {ROW(LAYOUT), "Dtype, device and layout", "another layout of what the graph reads", "runtime",
     "each property of a module tensor, at the check and at the call"},
    {ROW(POSSIBLE_SIZES), "Open sizes", "sizes for which the captured program makes no sense",
     "runtime", "dynamic: sizes that make no sense of the program"},
    {ROW(NAMES), "The model", "other names, another order or count of parameters and buffers", "runtime",
     "names and order of the modules"},
    {ROW(TIED), "The model", "two tensors where one was shared", "runtime", "tying, both ways"},
    {ROW(UNTIED), "The model", "one shared tensor where there were two", "runtime", "tying, both ways"},
    {ROW(SHARED_MEMORY), "Aliasing", "views of one tensor that lie otherwise", "runtime",
     "memory: tensors that were apart may not overlap, shared ones must share alike"},
    {ROW(SEPARATE_MEMORY), "Aliasing", "tensors that overlap and did not at capture, where it matters", "runtime",
     "memory: tensors that were apart may not overlap, shared ones must share alike"},
    {ROW(WRITABLE), "Effects", "a tensor to be written whose elements share memory", "runtime",
     "a tensor whose elements share memory cannot be written"},
};
#undef ROW

constexpr bool in_order(std::span<const Check> rows) {
  for (size_t i = 0; i < rows.size(); ++i)
    if (rows[i].number != static_cast<int>(i)) return false;
  return true;
}
static_assert(std::size(kChecks) == static_cast<size_t>(precast::Check::count) && in_order(kChecks),
              "each precast::Check needs a row, in order");
static_assert(std::size(kDriverChecks) == driver::PRECAST_CHECKS && in_order(kDriverChecks),
              "each precast_check needs a row, in order");

}  // namespace

std::span<const Check> checks() { return kChecks; }
std::span<const Check> driver_checks() { return kDriverChecks; }

}  // namespace precast::contract
