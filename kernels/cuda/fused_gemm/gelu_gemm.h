// The products around GELU on Hopper: fc1 with GELU after it, and the gradient of fc2's input with
// GELU's derivative and the sums of fc1's bias gradient after it.
//
// In cuBLASLt's epilogues the tensor cores wait while GELU is computed, and a kernel of its own
// reads and writes the results once more. Here warps that do not multiply compute it for one tile
// of the results while the next one is multiplied.
//
// Blocks draw tiles from a counter in device memory, `tile_counter`. It is 0 before a product and
// after it; products that may run at the same time need one each.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "kernels/numbers/tensor.h"

namespace weft::cuda {

// out (M,N) of a product with K terms each.
struct GemmSizes {
  int64_t M = 0, N = 0, K = 0;
};

// Returns whether the current device and these sizes have such products: a Hopper GPU, 16-bit
// types, N and K multiples of 8, and K of at least 256.
bool has_gelu_gemms(DType x, const GemmSizes& sizes);

// pre (M,N) = inp (M,K) * weight (N,K)^T + bias (N), rounded; out (M,N) = gelu_tanh(pre), with the
// bits of gelu_forward. All are of type x, at multiples of 16 bytes. Needs has_gelu_gemms.
// Throws DeviceLost.
struct GeluGemm {
  void *out = nullptr, *pre = nullptr;
  const void *inp = nullptr, *weight = nullptr, *bias = nullptr;
  uint32_t* tile_counter = nullptr;
};
void gelu_gemm(cudaStream_t stream, const GeluGemm& args, DType x, const GemmSizes& sizes);

// dpre (M,N) = dout (M,K) * weight (K,N), rounded, * gelu_tanh'(pre), and
// column_sums (num_sum_rows(M), N) fp32 (kernels/cuda_scratch.h): row i has the sums of dpre's
// columns over rows [128 i, 128 i + 128). Needs has_gelu_gemms. Throws DeviceLost.
struct GeluGemmBackward {
  void* dpre = nullptr;
  float* column_sums = nullptr;  // may be null
  const void *dout = nullptr, *weight = nullptr, *pre = nullptr;
  uint32_t* tile_counter = nullptr;
};
void gelu_gemm_backward(cudaStream_t stream, const GeluGemmBackward& args, DType x,
                        const GemmSizes& sizes);

}  // namespace weft::cuda
