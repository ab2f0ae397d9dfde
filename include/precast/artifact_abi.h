/* The C interface between a compiled artifact and whoever runs it (the host).
 * A copy stands in every artifact, so this header includes nothing and only ever grows:
 * new fields go to the end of a struct, and `struct_size` tells what the other side knows. */
#ifndef PRECAST_ARTIFACT_ABI_H
#define PRECAST_ARTIFACT_ABI_H

#ifdef __cplusplus
extern "C" {
#endif

#define PRECAST_ABI_VERSION 1

typedef signed char precast_i8;
typedef unsigned char precast_u8;
typedef int precast_i32;
typedef unsigned int precast_u32;
typedef long long precast_i64;
typedef unsigned long long precast_u64;

/* precast_tensor.flags */
enum {
  PRECAST_CONJ = 1, /* lazy conjugate bit */
  PRECAST_NEG = 2,  /* lazy negative bit */
  PRECAST_REQUIRES_GRAD = 4,
  PRECAST_NOT_STRIDED = 8, /* sparse, nested, quantized, meta, ...: refused by name */
  PRECAST_UNDEFINED = 16,
  PRECAST_LAYOUT = 32 /* in a precast_tensor_spec: strides are checked even where the artifact is layout-flexible */
};

/* One tensor, described by who owns it. Sizes and strides count elements. */
typedef struct precast_tensor {
  void* data; /* first element */
  const precast_i64* sizes;
  const precast_i64* strides;
  const void* identity; /* equal for the same tensor object */
  void* handle;         /* the host's own */
  precast_i32 ndim;
  precast_i32 dtype;       /* numbers of c10::ScalarType */
  precast_i32 device_type; /* numbers of c10::DeviceType: 0 is the CPU */
  precast_i32 device_index;
  precast_u32 flags;
  precast_u32 reserved;
} precast_tensor;

/* One entry of a module's named_parameters() or named_buffers(), duplicates kept. */
typedef struct precast_named {
  const char* name;
  precast_i32 module; /* index among the module arguments */
  precast_i32 is_buffer;
  precast_tensor tensor;
} precast_named;

enum {
  PRECAST_NONE = 0,
  PRECAST_BOOL = 1,
  PRECAST_INT = 2,
  PRECAST_DOUBLE = 3,
  PRECAST_STRING = 4,
  PRECAST_TENSOR = 5
};

/* One leaf of the user's (non-module) arguments, in depth-first order. */
typedef struct precast_leaf {
  precast_i32 kind;
  precast_i32 length; /* of `s` */
  precast_i64 i;      /* BOOL, INT */
  double d;
  const char* s;
  precast_tensor t;
} precast_leaf;

enum {
  PRECAST_OK = 0,
  PRECAST_CONTRACT = 1 /* the caller broke the contract */,
  PRECAST_RUN = 2 /* the computation failed */,
  PRECAST_INTERNAL = 3,
  PRECAST_HOST = 4 /* a host callback failed and keeps its own reason */
};

/* What a host offers. Every callback may be called from the calling thread only, unless it says otherwise. */
typedef struct precast_host {
  precast_u32 abi_version, struct_size;
  precast_u64 features;
  void* context;
  /* Makes a new tensor (dtype, device, sizes, strides are set; fill data and handle). 0 on success. */
  int (*allocate)(void* context, precast_tensor* t);
  /* Runs fn(arg, begin, end) over disjoint pieces that cover [0, count), on any threads; returns when all are done. */
  void (*parallel_for)(void* context, precast_i64 count, precast_i64 grain,
                       void (*fn)(void* arg, precast_i64 begin, precast_i64 end), void* arg);
  /* Runs host op `index` (its text: metadata HOST_OPS) for these values of the symbols. `in` points at each input's
   * first element, laid out as the text says; set `out` likewise: memory stays the host's and lives until the call
   * ends. 0 on success. Index -1 runs the whole graph (artifacts without kernels): in[i] is the `const precast_tensor*`
   * that graph input i comes from (add its offset_bytes), out[i] the `precast_tensor*` of graph output i, which the
   * host fills. */
  int (*host_op)(void* context, precast_i32 index, const precast_i64* symbols, void* const* in, void** out);
  /* Keeps the message of the failure about to be returned. */
  void (*fail)(void* context, precast_i32 kind, const char* message);
  precast_i32 num_threads;
  precast_i32 reserved;
} precast_host;

/* ---- Tables: the calling convention of one artifact, built from its metadata ---- */

/* A size that only a call knows: size `dim` of user leaf `leaf`. */
typedef struct precast_symbol_spec {
  const char* name;     /* "u0" */
  precast_i64 min, max; /* both included; max 2^63-1: none */
  precast_i32 leaf, dim;
} precast_symbol_spec;

enum {
  PRECAST_CONSTANT, /* a */
  PRECAST_ADD,
  PRECAST_MULTIPLY,
  PRECAST_FLOOR_DIV, /* rounded down; MOD has the sign of the divisor */
  PRECAST_MOD,
  PRECAST_MAX,
  PRECAST_MIN
};

/* The numbers of a call are the values of the symbols, then one for each of these: `op` of the numbers a and b, which
 * stand before it. */
typedef struct precast_number_spec {
  const char* text; /* "2*u0+1"; 0: a part of others only */
  precast_i64 a, b;
  precast_i32 op, reserved;
} precast_number_spec;

typedef struct precast_tensor_spec {
  const char* name;
  const precast_i64* sizes; /* below 0: number -1 - n of the call */
  const precast_i64* strides;
  precast_i32 ndim, dtype, device_type, device_index;
  precast_i32 read;  /* the graph reads or writes it: its layout counts */
  precast_u32 flags; /* CONJ, NEG as captured */
} precast_tensor_spec;

typedef struct precast_slot_spec { /* un-interned module entry; `tensor` indexes params then buffers */
  const char* name;
  precast_i32 module, is_buffer, tensor, reserved;
} precast_slot_spec;

typedef struct precast_leaf_spec { /* expected user leaf; numbers and strings are conditions */
  precast_i32 kind, length;
  precast_i64 i;
  double d;
  const char* s;
  precast_tensor_spec t;
} precast_leaf_spec;

/* A "source" is a tensor the caller passes: params, then buffers, then user leaves that are tensors, each counted
 * through: source < n_params + n_buffers indexes the interned module tensors, the rest user tensors in leaf order. */
typedef struct precast_input_spec {
  precast_i32 source, reserved;
  precast_i64 offset_bytes;
} precast_input_spec;
/* data(b) - data(a) must equal delta_bytes (shared != 0), or their memory must not overlap (shared == 0). */
typedef struct precast_alias_spec {
  precast_i32 a, b, shared, reserved;
  precast_i64 delta_bytes;
} precast_alias_spec;
typedef struct precast_write_spec {
  precast_i32 source, output;
} precast_write_spec; /* copy output's bytes over source */

typedef struct precast_spec {
  precast_u32 struct_size;
  precast_i32 layout_strict; /* inductor: strides of tensors with `read` are checked */
  precast_i32 n_positional;  /* arguments fn took, modules included */
  precast_i32 n_modules;
  const precast_i32* module_positions;
  precast_i32 n_params, n_buffers;
  const precast_tensor_spec* tensors; /* params then buffers, interned */
  precast_i32 n_slots, n_leaves;
  const precast_slot_spec* slots; /* all modules' params (module by module), then all modules' buffers */
  const char* in_spec;            /* 0: not checked */
  const precast_leaf_spec* leaves;
  precast_i32 n_inputs, n_aliases;
  const precast_input_spec* inputs; /* graph inputs */
  const precast_alias_spec* aliases;
  precast_i32 n_outputs, n_writes;
  const precast_tensor_spec* outputs; /* graph outputs; allocated by the host */
  const precast_write_spec* writes;   /* applied last, when nothing can fail any more */
  precast_i32 n_symbols, n_numbers;   /* n_numbers: the symbols and what is computed of them */
  const precast_symbol_spec* symbols; /* in the order of the graph */
  const precast_number_spec* numbers; /* n_numbers - n_symbols */
  precast_i32 n_constraints, n_slots_of_arena;
  const precast_i32* constraints;    /* numbers that must not be negative */
  const precast_i32* slots_of_arena; /* numbers: bytes of more arena behind scratch memory, each rounded up to 64 */
  precast_i32 n_call_numbers;        /* in precast_call.numbers: numbers, then sizes and strides of each output */
  precast_i32 reserved;
} precast_spec;

/* ---- One call ---- */

typedef struct precast_call {
  precast_i32 n_positional, n_modules;
  const precast_i32* module_positions;
  const char* in_spec; /* structure of the user arguments as the caller passes them */
  precast_i32 n_leaves;
  precast_i32 n_bound; /* params + buffers */
  const precast_leaf* leaves;
  const precast_tensor* bound; /* interned tensors from check_modules, refreshed by the host */
  char* arena;                 /* arena_bytes, 64-byte aligned, may hold anything */
  char* prepared;              /* prepared_bytes: filled by prepare (frozen) or 0: prepare in the arena */
  precast_tensor* outputs;     /* n_outputs, filled through host->allocate */
  precast_i64* numbers;        /* n_call_numbers, filled; sizes and strides of outputs point into it */
  /* With slots_of_arena, another arena of so many bytes until the call ends; 0 where there is no memory. */
  char* (*take_arena)(void* arena_context, precast_i64 bytes);
  void* arena_context;
} precast_call;

/* What kernels get: the graph's inputs and outputs in order, scratch memory, packed weights. */
typedef struct precast_frame {
  const precast_host* host;
  void* const* in;
  void* const* out;
  char* arena;
  char* prepared;
  const precast_i64* sizes; /* values of the graph's symbols, in order */
} precast_frame;

typedef struct precast_artifact {
  precast_u32 abi_version, struct_size;
  precast_u64 features;
  const char* metadata; /* JSON */
  const char* graph;    /* text of the recorded graph */
  const precast_spec* spec;
  const char* isa;                         /* the section chosen on this CPU */
  precast_i64 arena_bytes, prepared_bytes; /* arena_bytes: without slots_of_arena */
  /* Checks a model against the spec; slot_of[t] becomes the index in `entries` of interned tensor t (n_params +
   * n_buffers). */
  int (*check_modules)(const precast_host*, const precast_named* entries, precast_i32 n_entries, precast_i32* slot_of);
  /* Runs what depends on params and buffers only (packing, folding) into `prepared`. */
  int (*prepare)(const precast_host*, const precast_call*, char* prepared);
  /* Checks, allocates outputs, computes, then writes back. On failure nothing has changed. */
  int (*call)(const precast_host*, const precast_call*);
} precast_artifact;

/* The one exported symbol (its name is an option): precast_model. */
typedef const precast_artifact* (*precast_entry)(void);

#ifdef __cplusplus
}
#endif
#endif
