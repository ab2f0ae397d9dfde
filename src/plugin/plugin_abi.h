/* The C interface between the `precast` program, which knows nothing of LibTorch, and libprecast_torch_plugin.so, which
 * brings it. Only plain data crosses. Functions return 0, or 1 with the reason in last_error() (of the calling thread).
 */
#ifndef PRECAST_PLUGIN_ABI_H
#define PRECAST_PLUGIN_ABI_H

#include "precast/artifact_abi.h"

#ifdef __cplusplus
extern "C" {
#endif

#define PRECAST_PLUGIN_VERSION 1
#define PRECAST_PLUGIN_FILE "libprecast_torch_plugin.so"
#define PRECAST_PLUGIN_ENTRY "precast_torch_plugin"

/* A method of a TorchScript file, or of a module inside it. */
typedef struct precast_callable {
  const char* file;
  const char* submodule; /* "encoder.layers.0"; "" is the whole model */
  const char* method;    /* "forward" */
  precast_i32 train;     /* 0: eval mode, 1: training mode */
} precast_callable;

/* A size of an input that is left open. */
typedef struct precast_open_size {
  precast_i32 input, dim;
  precast_i64 min, max; /* both included; max -1: none */
} precast_open_size;

typedef struct precast_capture_request {
  precast_callable callable;
  const precast_leaf* inputs; /* one an argument, in order */
  precast_i32 n_inputs;
  const precast_open_size* open_sizes;
  precast_i32 n_open_sizes;
  const char* backend; /* "inductor", "eager" */
  const char* symbol;
  const char* const* isa;
  precast_i32 n_isa;
  precast_i32 verify;
  const char* artifact_path;
  const char* cache_path;
} precast_capture_request;

typedef struct precast_check_request {
  precast_callable callable;
  const precast_leaf* inputs;
  precast_i32 n_inputs;
  const char* artifact_path;
  const char* cache_path;
  double relative, absolute; /* tolerance of floating point values; others must be equal */
} precast_check_request;

/* One thing `check` compared: an output, a written input or buffer. */
typedef struct precast_check_row {
  const char* what;  /* "result[0]", "buffer 'bn.running_mean'" */
  const char* type;  /* "f32[1,10]" */
  double difference; /* largest |a - b|; infinity when one of them alone is NaN */
  precast_i32 equal; /* within the tolerance, and of one type, layout and aliasing */
  const char* why;   /* when not equal */
} precast_check_row;

typedef struct precast_plugin {
  precast_u32 abi_version, struct_size;
  const char* torch_version;
  const char* (*last_error)(void);

  int (*capture)(const precast_capture_request*);

  /* Writes parameters, buffers and lifted constants to a .safetensors file, by the names artifacts use. */
  int (*weights)(const precast_callable*, const char* out_path, precast_i32* n_tensors);

  /* Runs the callable and the pair on the same inputs. `row` is called for each thing compared. */
  int (*check)(const precast_check_request*, void (*row)(void* context, const precast_check_row*), void* context);

  /* A context for precast_host_ops.run: host ops of an artifact, or its whole graph, in LibTorch. What it makes lives
   * until it is closed. NULL on failure. */
  void* (*open_host_ops)(const char* artifact_path);
  int (*host_op)(void* context, precast_i32 index, const precast_i64* symbols, void* const* in, void** out);
  void (*close_host_ops)(void* context);
} precast_plugin;

typedef const precast_plugin* (*precast_plugin_entry)(void);

#ifdef __cplusplus
}
#endif
#endif
