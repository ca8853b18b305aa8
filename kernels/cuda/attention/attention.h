// Flash attention on the GPU, never materialising the scores [Dao 2023, arXiv:2307.08691].
//
// The arguments are those of kernels/operations/attention.h, all 16-byte aligned. A type or D
// without has_flash_attention() throws std::invalid_argument; D of 64, 96 and 128 are fastest. The
// tensor cores multiply, with fp32 sums and softmax. Everything is enqueued on `stream`. Equal
// calls give equal bits: no sum depends on the order in which blocks run. Failed launches throw
// DeviceLost.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

#include "kernels/numbers/tensor.h"
#include "kernels/operations/attention.h"

namespace weft::cuda {

// Blocks draw their work from `tile_counter`, in device memory, which is 0 before and after: calls
// that share it must be on one stream.
void attention_forward(cudaStream_t stream, const AttentionForward& args, uint32_t* tile_counter);
// Queries and keys are equally many here, and dqkv has a key and a value for each head of queries.
// `workspace` is device memory of what the operation takes (kernels/cuda_scratch.h), 256-byte
// aligned; its content is overwritten.
void attention_backward(cudaStream_t stream, const AttentionBackward& args, void* workspace);

}  // namespace weft::cuda
