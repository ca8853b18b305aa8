// The host functions of the .cu files, one per operation. Each enqueues its kernels on `stream` and
// returns.
//
// Pointers are device pointers, 16-byte aligned; `x` is the type of every `void*`. Shapes are as in
// kernels/backend.h; C and Vp are multiples of 8 (the backend checks that). `scratch` holds at least
// the bytes that the *_scratch_bytes function beside it returns. The order of every sum depends on the
// shape and the GPU model only, never on timing: there are no floating-point atomics.
#pragma once

#include <cuda_runtime_api.h>

#include "kernels/backend.h"

namespace weft::cuda {

// --- elementwise.cu ---
void cast(cudaStream_t stream, void* dst, DType dst_type, const void* src, DType src_type,
          int64_t n);
// Fills n elements with numbers in [-1, 1): operands for measurements.
void fill_random(cudaStream_t stream, void* data, DType type, int64_t n);
void gelu_forward(cudaStream_t stream, void* out, const void* pre, DType x, int64_t n, Gelu gelu);
// dpre *= gelu'(pre), in place.
void gelu_backward(cudaStream_t stream, void* dpre, const void* pre, DType x, int64_t n, Gelu gelu);

// --- verify.cu ---
// Fills n elements with whole numbers in [-range, range].
void fill_whole_numbers(cudaStream_t stream, void* data, DType type, int64_t n, int range,
                        uint64_t seed);
// *count += number of 4-byte words that differ; num_bytes is a multiple of 4.
void count_different_words(cudaStream_t stream, uint64_t* count, const void* a, const void* b,
                           int64_t num_bytes);

// --- glu.cu; F is a multiple of 8 ---
void glu_forward(cudaStream_t stream, void* out, const void* pre, DType x, int64_t N, int64_t F,
                 Glu glu);
void glu_backward(cudaStream_t stream, void* dpre, const void* dout, const void* pre, DType x,
                  int64_t N, int64_t F, Glu glu);

// --- qkv.cu; heads of multiples of 16 bytes are faster ---
void rotate(cudaStream_t stream, const Rotary& args);
void expand_groups(cudaStream_t stream, Tensor expanded, Tensor grouped);
void sum_groups(cudaStream_t stream, Tensor grouped, Tensor expanded);

// --- fp8.cu, fp8_transpose.cu, fp8_scaling.cu; N and C are multiples of 16, x is bf16 ---
int64_t quantize_scratch_bytes(int64_t N, int64_t C);  // C of column sums; 0: there are none
void quantize(cudaStream_t stream, const Quantize& args, void* scratch);
void transpose_fp8(cudaStream_t stream, uint8_t* transposed, const uint8_t* rows, int64_t N,
                   int64_t C);
void update_fp8_scaling(cudaStream_t stream, const Fp8ScalingUpdate& args);

// --- reduce.cu ---
// Up to three rows of sums that lie side by side in the partial sums.
struct SumTargets {
  float *first, *second = nullptr, *third = nullptr;
};
// first[c] (+)= sum over rows i of partials[i * stride + c], for c < num_columns, in fp32; second
// and third get the sums of the next num_columns columns and of those after them.
void sum_partials(cudaStream_t stream, const SumTargets& targets, const float* partials,
                  int64_t num_rows, int64_t stride, int64_t num_columns, bool accumulate);
// out[c] (+)= sum of column c over the N rows of inp (N,O).
int64_t column_sums_scratch_bytes(int64_t N, int64_t O);
void column_sums(cudaStream_t stream, float* out, const void* inp, DType x, int64_t N, int64_t O,
                 bool accumulate, void* scratch);
constexpr int64_t kSumScratchBytes = 1024 * sizeof(float);
void sum(cudaStream_t stream, float* out, const float* inp, int64_t n, float scale, bool accumulate,
         void* scratch);
void sum_of_squares(cudaStream_t stream, float* out, const float* inp, int64_t n, void* scratch);
// out[0] (+)= sum of (value - reference)^2 and out[1] (+)= sum of reference^2 over n numbers of type x.
void squared_error(cudaStream_t stream, float* out, const void* value, const void* reference,
                   DType x, int64_t n, bool accumulate, void* scratch);

// --- embedding.cu ---
void embedding_forward(cudaStream_t stream, void* out, const int32_t* tokens, const void* word,
                       DType x, int64_t N, int64_t C, int64_t first_word, int64_t num_words);
int64_t embedding_backward_scratch_bytes(int64_t N, int64_t C);
void embedding_backward(cudaStream_t stream, float* dword, const void* dout, const int32_t* tokens,
                        DType x, int64_t N, int64_t C, int64_t first_word, int64_t num_words,
                        void* scratch);

// Adds the rows of dout (N,C) to the rows of dtable (num_positions,C) that their positions in their
// documents name, with embedding_backward's scratch. Row n is row first_row + n of samples of
// `period` rows; document_bounds are as in kernels/backend.h.
void document_positions_backward(cudaStream_t stream, float* dtable, const void* dout,
                                 const int32_t* document_bounds, DType x, int64_t N, int64_t C,
                                 int64_t period, int64_t first_row, int64_t num_positions,
                                 void* scratch);

// --- sort.cu: stable sort of n (key, value) pairs by the low `num_bits` bits of the key ---
int64_t sort_pairs_scratch_bytes(int64_t n);
void sort_pairs(cudaStream_t stream, uint32_t* sorted_keys, uint32_t* sorted_values,
                const uint32_t* keys, const uint32_t* values, int64_t n, int num_bits,
                void* scratch, int64_t scratch_bytes);

// --- loss.cu; loss_mask may be nullptr ---
void cross_entropy(cudaStream_t stream, float* losses, void* logits, const int32_t* targets,
                   const float* loss_mask, DType x, int64_t N, int64_t Vp, int64_t vocabulary_size,
                   float gradient_scale, bool gradient);

// A vocabulary that is sharded over ranks. The logits (N,columns) are the words from first_word on.
void cross_entropy_statistics(cudaStream_t stream, float* statistics, const void* logits,
                              const int32_t* targets, DType x, int64_t N, int64_t columns,
                              int64_t first_word, int64_t vocabulary_size);
void cross_entropy_gradient(cudaStream_t stream, float* losses, void* logits,
                            const float* statistics, int64_t num_ranks, const int32_t* targets,
                            const float* loss_mask, DType x, int64_t N, int64_t columns,
                            int64_t first_word, int64_t vocabulary_size, float gradient_scale,
                            bool gradient);

void sample_losses(cudaStream_t stream, float* out, const float* losses, const float* loss_mask,
                   int64_t B, int64_t T);

// --- optimizer.cu ---
void clip_coefficient(cudaStream_t stream, float* clip, const float* sum_of_squares,
                      float max_norm);
void adamw(cudaStream_t stream, const AdamW& args);
void split_masters(cudaStream_t stream, Tensor param, Tensor remainder, Tensor master);
void join_masters(cudaStream_t stream, Tensor master, Tensor param, Tensor remainder);

}  // namespace weft::cuda
