// Attention on a GPU: flash kernels where the head size has them, else scores in memory.
#include "kernels/cuda/attention/attention.h"

#include "kernels/cuda/attention/backward_workspace/bias_sums.h"
#include "kernels/cuda/device/check.h"
#include "kernels/cuda/device/context.h"
#include "kernels/cuda/unfused_attention.h"
#include "kernels/flash_attention.h"
#include "kernels/unfused_attention.h"

namespace weft::cuda {

void run(const Context& context, const AttentionForward& op) {
  constexpr const char* kName = "attention_forward";
  require_aligned(kName, {op.out, op.kept, op.qkv, op.document_bounds});
  const int64_t T = op.qkv.shape(1), H = op.qkv.shape(2), D = op.qkv.shape(4);
  if (has_flash_attention(D)) return attention_forward(context.stream, op, context.work_counter);
  unfused_attention_forward(
      context.stream, *context.gemm, op,
      context.scratch(kName, unfused_scratch(T, H, D, op.qkv.dtype()).num_bytes));
}

void run(const Context& context, const AttentionBackward& op) {
  constexpr const char* kName = "attention_backward";
  require_aligned(kName, {op.dqkv, op.dout, op.out, op.kept, op.qkv, op.document_bounds});
  const int64_t B = op.qkv.shape(0), T = op.qkv.shape(1), H = op.qkv.shape(2), D = op.qkv.shape(4);
  if (has_flash_attention(D)) {
    const int64_t num_bytes = attention_workspace_bytes(B, T, H, D, !!op.dqkv_bias);
    return attention_backward(context.stream, op, context.scratch(kName, num_bytes));
  }
  unfused_attention_backward(
      context.stream, *context.gemm, op,
      context.scratch(kName, unfused_scratch(T, H, D, op.qkv.dtype()).num_bytes));
  if (op.dqkv_bias)
    sum_dqkv(context.stream, op, context.scratch(kName, dqkv_bias_scratch_bytes(B, T, H, D)));
}

}  // namespace weft::cuda
