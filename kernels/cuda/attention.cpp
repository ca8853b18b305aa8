// Attention on a GPU: flash kernels where the head size and type have them, else scores in memory.
#include "kernels/cuda/attention/attention.h"

#include "kernels/cuda/attention/backward_workspace/bias_sums.h"
#include "kernels/cuda/attention/backward_workspace/group_sums.h"
#include "kernels/cuda/attention/single_query.h"
#include "kernels/cuda/attention/unfused_attention.h"
#include "kernels/cuda/device/check.h"
#include "kernels/cuda/device/context.h"
#include "kernels/cuda_scratch.h"
#include "kernels/flash_attention.h"

namespace weft::cuda {
namespace {

// Kernels read 16 bytes at a time where heads are multiples of 8.
void require_aligned_qkv(const char* operation, const Qkv& qkv) {
  for (const HeadVectors* vectors : {&qkv.q, &qkv.k, &qkv.v}) {
    if (vectors->D % 8 != 0) continue;
    const int64_t together = vectors->sample_stride | vectors->token_stride | vectors->row_stride;
    if (reinterpret_cast<uintptr_t>(vectors->data) % 16 != 0 ||
        together * size_bytes(vectors->dtype) % 16 != 0)
      throw std::invalid_argument(std::string(operation) +
                                  ": vectors of heads must be aligned to 16 bytes on a GPU");
  }
}

}  // namespace

void run(const Context& context, const AttentionForward& op) {
  constexpr const char* kName = "attention_forward";
  require_aligned(kName, {op.out, op.dropout_mask, op.document_bounds});
  require_aligned_qkv(kName, op.qkv);
  if (is_single_query(op)) {
    return single_query_attention(
        context.stream, op, context.scratch(kName, scratch_bytes(op, context.num_multiprocessors)));
  }
  if (op.offset)
    throw std::invalid_argument(std::string(kName) + ": " + std::to_string(op.qkv.q.T) +
                                " queries of heads of " + std::to_string(op.qkv.q.D) +
                                " stand where the device says; a GPU takes one of up to 512, "
                                "without dropout");
  if (has_flash_attention(op.qkv.q.D, op.qkv.q.dtype))
    return attention_forward(context.stream, op, context.work_counter);
  void* const scratch = context.scratch(kName, scratch_bytes(op, context.num_multiprocessors));
  unfused_attention_forward(context.stream, *context.gemm, op, scratch);
}

// Where heads share keys, the kernels leave the gradients of keys and values of each head in
// scratch, and a pass adds them up.
void run(const Context& context, const AttentionBackward& given) {
  constexpr const char* kName = "attention_backward";
  require_aligned(kName, {given.dout, given.out, given.dropout_mask, given.document_bounds});
  require_aligned_qkv(kName, given.qkv);
  require_aligned_qkv(kName, given.dqkv);
  const HeadVectors &q = given.qkv.q, &k = given.qkv.k;
  if (q.T != k.T)
    throw std::invalid_argument(std::string(kName) + ": there are " + std::to_string(q.T) +
                                " queries and " + std::to_string(k.T) +
                                " keys; on a GPU these must be equal");
  char* scratch =
      static_cast<char*>(context.scratch(kName, scratch_bytes(given, context.num_multiprocessors)));
  AttentionBackward op = given;
  const bool shares_keys = k.H < q.H;
  if (shares_keys) {
    op.dqkv.k = head_vectors(scratch, q.dtype, q.B, k.T, q.H, q.D);
    op.dqkv.v = op.dqkv.k;
    op.dqkv.v.data = scratch + op.dqkv.k.num_bytes();
    scratch += head_gradients_bytes(given.qkv);
  }
  if (has_flash_attention(q.D, q.dtype)) {
    attention_backward(context.stream, op, scratch);
  } else {
    unfused_attention_backward(context.stream, *context.gemm, op, scratch);
    if (op.dqkv_bias) sum_dqkv(context.stream, op, scratch);
  }
  if (!shares_keys) return;
  attention::sum_groups(context.stream, given.dqkv.k, op.dqkv.k);
  attention::sum_groups(context.stream, given.dqkv.v, op.dqkv.v);
}

}  // namespace weft::cuda
