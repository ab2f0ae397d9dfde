// The checks of the programming model: what a capture, a load or a call refuses, one name each. Those of a call's
// arguments stand in the driver (artifact/driver/). A test build (PRECAST_MUTATION) can switch one off by
// PRECAST_MUTATE, to see that some test notices: `make mutate`.
#pragma once
#include <string>

namespace precast {

enum class Check : int {
  // Capture
  capture_spent,
  capture_second_call,
  capture_no_call,
  capture_failed_call,
  capture_nested,
  one_rank_absent,
  one_rank_disagrees,
  one_rank_failed,
  // What is passed to a recording
  input_kind,
  input_zero_tensor,
  input_overlap,
  // What the function does to it, unseen by any op
  input_rebound,
  input_geometry,
  input_requires_grad,
  input_memory,
  input_raw_write,
  module_changed,
  // What a backend is asked for
  inductor_no_compute,
  inductor_result,
  backend_graph,
  decomposition_count,
  decomposition_kind,
  // Tensors that ops read
  read_closed_over,
  read_literal,
  read_partly_written,
  read_closed_over_view,
  read_outside_argument,
  read_replaced_memory,
  read_gradient,
  read_others_gradient,
  // Ops
  op_operand_kind,
  op_result_kind,
  op_argument_form,
  op_result_form,
  op_generator,
  op_overlap,
  op_gives_memory,
  op_resizes_input,
  op_resizes_output,
  op_storage_offset,
  op_values,
  // Open sizes
  dynamic_mark,
  dynamic_mark_inside,
  dynamic_layout,
  dynamic_bounds,
  dynamic_group,
  dynamic_alias,
  dynamic_guard,
  dynamic_op,
  dynamic_eager,
  // Effects that no op shows
  raw_access,
  raw_write,
  foreign_thread,
  random_state,
  // What a call leaves behind
  result_kind,
  gradient_kind,
  gradient_of_argument,
  gradient_shares_memory,
  gradient_bound_to_input,
  escaped_state,
  verify_runs,
  verify_random,
  verify_values,
  // Load
  load_backend,
  load_tracer,
  load_code_hash,
  load_signature_count,
  load_signature_modules,
  load_signature_argument,
  load_signature_result,
  // A call, besides the driver's
  call_bind_count,
  call_attribute,
  call_while_recording,
  call_gradient_type,
  call_gradient_overlap,
  call_gradient_shared,
  call_condition,

  count
};

/// Throws PrecompileError; returns only where a test build has switched the check off.
void refuse(Check, const std::string& message);
/// True, but for the check that a test build has switched off.
bool is_on(Check);

}  // namespace precast
