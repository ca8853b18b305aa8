// Draws the bits of dropout. It is a kernel of its own, because a draw is a long chain of
// multiplications: with few registers, all threads of a multiprocessor run it side by side, while
// the forward kernel had registers for one chain a thread and waited for it.
#include "kernels/cuda/attention/arguments/dropout.cuh"
#include "kernels/cuda/attention/arguments/launch.h"

namespace weft::cuda::attention {
namespace {

constexpr int kThreads = 256;

// A thread draws kMaskWordsPerDraw words, and blocks_per_head blocks the words of a head.
__global__ void __launch_bounds__(kThreads)
    attention_draw_kernel(const Params p, int blocks_per_head, int num_digits) {
  const int64_t draws_per_head = attention_mask_words(p.num_keys) / kMaskWordsPerDraw;
  const int bh = blockIdx.x / blocks_per_head;
  const int64_t draw = static_cast<int64_t>(blockIdx.x % blocks_per_head) * kThreads + threadIdx.x;
  if (draw >= draws_per_head) return;
  // The bits are numbered by the heads of the whole model.
  const int64_t head = static_cast<int64_t>(bh / p.H) * p.total_heads + p.first_head + bh % p.H;
  const uint64_t first_block =
      (p.dropout.first_draw + static_cast<uint64_t>(head * draws_per_head + draw)) * kDropoutDigits;
  uint32_t kept[kMaskWordsPerDraw] = {~0U, ~0U, ~0U, ~0U};
  for (int digit = num_digits - 1; digit >= 0; --digit) {
    const PhiloxBlock random =
        dropout_block(p.dropout.seed, p.dropout.stream, first_block + static_cast<uint64_t>(digit));
#pragma unroll
    for (int i = 0; i < kMaskWordsPerDraw; ++i)
      kept[i] = dropout_digit(p.dropout.threshold, digit, kept[i], random.word[i]);
  }
  reinterpret_cast<uint4*>(p.dropout_mask)[bh * draws_per_head + draw] =
      make_uint4(kept[0], kept[1], kept[2], kept[3]);
}

}  // namespace

void draw_kept(cudaStream_t stream, const Params& params) {
  const int64_t draws_per_head = attention_mask_words(params.num_keys) / kMaskWordsPerDraw;
  const auto blocks_per_head = static_cast<int>((draws_per_head + kThreads - 1) / kThreads);
  attention_draw_kernel<<<params.B * params.H * blocks_per_head, kThreads, 0, stream>>>(
      params, blocks_per_head, dropout_digits(params.dropout.threshold));
  check_launch("attention_draw_kernel");
}

}  // namespace weft::cuda::attention
