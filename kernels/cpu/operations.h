// The operations of kernels/backend.h on the CPU, with arguments that are already checked. Their
// meaning is documented there. x_scratch_floats() is the scratch that each thread needs for
// operation x.
#pragma once

#include <cstdint>

#include "kernels/backend.h"
#include "kernels/cpu/loops/context.h"

namespace weft::cpu {

void zero(const Context& context, Tensor tensor);
void cast(const Context& context, Tensor dst, Tensor src);

int64_t embedding_scratch_floats(int64_t C);
void embedding_forward(const Context& context, Tensor out, Tensor tokens, Tensor word,
                       int64_t first_word);
void embedding_backward(const Context& context, Tensor dword, Tensor dout, Tensor tokens,
                        int64_t first_word);

int64_t residual_norm_scratch_floats(int64_t C);
void residual_norm_forward(const Context& context, const ResidualNorm& args);
void residual_norm_backward(const Context& context, const ResidualNormBackward& args);

// out (O) fp32 = column sums of inp (N,O), plus out where `accumulate`. One task owns a block of
// columns and walks all rows in order. It needs linear_scratch_floats() or less.
void column_sums(const Context& context, Tensor out, Tensor inp, bool accumulate);

int64_t linear_scratch_floats();
void linear_forward(const Context& context, Tensor out, Tensor inp, Tensor weight, Tensor bias);
// With an empty `pre` there is no GELU.
void linear_backward_input(const Context& context, Tensor dinp, Tensor dout, Tensor weight,
                           Tensor pre, Gelu gelu);
void linear_backward_weight(const Context& context, Tensor dweight, Tensor dbias, Tensor dout,
                            Tensor inp, bool accumulate);

// These need linear_scratch_floats() or less.
void quantize(const Context& context, const Quantize& args);
void transpose_fp8(const Context& context, Tensor transposed, Tensor rows);
void fp8_product(const Context& context, const Fp8Product& args);
void update_fp8_scaling(const Fp8ScalingUpdate& args);
void squared_error(const Context& context, Tensor out, Tensor value, Tensor reference,
                   bool accumulate);

// These need linear_scratch_floats() or less.
void gelu_forward(const Context& context, Tensor out, Tensor pre, Gelu gelu);
void glu_forward(const Context& context, Tensor out, Tensor pre, Glu glu);
void glu_backward(const Context& context, Tensor dpre, Tensor dout, Tensor pre, Glu glu);

int64_t qkv_scratch_floats(int64_t D);
void rotate(const Context& context, const Rotary& args);
void expand_groups(const Context& context, Tensor expanded, Tensor grouped);
void sum_groups(const Context& context, Tensor grouped, Tensor expanded);

int64_t attention_scratch_floats(int64_t T, int64_t D);
void attention_forward(const Context& context, const Attention& args);
void attention_backward(const Context& context, const AttentionBackward& args);

int64_t cross_entropy_scratch_floats(int64_t Vp);
void cross_entropy(const Context& context, Tensor losses, Tensor logits, Tensor targets,
                   Tensor loss_mask, int64_t vocabulary_size, float gradient_scale, bool gradient);

void cross_entropy_statistics(const Context& context, Tensor statistics, Tensor logits,
                              Tensor targets, int64_t first_word, int64_t vocabulary_size);
void cross_entropy_gradient(const Context& context, Tensor losses, Tensor logits, Tensor statistics,
                            Tensor targets, Tensor loss_mask, int64_t first_word,
                            int64_t vocabulary_size, float gradient_scale, bool gradient);

void sample_losses(const Context& context, Tensor out, Tensor losses, Tensor loss_mask);

// These return the fp64 sum of n floats and of their squares. The order depends on n alone.
double sum(const Context& context, const float* inp, int64_t n);
double sum_of_squares(const Context& context, const float* inp, int64_t n);

void adamw(const Context& context, const AdamW& args);
void split_masters(const Context& context, Tensor param, Tensor remainder, Tensor master);
void join_masters(const Context& context, Tensor master, Tensor param, Tensor remainder);

}  // namespace weft::cpu
