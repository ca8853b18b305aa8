// Causal self-attention on the GPU, never materialising the scores [Dao 2023, arXiv:2307.08691].
//
// qkv and dqkv (B,T,H,3,D) x hold query, key and value of a token and head side by side; out and
// dout are (B,T,H,D) x; lse (B,H,T) fp32 is log(sum over keys of exp(scale * q.k)), the natural
// logarithm. All are contiguous and 16-byte aligned. D is 64, 96 or 128, T at least 1, and x is
// kFloat32 or kBFloat16; anything else throws std::invalid_argument.
//
// bf16 runs on the tensor cores with fp32 sums and softmax; fp32 is plain fp32 arithmetic, meant
// for exactness, not speed. Everything is enqueued on `stream`. Equal calls give equal bits: no sum
// depends on the order in which blocks run. Failed launches throw std::runtime_error.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

#include "kernels/backend.h"
#include "kernels/tensor.h"

namespace weft::cuda {

// Returns the bytes of device memory that both directions need for scratch; it may be 0.
int64_t attention_workspace_bytes(int64_t B, int64_t T, int64_t H, int64_t D, DType x);

// `workspace` is device memory of at least attention_workspace_bytes(), 256-byte aligned; its
// content is overwritten.
void attention_forward(cudaStream_t stream, void* out, float* lse, const void* qkv, DType x,
                       int64_t B, int64_t T, int64_t H, int64_t D, float scale,
                       const Dropout& dropout, void* workspace, int64_t workspace_bytes);

void attention_backward(cudaStream_t stream, void* dqkv, const void* dout, const void* out,
                        const float* lse, const void* qkv, DType x, int64_t B, int64_t T, int64_t H,
                        int64_t D, float scale, const Dropout& dropout, void* workspace,
                        int64_t workspace_bytes);

}  // namespace weft::cuda
