// Kernels of attention whose scores are in memory (kernels/unfused_attention.h); the products
// between them are the backend's.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "kernels/operations/attention.h"

namespace weft::cuda::attention {

// The scores of some queries and heads of one sample, fp32. The head `first_head + i` and the query
// `first_query + r` have their row at i * head_stride + r * row_stride; its first num_keys()
// columns are used. Both strides are multiples of 4.
struct ScoreBlock {
  float* scores = nullptr;
  float* gradients = nullptr;  // backward only, arranged as scores
  int64_t row_stride = 0, head_stride = 0;
  int sample = 0, first_head = 0, num_heads = 0, first_query = 0, num_queries = 0;
  int first_position = 0;  // the first query's, among the keys
  // The last query sees the most keys.
  __host__ __device__ int num_keys() const { return first_position + num_queries; }
};

// Draws dropout's bits into args.dropout_mask.
void draw_kept(cudaStream_t stream, const AttentionForward& args);

// Replaces q k^T by the probabilities that multiply v: numbers of x that begin where their row
// began. They are 0 where the query does not see the key or dropout drops it; dropout's factor is
// missing. Writes lse.
void softmax_forward(cudaStream_t stream, const AttentionForward& args, const ScoreBlock& block);

// Replaces q k^T by forward's probabilities, and the gradients dout v^T by those of the scores
// after the scale, both in the same way as softmax_forward.
void softmax_backward(cudaStream_t stream, const AttentionBackward& args, const ScoreBlock& block);

// Some heads of one sample as matrices (num_heads,T,columns): D rounded up to a multiple of 8.
// Matrix i is that of head (first_head + i) / shared_by.
struct HeadMatrices {
  int64_t sample = 0, first_head = 0, num_heads = 0, columns = 0;
  int shared_by = 1;
};
// packed = those of `vectors`, with zeros from D on. Both are of the vectors' type.
void pack_heads(cudaStream_t stream, void* packed, const HeadVectors& vectors,
                const HeadMatrices& matrices);
// The inverse: vectors = sums, which are fp32, times a factor, rounded; shared_by is 1.
void store_heads(cudaStream_t stream, const HeadVectors& vectors, const float* sums,
                 const HeadMatrices& matrices, float factor);

}  // namespace weft::cuda::attention
