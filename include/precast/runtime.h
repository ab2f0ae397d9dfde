/** @file
 * Runs precast artifacts in programs without LibTorch: a small C interface.
 *
 *     precast_runnable* model;
 *     if (precast_load("m.cpp", "m.cache", &model)) puts(precast_last_error());
 *     precast_binding* weights;                                  // the model's parameters and buffers
 *     precast_bind_file(model, "m.safetensors", &weights);       // or precast_bind, for weights in your own memory
 *     precast_outputs* out;
 *     precast_call_model(weights, leaves, n_leaves, NULL, &out); // any thread, re-entrant
 *     const precast_leaf* y = precast_output(out, 0);
 *     precast_free_outputs(out); precast_free_binding(weights); precast_free_runnable(model);
 *
 * Functions that can fail return a PRECAST_* code, 0 on success; precast_last_error() then says why (of the calling
 * thread). Tensors are on the CPU; sizes and strides count elements; data stays the caller's.
 * Both files of a pair are executable input: load only what you trust.
 */
#ifndef PRECAST_RUNTIME_H
#define PRECAST_RUNTIME_H

#include "precast/artifact_abi.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct precast_runnable precast_runnable; /**< a loaded artifact */
typedef struct precast_binding precast_binding;   /**< an artifact with the weights it reads */
typedef struct precast_outputs precast_outputs;   /**< results of one call */

/** Loads a pair of files. */
int precast_load(const char* artifact_path, const char* cache_path, precast_runnable** model);
/** Runs host ops, and whole graphs of artifacts without kernels: see precast_host.host_op. */
typedef struct precast_host_ops {
  void* context;
  int (*run)(void* context, precast_i32 index, const precast_i64* symbols, void* const* in, void** out);
  const char* (*last_error)(void); /**< why run() failed, on the thread that called it */
} precast_host_ops;
/** Like precast_load, for artifacts that need host ops; `ops` may be NULL, and must outlive the model's calls. */
int precast_load_with(const char* artifact_path, const char* cache_path, const precast_host_ops* ops,
                      precast_runnable** model);
/** Uses an artifact that is linked into the program; `entry` is its exported symbol. */
int precast_link(precast_entry entry, precast_runnable** model);
void precast_free_runnable(precast_runnable* model);

/** The artifact's metadata as JSON (names, shapes, structures); lives as long as the model. */
const char* precast_metadata(const precast_runnable* model);
/** Number of user leaves and what leaf `i` is expected to be (tensor: dtype, sizes, strides, below 0 where they
 * vary from call to call; number: its value). */
int precast_num_leaves(const precast_runnable* model);
const precast_leaf_spec* precast_expected_leaf(const precast_runnable* model, int i);

/** Checks the parameters and buffers of all modules, in named_parameters() then named_buffers() order, tied ones
 * repeated with the same identity. Tensor data must live as long as the binding; it is read in place. */
int precast_bind(const precast_runnable* model, const precast_named* entries, int n_entries, precast_binding** binding);
/** The same with weights from a .safetensors file (`precast weights` writes one). The binding owns their memory: calls
 * that write to weights change that memory, not the file. NULL or an empty path is for artifacts without weights. */
int precast_bind_file(const precast_runnable* model, const char* weights_path, precast_binding** binding);
/** The same with zeros, for a program that fills them in itself (through precast_weight) before it calls. */
int precast_bind_zeros(const precast_runnable* model, precast_binding** binding);
/** The weights of precast_bind_file or precast_bind_zeros: parameters, then buffers, each once, by the names that
 * artifacts use. NULL where `i` is none of them, or the weights are the caller's (precast_bind). */
int precast_num_weights(const precast_binding* binding);
const precast_named* precast_weight(const precast_binding* binding, int i);
/** Writes these weights, as they are now, to a .safetensors file. */
int precast_save_weights(const precast_binding* binding, const char* path);
void precast_free_binding(precast_binding* binding);

/** Calls the artifact. `in_spec` is the structure of the user arguments; NULL takes the expected one. */
int precast_call_model(const precast_binding* binding, const precast_leaf* leaves, int n_leaves, const char* in_spec,
                       precast_outputs** outputs);
/** Leaves of the result in OUT_SPEC order; tensors live until precast_free_outputs, or belong to the caller's inputs.
 */
int precast_num_outputs(const precast_outputs* outputs);
const precast_leaf* precast_output(const precast_outputs* outputs, int i);
/** Gradients that the call made: `name` is the parameter's, to be added to its .grad (or to replace it). */
int precast_num_gradients(const precast_outputs* outputs);
const precast_named* precast_gradient(const precast_outputs* outputs, int i, int* accumulate);
void precast_free_outputs(precast_outputs* outputs);

/** Why the last call on this thread failed. */
const char* precast_last_error(void);
/** Replaces the sink of warnings (default: stderr); NULL restores it. */
void precast_on_warning(void (*sink)(const char* message, void* context), void* context);

#ifdef __cplusplus
}
#endif
#endif
