// Attention for head sizes that have no flash kernels: products by cuBLASLt, and scores in memory.
//
// A block is some queries of some heads of a sample (kernels/unfused_attention.h). Its products are
// a batch over heads:
//   forward   S = Q K^T,  P = softmax(S),  O = P V
//   backward  S = Q K^T,  dP = dO V^T,  P and dS from them,  dV += P^T dO,  dK += dS^T Q,  dQ = dS K
// Sums are fp32 until they are stored. Equal calls give equal bits: blocks follow each other in one
// order, and each product has the one algorithm that the heuristic puts first, since tune() does
// not time these.
#pragma once

#include <cuda_runtime_api.h>

#include "kernels/cuda/gemm/gemm.h"
#include "kernels/operations/attention.h"

namespace weft::cuda {

// `scratch` is device memory of unfused_scratch(), 256-byte aligned.
void unfused_attention_forward(cudaStream_t stream, Gemm& gemm, const AttentionForward& args,
                               void* scratch);
void unfused_attention_backward(cudaStream_t stream, Gemm& gemm, const AttentionBackward& args,
                                void* scratch);

}  // namespace weft::cuda
