// Matrix products as kernels with any prologue and epilogue: C[b,m,n] = sum over k of A[b,m,k] * B[b,k,n].
// b, m and k may each run over several variables (as the windows of a convolution do): M = {8, 56, 56} are 25088 rows,
// and an operand has a stride for each variable. The algorithm (register tiles, packing, threads) is preamble text
// shared by all products of a section; the text made here is a struct of sizes and accessors. Results do not depend on
// the number of threads. Where a size or a stride depends on symbols the text is another (gemm_sized.h).
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "ir/choices.h"
#include "ir/type.h"

namespace precast::emit {

/// A or B. Element (b, i, k), where i is the row m of A or the column n of B, is either read through strides or
/// computed by text.
template <class Int>
struct GemmOperandOf {
  std::string pointer;               // expression of the kernel's params: address of element (0, 0, 0)
  ir::Dtype dtype = ir::Dtype::f32;  // in memory
  /// Elements, one for each variable of the spec (B's i is the one variable n). They may be negative. Batch strides
  /// that are all 0 say: the same for every b.
  std::vector<Int> batch_strides, i_strides, k_strides;

  /// When not empty: function body that returns W elements (vec<f32, W>, or f64 if so accumulated) from (b, i, k) on,
  /// along k or along i. May name b, i, k (i64, counted over all variables), W, len (valid lanes; others may hold
  /// anything but must not be read from memory), and the params.
  std::string fetch;
  bool along_k = true;

  /// B only: `pointer` (const f32* or const f64*) holds what gemm_pack()'s kernel wrote.
  bool packed = false;
};

struct GemmParam {
  std::string type, name;  // {"const f32*", "p0"}; not one of the names a b k m n i batch M N K T W len acc done
};

template <class Int>
struct GemmSpecOf {
  std::string name;               // of the kernel, and prefix of all it defines
  std::vector<GemmParam> params;  // visible in every text of the spec
  std::vector<Int> batch, M, K;   // sizes of the variables, outermost first; empty: one element
  Int N = 1;
  ir::Dtype dtype = ir::Dtype::f32;  // of the accumulator: f32 (f16, bf16 too) or f64
  GemmOperandOf<Int> a, b;
  /// Statements that consume `acc`, W elements from (b, m, n) on, along n or, with `along_m`, along the innermost
  /// variable of M. May name b, m, n (i64, counted over all variables), W, len (valid lanes), acc and the params.
  /// K = 0 gives zeros.
  std::string epilogue;
  bool along_m = false;
  ir::Choices::Packing packing = ir::Choices::Packing::by_size;  // of B, where it may be read as it lies
  /// Of which sizes and strides are expressions. Their values stand in a param `const i64* S`, in this order.
  std::vector<ir::Symbol> symbols{};
};
using GemmOperand = GemmOperandOf<ir::Size>;
using GemmSpec = GemmSpecOf<ir::Size>;

/// Defines `void NAME(const precast_host*, char* workspace, params...)`; workspace holds
/// gemm_workspace_bytes(spec) bytes, 64-byte aligned, and its content does not outlive the call.
std::string gemm_kernel(const GemmSpec&);
ir::Size gemm_workspace_bytes(const GemmSpec&);

/// Defines `void NAME_pack(const precast_host*, T* packed, params...)`, which packs B (b.packed is ignored here) into
/// gemm_packed_bytes(spec) bytes, for a kernel with b.packed. Only what B's text needs is read.
std::string gemm_pack(const GemmSpec&);
/// Whether the kernel of this spec packs B itself.
bool gemm_packs_b(const GemmSpec&);
ir::Size gemm_packed_bytes(const GemmSpec&);
/// Whether sizes or strides of the product depend on symbols. Such a kernel packs B in each call.
bool gemm_is_sized(const GemmSpec&);

/// "x / 12 % 3": the value of one of several variables, outermost first, from their common count.
std::string digit(const std::string& x, const ir::Dims& sizes, size_t variable);

}  // namespace precast::emit
