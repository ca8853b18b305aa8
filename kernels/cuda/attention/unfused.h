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
  // The last query sees the most keys.
  __host__ __device__ int num_keys() const { return first_query + num_queries; }
};

// Draws dropout's bits into args.kept.
void draw_kept(cudaStream_t stream, const AttentionForward& args);

// Replaces q k^T by the probabilities that multiply v: numbers of x that begin where their row
// began. They are 0 where the query does not see the key or dropout drops it; dropout's factor is
// missing. Writes lse.
void softmax_forward(cudaStream_t stream, const AttentionForward& args, const ScoreBlock& block);

// Replaces q k^T by forward's probabilities, and the gradients dout v^T by those of the scores
// after the scale, both in the same way as softmax_forward.
void softmax_backward(cudaStream_t stream, const AttentionBackward& args, const ScoreBlock& block);

// Runs of D numbers that lie side by side in rows `row_stride` apart, such as queries, keys and
// values of heads.
struct Runs {
  int64_t num_rows = 0, num_runs = 0, row_stride = 0, D = 0;
  int64_t columns = 0;  // D rounded up to a multiple of 8
};
// packed (num_runs,num_rows,columns) = the runs, with zeros from D on. Both are x.
void pack_runs(cudaStream_t stream, void* packed, const void* rows, const Runs& runs, DType x);
// The inverse: rows = sums (num_runs,num_rows,columns) fp32 times a factor, rounded to x. Run i has
// the factor i % 3.
struct RunFactors {
  float factor[3] = {1.0F, 1.0F, 1.0F};
};
void store_runs(cudaStream_t stream, void* rows, const float* sums, const Runs& runs,
                const RunFactors& factors, DType x);

}  // namespace weft::cuda::attention
