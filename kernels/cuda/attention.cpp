// Attention on a GPU: flash kernels where the head size has them, else scores in memory.
#include "kernels/cuda/attention/attention.h"

#include "kernels/cuda/attention/backward_workspace/bias_sums.h"
#include "kernels/cuda/device/check.h"
#include "kernels/cuda/device/context.h"
#include "kernels/cuda/unfused_attention.h"
#include "kernels/cuda_scratch.h"
#include "kernels/flash_attention.h"

namespace weft::cuda {

void run(const Context& context, const AttentionForward& op) {
  constexpr const char* kName = "attention_forward";
  require_aligned(kName, {op.out, op.kept, op.qkv, op.document_bounds});
  if (has_flash_attention(op.qkv.shape(4)))
    return attention_forward(context.stream, op, context.work_counter);
  void* const scratch = context.scratch(kName, scratch_bytes(op, context.num_multiprocessors));
  unfused_attention_forward(context.stream, *context.gemm, op, scratch);
}

void run(const Context& context, const AttentionBackward& op) {
  constexpr const char* kName = "attention_backward";
  require_aligned(kName, {op.dqkv, op.dout, op.out, op.kept, op.qkv, op.document_bounds});
  void* const scratch = context.scratch(kName, scratch_bytes(op, context.num_multiprocessors));
  if (has_flash_attention(op.qkv.shape(4))) return attention_backward(context.stream, op, scratch);
  unfused_attention_backward(context.stream, *context.gemm, op, scratch);
  if (op.dqkv_bias) sum_dqkv(context.stream, op, scratch);
}

}  // namespace weft::cuda
