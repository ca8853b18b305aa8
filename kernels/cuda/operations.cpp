// The operations with one own kernel each: they check the shapes, then launch.
#include <bit>
#include <stdexcept>

#include "kernels/check_shapes.h"
#include "kernels/cuda/attention/attention.h"
#include "kernels/cuda/backend.h"
#include "kernels/cuda/memory_bound/check.h"
#include "kernels/cuda/memory_bound/kernels.h"

namespace weft::cuda {
namespace {

// The last dimension must be a multiple of 8: kernels move 16-byte vectors of up to 8 elements.
void require_multiple_of_8(const char* operation, const char* what, int64_t size) {
  if (size % 8 != 0)
    throw std::invalid_argument(std::string(operation) + ": " + what + " is " +
                                std::to_string(size) + "; on CUDA it must be a multiple of 8");
}

}  // namespace

void CudaBackend::cast(Tensor dst, Tensor src) {
  check_cast(dst, src);
  if (dst.dtype() == src.dtype())
    return copy(dst.data(), src.data(), src.num_bytes(), Stream::kCompute);
  require_aligned("cast", {dst, src});
  cuda::cast(compute_, dst.data(), dst.dtype(), src.data(), src.dtype(), src.num_elements());
}

void CudaBackend::embedding_forward(Tensor out, Tensor tokens, Tensor word, Tensor position,
                                    int64_t first_word, const Dropout& dropout) {
  check_embedding_forward(out, tokens, word, position, dropout);
  const int64_t B = out.shape(0), T = out.shape(1), C = out.shape(2);
  require_multiple_of_8("embedding_forward", "the hidden size", C);
  require_aligned("embedding_forward", {out, word, position});
  cuda::embedding_forward(compute_, out.data(), tokens.as<const int32_t>(), word.data(),
                          position.data(), out.dtype(), B, T, C, first_word, word.shape(0),
                          dropout);
}

void CudaBackend::embedding_backward(Tensor dword, Tensor dposition, Tensor dout, Tensor tokens,
                                     int64_t first_word, const Dropout& dropout) {
  constexpr const char* kName = "embedding_backward";
  check_embedding_backward(dword, dposition, dout, tokens, dropout);
  const int64_t B = dout.shape(0), T = dout.shape(1), C = dout.shape(2);
  require_multiple_of_8(kName, "the hidden size", C);
  require_aligned(kName, {dword, dposition, dout});
  void* memory = scratch(kName, embedding_backward_scratch_bytes(B * T, C));
  cuda::embedding_backward(compute_, dword.as<float>(), dposition.as<float>(), dout.data(),
                           tokens.as<const int32_t>(), dout.dtype(), B, T, C, first_word,
                           dword.shape(0), dropout, memory);
}

void CudaBackend::layernorm_forward(Tensor normed, Tensor mean, Tensor rstd, Tensor inp,
                                    Tensor weight, Tensor bias, float epsilon) {
  constexpr const char* kName = "layernorm_forward";
  check_layernorm_forward(normed, mean, rstd, inp, weight, bias);
  require_multiple_of_8(kName, "the hidden size", num_columns(inp));
  require_aligned(kName, {normed, inp, weight, bias});
  cuda::layernorm_forward(compute_, normed.data(), nullptr, mean.as<float>(), rstd.as<float>(),
                          inp.data(), nullptr, weight.data(), bias.data(), inp.dtype(),
                          num_rows(inp), num_columns(inp), epsilon, Dropout());
}

void CudaBackend::residual_layernorm_forward(Tensor normed, Tensor residual_out, Tensor mean,
                                             Tensor rstd, Tensor residual, Tensor branch,
                                             Tensor weight, Tensor bias, float epsilon,
                                             const Dropout& dropout) {
  constexpr const char* kName = "residual_layernorm_forward";
  check_residual_layernorm_forward(normed, residual_out, mean, rstd, residual, branch, weight, bias,
                                   dropout);
  require_multiple_of_8(kName, "the hidden size", num_columns(residual));
  require_aligned(kName, {normed, residual_out, residual, branch, weight, bias});
  cuda::layernorm_forward(compute_, normed.data(), residual_out.data(), mean.as<float>(),
                          rstd.as<float>(), residual.data(), branch.data(), weight.data(),
                          bias.data(), residual.dtype(), num_rows(residual), num_columns(residual),
                          epsilon, dropout);
}

void CudaBackend::layernorm_backward(Tensor dresidual, Tensor dbranch, Tensor dweight, Tensor dbias,
                                     Tensor dnormed, Tensor dresidual_in, Tensor inp, Tensor mean,
                                     Tensor rstd, Tensor weight, const Dropout& dropout,
                                     bool accumulate) {
  constexpr const char* kName = "layernorm_backward";
  check_layernorm_backward(dresidual, dbranch, dweight, dbias, dnormed, dresidual_in, inp, mean,
                           rstd, weight, dropout);
  const int64_t N = num_rows(inp), C = num_columns(inp);
  require_multiple_of_8(kName, "the hidden size", C);
  require_aligned(kName, {dresidual, dbranch, dnormed, dresidual_in, inp, weight});
  void* memory = scratch(kName, layernorm_backward_scratch_bytes(N, C, inp.dtype()));
  cuda::layernorm_backward(compute_, dresidual.data(), dbranch.data(), dweight.as<float>(),
                           dbias.as<float>(), dnormed.data(), dresidual_in.data(), inp.data(),
                           mean.as<const float>(), rstd.as<const float>(), weight.data(),
                           inp.dtype(), N, C, dropout, accumulate, memory);
}

void CudaBackend::attention_forward(Tensor out, Tensor lse, Tensor qkv, float scale,
                                    const Dropout& dropout) {
  check_attention_forward(out, lse, qkv, dropout);
  const int64_t B = qkv.shape(0), T = qkv.shape(1), H = qkv.shape(2), D = qkv.shape(4);
  const int64_t num_bytes = attention_workspace_bytes(B, T, H, D, qkv.dtype());
  cuda::attention_forward(compute_, out.data(), lse.as<float>(), qkv.data(), qkv.dtype(), B, T, H,
                          D, scale, dropout, scratch("attention_forward", num_bytes), num_bytes);
}

void CudaBackend::attention_backward(Tensor dqkv, Tensor dout, Tensor out, Tensor lse, Tensor qkv,
                                     float scale, const Dropout& dropout) {
  check_attention_backward(dqkv, dout, out, lse, qkv, dropout);
  const int64_t B = qkv.shape(0), T = qkv.shape(1), H = qkv.shape(2), D = qkv.shape(4);
  const int64_t num_bytes = attention_workspace_bytes(B, T, H, D, qkv.dtype());
  cuda::attention_backward(compute_, dqkv.data(), dout.data(), out.data(), lse.as<const float>(),
                           qkv.data(), qkv.dtype(), B, T, H, D, scale, dropout,
                           scratch("attention_backward", num_bytes), num_bytes);
}

void CudaBackend::cross_entropy(Tensor losses, Tensor logits, Tensor targets, Tensor loss_mask,
                                int64_t vocabulary_size, float gradient_scale, bool gradient) {
  constexpr const char* kName = "cross_entropy";
  check_cross_entropy(losses, logits, targets, loss_mask, vocabulary_size);
  require_multiple_of_8(kName, "the padded vocabulary", num_columns(logits));
  require_aligned(kName, {logits});
  cuda::cross_entropy(compute_, losses.as<float>(), logits.data(), targets.as<const int32_t>(),
                      loss_mask.as<const float>(), logits.dtype(), num_rows(logits),
                      num_columns(logits), vocabulary_size, gradient_scale, gradient);
}

void CudaBackend::sum(Tensor out, Tensor inp, float scale, bool accumulate) {
  check_sum("sum", out, inp);
  require_aligned("sum", {inp});
  cuda::sum(compute_, out.as<float>(), inp.as<const float>(), inp.num_elements(), scale, accumulate,
            scratch("sum", kSumScratchBytes));
}

void CudaBackend::sum_of_squares(Tensor out, Tensor inp) {
  check_sum("sum_of_squares", out, inp);
  require_aligned("sum_of_squares", {inp});
  cuda::sum_of_squares(compute_, out.as<float>(), inp.as<const float>(), inp.num_elements(),
                       scratch("sum_of_squares", kSumScratchBytes));
}

void CudaBackend::clip_coefficient(Tensor clip, Tensor sum_of_squares, float max_norm) {
  check_clip_coefficient(clip, sum_of_squares);
  cuda::clip_coefficient(compute_, clip.as<float>(), sum_of_squares.as<const float>(), max_norm);
}

void CudaBackend::adamw(const AdamW& args) {
  check_adamw(args);
  require_aligned("adamw", {args.param, args.master, args.m, args.v, args.grad});
  cuda::adamw(compute_, args);
}

}  // namespace weft::cuda
