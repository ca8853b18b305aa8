// Host functions of this folder's .cu files that other rooms call: parts of operations. The
// operations themselves are cuda::run() of kernels/operations.
//
// A function enqueues its kernels on `stream` and returns. Pointers are device pointers, 16-byte
// aligned; `x` is the type of every `void*`. Shapes are as in kernels/backend.h; C is a multiple of
// 8. `scratch` holds at least the bytes of kernels/cuda_scratch.h. The order of every sum depends
// on the shape and the GPU model only, never on timing: there are no floating-point atomics.
#pragma once

#include <cuda_runtime_api.h>

#include "kernels/numbers/tensor.h"
#include "kernels/operations/activation.h"

namespace weft::cuda {

// --- elementwise.cu ---
// Fills n elements with numbers in [-1, 1): operands for measurements.
void fill_random(cudaStream_t stream, void* data, DType type, int64_t n);
// dpre *= activation'(pre), in place.
void activation_backward(cudaStream_t stream, void* dpre, const void* pre, DType x, int64_t n,
                         Activation activation);

// --- few_rows.cu: linear layers of so few rows that reading the weight is all their time ---
bool has_few_rows(int64_t num_rows, int64_t num_inputs);
struct FewRowsProduct {
  void* out;                      // (N,O): inp * weight^T + bias
  void* activated_out = nullptr;  // (N,O): its activation, or null
  const void *inp, *weight;       // (N,I), (O,I)
  const void* bias;               // (O), or null
  DType dtype;
  int64_t num_rows, num_outputs, num_inputs;
  Activation activation = Activation::kGeluTanh;
};
void few_rows_product(cudaStream_t stream, const FewRowsProduct& op);

// --- reduce.cu ---
// Up to three rows of sums that lie side by side in the partial sums.
struct SumTargets {
  float *first, *second = nullptr, *third = nullptr;
};
// first[c] (+)= sum over rows i of partials[i * stride + c], for c < num_columns, in fp32; second
// and third get the sums of the next num_columns columns and of those after them.
void sum_partials(cudaStream_t stream, const SumTargets& targets, const float* partials,
                  int64_t num_rows, int64_t stride, int64_t num_columns, bool accumulate);
// out[c] (+)= sum of column c over the N rows of inp (N,O), with column_sums_scratch_bytes().
void column_sums(cudaStream_t stream, float* out, const void* inp, DType x, int64_t N, int64_t O,
                 bool accumulate, void* scratch);

// --- embedding.cu ---
// Adds the rows of dout (N,C) to the rows of dtable (num_positions,C) that their positions in their
// documents name, with embedding_backward_scratch_bytes(). Row n is row first_row + n of samples of
// `period` rows; document_bounds are as in AttentionForward.
void document_positions_backward(cudaStream_t stream, float* dtable, const void* dout,
                                 const int32_t* document_bounds, DType x, int64_t N, int64_t C,
                                 int64_t period, int64_t first_row, int64_t num_positions,
                                 void* scratch);

// --- sort.cu: stable sort of n (key, value) pairs by the low `num_bits` bits of the key ---
void sort_pairs(cudaStream_t stream, uint32_t* sorted_keys, uint32_t* sorted_values,
                const uint32_t* keys, const uint32_t* values, int64_t n, int num_bits,
                void* scratch, int64_t scratch_bytes);

}  // namespace weft::cuda
