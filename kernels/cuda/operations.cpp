// The operations with one own kernel each: they check the shapes, then launch.
#include <algorithm>
#include <bit>
#include <stdexcept>

#include "kernels/checks/check_shapes.h"
#include "kernels/cuda/attention/attention.h"
#include "kernels/cuda/attention/backward_workspace/bias_sums.h"
#include "kernels/cuda/backend.h"
#include "kernels/cuda/device/check.h"
#include "kernels/cuda/memory_bound/kernels.h"
#include "kernels/cuda/residual_norm/residual_norm.h"
#include "kernels/cuda/unfused_attention.h"
#include "kernels/unfused_attention.h"

namespace weft::cuda {
namespace {

// The last dimension must be a multiple of 8: kernels move 16-byte vectors of up to 8 elements.
void require_multiple_of_8(const char* operation, const char* what, int64_t size) {
  if (size % 8 != 0)
    throw std::invalid_argument(std::string(operation) + ": " + what + " is " +
                                std::to_string(size) + "; on CUDA it must be a multiple of 8");
}

// Tiles of fp8 are written in pieces of 16 bytes.
void require_multiple_of_16(const char* operation, const char* what, int64_t size) {
  if (size % 16 != 0)
    throw std::invalid_argument(std::string(operation) + ": " + what + " is " +
                                std::to_string(size) + "; on CUDA it must be a multiple of 16");
}

}  // namespace

void CudaBackend::cast(Tensor dst, Tensor src) {
  check_cast(dst, src);
  if (dst.dtype() == src.dtype())
    return copy(dst.data(), src.data(), src.num_bytes(), Stream::kCompute);
  require_aligned("cast", {dst, src});
  cuda::cast(compute_, dst.data(), dst.dtype(), src.data(), src.dtype(), src.num_elements());
}

void CudaBackend::embedding_forward(Tensor out, Tensor tokens, Tensor word, int64_t first_word) {
  check_embedding_forward(out, tokens, word);
  require_multiple_of_8("embedding_forward", "the hidden size", num_columns(out));
  require_aligned("embedding_forward", {out, word});
  cuda::embedding_forward(compute_, out.data(), tokens.as<const int32_t>(), word.data(),
                          out.dtype(), num_rows(out), num_columns(out), first_word, num_rows(word));
}

void CudaBackend::embedding_backward(Tensor dword, Tensor dout, Tensor tokens, int64_t first_word) {
  constexpr const char* kName = "embedding_backward";
  check_embedding_backward(dword, dout, tokens);
  const int64_t N = num_rows(dout), C = num_columns(dout);
  require_multiple_of_8(kName, "the hidden size", C);
  require_aligned(kName, {dword, dout});
  cuda::embedding_backward(compute_, dword.as<float>(), dout.data(), tokens.as<const int32_t>(),
                           dout.dtype(), N, C, first_word, num_rows(dword),
                           scratch(kName, embedding_backward_scratch_bytes(N, C)));
}

void CudaBackend::residual_norm_forward(const ResidualNorm& args) {
  constexpr const char* kName = "residual_norm_forward";
  check_residual_norm_forward(args);
  require_multiple_of_8(kName, "the hidden size",
                        num_columns(args.branch ? args.branch : args.residual));
  require_aligned(kName, {args.normed, args.normed_fp8.rows, args.residual_out, args.residual,
                          args.branch, args.branch_bias, args.weight, args.bias});
  cuda::residual_norm_forward(compute_, args);
}

void CudaBackend::residual_norm_backward(const ResidualNormBackward& args) {
  constexpr const char* kName = "residual_norm_backward";
  check_residual_norm_backward(args);
  const int64_t N = num_rows(args.dresidual), C = num_columns(args.dresidual);
  require_multiple_of_8(kName, "the hidden size", C);
  require_aligned(kName, {args.dresidual, args.dbranch, args.dbranch_bias, args.dnormed,
                          args.dresidual_in, args.residual, args.weight});
  int64_t scratch_bytes = residual_norm_backward_scratch_bytes(N, C, args.dresidual.dtype());
  if (args.document_bounds)
    scratch_bytes = std::max(scratch_bytes, embedding_backward_scratch_bytes(N, C));
  cuda::residual_norm_backward(compute_, args, scratch(kName, scratch_bytes));
}

void CudaBackend::gelu_forward(Tensor out, Tensor pre, Gelu gelu) {
  constexpr const char* kName = "gelu_forward";
  check_gelu_forward(out, pre);
  require_multiple_of_8(kName, "the feed-forward size of a rank", num_columns(out));
  require_aligned(kName, {out, pre});
  cuda::gelu_forward(compute_, out.data(), pre.data(), out.dtype(), out.num_elements(), gelu);
}

void CudaBackend::quantize(const Quantize& args) {
  constexpr const char* kName = "quantize";
  check_quantize(args);
  const Tensor& like = args.inp ? args.inp : args.pre;
  const int64_t N = num_rows(like), C = num_columns(like);
  require_multiple_of_16(kName, "the number of rows", N);
  require_multiple_of_16(kName, "the number of columns", C);
  require_aligned(kName, {args.rows, args.transposed, args.value, args.inp, args.pre});
  cuda::quantize(compute_, args,
                 scratch(kName, quantize_scratch_bytes(N, args.column_sums ? C : 0)));
}

void CudaBackend::transpose_fp8(Tensor transposed, Tensor rows) {
  constexpr const char* kName = "transpose_fp8";
  check_transpose_fp8(transposed, rows);
  require_multiple_of_16(kName, "the number of rows", num_rows(rows));
  require_multiple_of_16(kName, "the number of columns", num_columns(rows));
  require_aligned(kName, {transposed, rows});
  cuda::transpose_fp8(compute_, transposed.as<uint8_t>(), rows.as<const uint8_t>(), num_rows(rows),
                      num_columns(rows));
}

void CudaBackend::update_fp8_scaling(const Fp8ScalingUpdate& args) {
  check_update_fp8_scaling(args);
  cuda::update_fp8_scaling(compute_, args);
}

void CudaBackend::squared_error(Tensor out, Tensor value, Tensor reference, bool accumulate) {
  check_squared_error(out, value, reference);
  require_aligned("squared_error", {value, reference});
  cuda::squared_error(compute_, out.as<float>(), value.data(), reference.data(), value.dtype(),
                      value.num_elements(), accumulate, scratch("squared_error", kSumScratchBytes));
}

void CudaBackend::glu_forward(Tensor out, Tensor pre, Glu glu) {
  constexpr const char* kName = "glu_forward";
  check_glu_forward(out, pre);
  require_multiple_of_8(kName, "the feed-forward size of a rank", num_columns(out));
  require_aligned(kName, {out, pre});
  cuda::glu_forward(compute_, out.data(), pre.data(), out.dtype(), num_rows(out), num_columns(out),
                    glu);
}

void CudaBackend::glu_backward(Tensor dpre, Tensor dout, Tensor pre, Glu glu) {
  constexpr const char* kName = "glu_backward";
  check_glu_backward(dpre, dout, pre);
  require_multiple_of_8(kName, "the feed-forward size of a rank", num_columns(dout));
  require_aligned(kName, {dpre, dout, pre});
  cuda::glu_backward(compute_, dpre.data(), dout.data(), pre.data(), dout.dtype(), num_rows(dout),
                     num_columns(dout), glu);
}

void CudaBackend::rotate(const Rotary& args) {
  constexpr const char* kName = "rotate";
  check_rotate(args);
  require_aligned(kName, {args.qkv, args.angles});
  cuda::rotate(compute_, args);
}

void CudaBackend::expand_groups(Tensor expanded, Tensor grouped) {
  constexpr const char* kName = "expand_groups";
  check_groups(kName, expanded, grouped);
  require_aligned(kName, {expanded, grouped});
  cuda::expand_groups(compute_, expanded, grouped);
}

void CudaBackend::sum_groups(Tensor grouped, Tensor expanded) {
  constexpr const char* kName = "sum_groups";
  check_groups(kName, expanded, grouped);
  require_aligned(kName, {grouped, expanded});
  cuda::sum_groups(compute_, grouped, expanded);
}

void CudaBackend::attention_forward(const Attention& args) {
  constexpr const char* kName = "attention_forward";
  check_attention_forward(args);
  require_aligned(kName, {args.out, args.kept, args.qkv, args.document_bounds});
  const int64_t T = args.qkv.shape(1), H = args.qkv.shape(2), D = args.qkv.shape(4);
  if (has_flash_attention(D)) return cuda::attention_forward(compute_, args, work_counter_);
  unfused_attention_forward(compute_, *gemm_, args,
                            scratch(kName, unfused_scratch(T, H, D, args.qkv.dtype()).num_bytes));
}

void CudaBackend::attention_backward(const AttentionBackward& args) {
  constexpr const char* kName = "attention_backward";
  check_attention_backward(args);
  require_aligned(kName,
                  {args.dqkv, args.dout, args.out, args.kept, args.qkv, args.document_bounds});
  const int64_t B = args.qkv.shape(0), T = args.qkv.shape(1), H = args.qkv.shape(2),
                D = args.qkv.shape(4);
  if (has_flash_attention(D)) {
    const int64_t num_bytes = attention_workspace_bytes(B, T, H, D, !!args.dqkv_bias);
    return cuda::attention_backward(compute_, args, scratch(kName, num_bytes));
  }
  unfused_attention_backward(compute_, *gemm_, args,
                             scratch(kName, unfused_scratch(T, H, D, args.qkv.dtype()).num_bytes));
  if (args.dqkv_bias) sum_dqkv(compute_, args, scratch(kName, dqkv_bias_scratch_bytes(B, T, H, D)));
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

void CudaBackend::cross_entropy_statistics(Tensor statistics, Tensor logits, Tensor targets,
                                           int64_t first_word, int64_t vocabulary_size) {
  constexpr const char* kName = "cross_entropy_statistics";
  check_cross_entropy_statistics(statistics, logits, targets, first_word, vocabulary_size);
  require_multiple_of_8(kName, "the padded vocabulary of a rank", num_columns(logits));
  require_aligned(kName, {logits});
  cuda::cross_entropy_statistics(compute_, statistics.as<float>(), logits.data(),
                                 targets.as<const int32_t>(), logits.dtype(), num_rows(logits),
                                 num_columns(logits), first_word, vocabulary_size);
}

void CudaBackend::cross_entropy_gradient(Tensor losses, Tensor logits, Tensor statistics,
                                         Tensor targets, Tensor loss_mask, int64_t first_word,
                                         int64_t vocabulary_size, float gradient_scale,
                                         bool gradient) {
  constexpr const char* kName = "cross_entropy_gradient";
  check_cross_entropy_gradient(losses, logits, statistics, targets, loss_mask, first_word,
                               vocabulary_size);
  require_multiple_of_8(kName, "the padded vocabulary of a rank", num_columns(logits));
  require_aligned(kName, {logits});
  cuda::cross_entropy_gradient(
      compute_, losses.as<float>(), logits.data(), statistics.as<const float>(),
      statistics.shape(0), targets.as<const int32_t>(), loss_mask.as<const float>(), logits.dtype(),
      num_rows(logits), num_columns(logits), first_word, vocabulary_size, gradient_scale, gradient);
}

void CudaBackend::sample_losses(Tensor out, Tensor losses, Tensor loss_mask) {
  check_sample_losses(out, losses, loss_mask);
  cuda::sample_losses(compute_, out.as<float>(), losses.as<const float>(),
                      loss_mask.as<const float>(), num_rows(losses), num_columns(losses));
}

void CudaBackend::sum(Tensor out, Tensor inp, float scale, bool accumulate) {
  check_sum("sum", out, inp);
  if (inp.num_elements() >= 4) require_aligned("sum", {inp});  // fewer are read one by one
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
  require_aligned("adamw", {args.param, args.master, args.remainder, args.m, args.v, args.grad});
  cuda::adamw(compute_, args);
}

void CudaBackend::split_masters(Tensor param, Tensor remainder, Tensor master) {
  check_masters("split_masters", param, remainder, master);
  require_aligned("split_masters", {param, remainder, master});
  cuda::split_masters(compute_, param, remainder, master);
}

void CudaBackend::join_masters(Tensor master, Tensor param, Tensor remainder) {
  check_masters("join_masters", param, remainder, master);
  require_aligned("join_masters", {param, remainder, master});
  cuda::join_masters(compute_, master, param, remainder);
}

}  // namespace weft::cuda
