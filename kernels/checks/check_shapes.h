// Checks of the arguments of every operation. The backends share them, so that a wrong call fails
// with the same words on each.
//
// A tensor "(N,C)" may have more dimensions: the last is C and the leading ones multiply to N. All
// checks throw std::invalid_argument, which names the operation, the tensor, what it is and what it
// should be. They are defined by groups: residual_stream.cpp, linear.cpp, attention.cpp, loss.cpp and
// optimizer.cpp.
#pragma once

#include "kernels/backend.h"

namespace weft {

// Returns N of a tensor (N,C).
inline int64_t num_rows(const Tensor& tensor) {
  return tensor.rank() == 0 ? 0 : tensor.num_elements() / tensor.shape(tensor.rank() - 1);
}
// Returns C of a tensor (N,C).
inline int64_t num_columns(const Tensor& tensor) {
  return tensor.rank() == 0 ? 0 : tensor.shape(tensor.rank() - 1);
}

// Returns "fp32", "bf16", "fp16", "int32", "uint8", "e4m3" or "e5m2".
const char* name_of(DType dtype);

void check_cast(const Tensor& dst, const Tensor& src);
void check_embedding_forward(const Tensor& out, const Tensor& tokens, const Tensor& word);
void check_embedding_backward(const Tensor& dword, const Tensor& dout, const Tensor& tokens);
void check_residual_norm_forward(const ResidualNorm& args);
void check_residual_norm_backward(const ResidualNormBackward& args);
void check_linear_forward(const Tensor& out, const Tensor& inp, const Tensor& weight,
                          const Tensor& bias);
void check_linear_backward_input(const Tensor& dinp, const Tensor& dout, const Tensor& weight);
void check_linear_gelu_forward(const Tensor& out, const Tensor& pre, const Tensor& inp,
                               const Tensor& weight, const Tensor& bias);
void check_linear_gelu_backward_input(const Tensor& dpre, const Tensor& dbias, const Tensor& dout,
                                      const Tensor& weight, const Tensor& pre);
void check_linear_backward_weight(const Tensor& dweight, const Tensor& dbias, const Tensor& dout,
                                  const Tensor& inp);
void check_quantize(const Quantize& args);
void check_transpose_fp8(const Tensor& transposed, const Tensor& rows);
void check_fp8_product(const Fp8Product& args);
void check_update_fp8_scaling(const Fp8ScalingUpdate& args);
void check_gelu_forward(const Tensor& out, const Tensor& pre);
void check_glu_forward(const Tensor& out, const Tensor& pre);
void check_glu_backward(const Tensor& dpre, const Tensor& dout, const Tensor& pre);
void check_groups(const char* operation, const Tensor& expanded, const Tensor& grouped);
void check_rotate(const Rotary& args);
void check_attention_forward(const Attention& args);
void check_attention_backward(const AttentionBackward& args);
void check_cross_entropy(const Tensor& losses, const Tensor& logits, const Tensor& targets,
                         const Tensor& loss_mask, int64_t vocabulary_size);
void check_cross_entropy_statistics(const Tensor& statistics, const Tensor& logits,
                                    const Tensor& targets, int64_t first_word,
                                    int64_t vocabulary_size);
void check_sample_losses(const Tensor& out, const Tensor& losses, const Tensor& loss_mask);
void check_cross_entropy_gradient(const Tensor& losses, const Tensor& logits,
                                  const Tensor& statistics, const Tensor& targets,
                                  const Tensor& loss_mask, int64_t first_word,
                                  int64_t vocabulary_size);
void check_squared_error(const Tensor& out, const Tensor& value, const Tensor& reference);
void check_sum(const char* operation, const Tensor& out, const Tensor& inp);
void check_clip_coefficient(const Tensor& clip, const Tensor& sum_of_squares);
void check_adamw(const AdamW& args);
void check_masters(const char* operation, const Tensor& param, const Tensor& remainder,
                   const Tensor& master);

}  // namespace weft
