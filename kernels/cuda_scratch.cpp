#include "kernels/cuda_scratch.h"

#include <algorithm>

#include "kernels/flash_attention.h"
#include "kernels/residual_norm_layout.h"
#include "kernels/unfused_attention.h"

namespace weft::cuda {
namespace {

constexpr int64_t kFloatBytes = sizeof(float);

int64_t ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }
int64_t round_up(int64_t num_bytes) { return ceil_div(num_bytes, 256) * 256; }

// The sums that each block of the norm's backward leaves; r is the type of the residual stream.
int64_t norm_sums_bytes(int64_t N, int64_t C, DType r, int num_multiprocessors) {
  const int64_t num_vecs = C * size_bytes(r) / 16;
  int64_t blocks = 0;
  const auto count = [&](auto layout) {
    blocks = plan_backward(layout, N, num_vecs, num_multiprocessors).blocks;
  };
  if (size_bytes(r) == 2) {
    choose_layout(num_vecs, LayoutsOf<2>{}, count);
  } else {
    choose_layout(num_vecs, LayoutsOf<4>{}, count);
  }
  return blocks * num_sums(/*rms=*/false, /*branch_bias=*/true) * C * kFloatBytes;
}

}  // namespace

int64_t num_column_chunks(int64_t N, int64_t O, int num_multiprocessors) {
  const int64_t column_blocks = ceil_div(O, 256);
  return std::max<int64_t>(
      1, std::min(ceil_div(int64_t{8} * num_multiprocessors, column_blocks), ceil_div(N, 64)));
}

int64_t column_sums_scratch_bytes(int64_t N, int64_t O, int num_multiprocessors) {
  return num_column_chunks(N, O, num_multiprocessors) * O * kFloatBytes;
}

int64_t embedding_backward_scratch_bytes(int64_t N, int64_t C) {
  return 4 * round_up(N * 4) + round_up(ceil_div(N, kEmbeddingPiece) * 2 * C * kFloatBytes) +
         sort_pairs_scratch_bytes(N);
}

int64_t scratch_bytes(const EmbeddingBackward& op, int) {
  return embedding_backward_scratch_bytes(num_rows(op.dout), num_columns(op.dout));
}

int64_t scratch_bytes(const ResidualNormBackward& op, int num_multiprocessors) {
  const int64_t N = num_rows(op.dresidual), C = num_columns(op.dresidual);
  return std::max({norm_sums_bytes(N, C, op.dresidual.dtype(), num_multiprocessors),
                   column_sums_scratch_bytes(N, C, num_multiprocessors),
                   op.document_bounds ? embedding_backward_scratch_bytes(N, C) : 0});
}

int64_t scratch_bytes(const LinearBackwardWeight& op, int num_multiprocessors) {
  if (!op.dbias) return 0;
  return column_sums_scratch_bytes(num_rows(op.dout), num_columns(op.dout), num_multiprocessors);
}

int64_t scratch_bytes(const LinearActivationBackwardInput& op, int num_multiprocessors) {
  if (!op.dbias) return 0;
  const int64_t N = num_rows(op.dpre), I = num_columns(op.dpre);
  return std::max(column_sums_scratch_bytes(N, I, num_multiprocessors),
                  num_sum_rows(N) * I * kFloatBytes);
}

int64_t scratch_bytes(const Quantize& op, int) {
  const Tensor& like = op.inp ? op.inp : op.pre;
  const int64_t C = op.column_sums ? num_columns(like) : 0;
  return kQuantizeAmaxBytes + ceil_div(num_rows(like), kQuantizeTileRows) * C * kFloatBytes;
}

int64_t num_key_chunks(const AttentionForward& op) {
  return ceil_div(op.qkv.k.T, kSingleQueryKeys);
}

// Those of queries and keys, each with those of weight and bias.
int64_t scratch_bytes(const QkNormBackward& op, int num_multiprocessors) {
  return qk_norm_blocks(num_multiprocessors) * 4 * op.dqkv.shape(4) * kFloatBytes;
}

int64_t scratch_bytes(const AttentionForward& op, int) {
  const HeadVectors& q = op.qkv.q;
  const int64_t chunks = q.T == 1 ? q.B * q.H * num_key_chunks(op) * (q.D + 2) * kFloatBytes : 0;
  return has_flash_attention(q.D, q.dtype) ? chunks
                                           : std::max(chunks, unfused_scratch(op.qkv).num_bytes);
}

int64_t head_gradients_bytes(const Qkv& qkv) {
  const HeadVectors &q = qkv.q, &k = qkv.k;
  return k.H == q.H ? 0 : round_up(2 * k.num_bytes() / k.H * q.H);
}

// Where the kernels leave no sums for the gradient of the bias, a pass over dqkv makes them.
int64_t scratch_bytes(const AttentionBackward& op, int num_multiprocessors) {
  const HeadVectors& q = op.qkv.q;
  const int64_t B = q.B, T = q.T, H = q.H, D = q.D;
  const bool sums_bias = !op.dqkv_bias.empty();
  const int64_t bias = sums_bias ? dqkv_row_bytes(H, D) + column_sums_scratch_bytes(
                                                              B * T, H * 3 * D, num_multiprocessors)
                                 : 0;
  return head_gradients_bytes(op.qkv) +
         std::max(bias, has_flash_attention(D, q.dtype)
                            ? flash_backward_bytes(B, T, H, D, sums_bias)
                            : unfused_scratch(op.qkv).num_bytes);
}

int64_t scratch_bytes(const NormalizeMatrix&, int) { return kSumScratchBytes; }
int64_t scratch_bytes(const Sum&, int) { return kSumScratchBytes; }
int64_t scratch_bytes(const SumOfSquares&, int) { return kSumScratchBytes; }
int64_t scratch_bytes(const SquaredError&, int) { return kSumScratchBytes; }

int64_t workspace_bytes(std::span<const AnyOperation> operations, int num_multiprocessors) {
  int64_t most = 0;
  for (const AnyOperation& operation : operations) {
    std::visit(
        [&](const auto& op) { most = std::max(most, scratch_bytes(op, num_multiprocessors)); },
        operation);
  }
  return kGemmWorkspaceBytes + round_up(most);
}

}  // namespace weft::cuda
