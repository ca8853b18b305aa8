// The scratch of attention on CUDA, which is planned for the longest sequence of a run.
#include <gtest/gtest.h>

#include <cstdint>

#include "kernels/cuda_scratch.h"
#include "kernels/flash_attention.h"

namespace weft {
namespace {

struct Sizes {
  int64_t B, T, H, D;
};

// More heads of a shorter sequence are taken together and have slots, so its sums alone can need
// more memory.
TEST(FlashScratch, OfALongSequenceIsEnoughForAllShorterOnes) {
  const auto needs_more = [](const Sizes& s) {
    const int64_t planned = SemaphoreLayout(s.B, s.T, s.H, s.D).num_bytes();
    return SemaphoreLayout(s.B, s.T - 128, s.H, s.D).num_bytes() > planned;
  };
  ASSERT_TRUE(needs_more({1, 10368, 16, 64}) && needs_more({1, 6912, 32, 96}) &&
              needs_more({2, 5248, 8, 128}))
      << "find sizes again of which shorter sequences need more";
  for (const Sizes& s : {Sizes{1, 10368, 16, 64}, Sizes{1, 6912, 32, 96}, Sizes{2, 5248, 8, 128},
                         Sizes{4, 1024, 16, 96}, Sizes{64, 1024, 12, 64}, Sizes{2, 4000, 40, 80},
                         Sizes{1, 1024, 3, 64}, Sizes{4, 1024, 8, 160}}) {
    for (const bool sums_bias : {false, true}) {
      const int64_t planned = flash_backward_bytes(s.B, s.T, s.H, s.D, sums_bias);
      for (int64_t T = 1; T <= s.T; ++T) {
        // What backward asks for suffices for what it lays out, and the plan for what it asks for.
        const int64_t asked = flash_backward_bytes(s.B, T, s.H, s.D, sums_bias);
        const int64_t laid_out = row_values_bytes(s.B, T, s.H) +
                                 SemaphoreLayout(s.B, T, s.H, s.D).num_bytes() +
                                 (sums_bias ? bias_sums_bytes(s.B, T, s.H, s.D) : 0);
        ASSERT_LE(asked, planned) << T << " of " << s.T << " tokens, head size " << s.D;
        ASSERT_LE(laid_out, asked) << T << " of " << s.T << " tokens, head size " << s.D;
      }
    }
  }
}

// A head of more than 128 columns has lse2 and delta alone, in rows of 256, and a ticket.
TEST(FlashScratch, HoldsWhatTheTileOfAHeadNeeds) {
  EXPECT_EQ(flash_backward_bytes(2, 300, 4, 160, true), 2 * 2 * 4 * 512 * 4 + 256);
  EXPECT_EQ(flash_backward_bytes(2, 300, 4, 104, true), 2 * 2 * 4 * 512 * 4 + 256);
  // All 8 heads have slots of 6 blocks, with a counter and sums in 96 columns each.
  EXPECT_EQ(flash_backward_bytes(2, 300, 4, 80, false),
            2 * 2 * 4 * 512 * 4 + 256 + 8 * 6 * 64 * 96 * 4);
  // Three rows of sums for each of three tiles.
  EXPECT_EQ(flash_backward_bytes(2, 300, 4, 80, true) - flash_backward_bytes(2, 300, 4, 80, false),
            2 * 3 * 3 * 4 * 96 * 4);
}

// An H200 has 132 multiprocessors.
double backward_mib(int64_t B, int64_t T, int64_t H, int64_t D, bool sums_bias) {
  char memory[1];
  AttentionBackward op{.qkv = Tensor(nullptr, DType::kBFloat16, {B, T, H, 3, D})};
  if (sums_bias) op.dqkv_bias = Tensor(memory, DType::kFloat32, {3 * H * D});
  return static_cast<double>(cuda::scratch_bytes(op, 132)) / (1 << 20);
}

// A 124M model's attention took this on an H200 (tests/bench/results, weft-train --dry-run).
TEST(FlashScratch, IsThatOfAGpuClosely) {
  const double with_bias = backward_mib(64, 1024, 12, 64, true);
  EXPECT_GE(with_bias, 6 + 20) << "lse and delta, and the sums of 82 heads";
  EXPECT_LT(with_bias, 36);
  EXPECT_NEAR(with_bias - backward_mib(64, 1024, 12, 64, false),
              3 * 8 * 64 * 12 * 64 * 4 / 1048576.0, 0.01);
}

// Where queries share keys, the gradients of each head's come first, and they are bf16.
TEST(FlashScratch, HoldsTheGradientsOfEachHeadWhereQueriesShareKeys) {
  constexpr DType kX = DType::kBFloat16;
  const AttentionBackward own{.qkv = Tensor(nullptr, kX, {2, 1024, 12, 3, 64})};
  const AttentionBackward shared{.qkv = Tensor(nullptr, kX, {2, 1024, 3, 6, 64})};
  EXPECT_EQ(cuda::head_gradients_bytes(own.qkv), 0);
  EXPECT_EQ(cuda::head_gradients_bytes(shared.qkv), 2 * 2 * 1024 * 12 * 64 * 2);
  EXPECT_EQ(cuda::scratch_bytes(shared, 132) - cuda::scratch_bytes(own, 132),
            cuda::head_gradients_bytes(shared.qkv));
}

// For heads without flash attention scores are in memory: of all heads if they fit, and never of
// more than 128 MiB, unless a single head needs it.
TEST(UnfusedScratch, HoldsTheScoresOfSomeHeads) {
  const auto mib_of = [&](int64_t T, int64_t H) { return backward_mib(1, T, H, 145, false); };
  // Scores and their gradients of 512 queries, three sums and four copies of 152 columns.
  const double of_head = 2048 * (2 * 512 * 4 + 152 * (3 * 4 + 4 * 2)) / 1048576.0;
  EXPECT_NEAR(mib_of(2048, 2), 2 * of_head, 0.01);
  EXPECT_NEAR(mib_of(2048, 20), 128, 0.01);
  EXPECT_NEAR(mib_of(32768, 20), 16 * of_head, 0.01);
  EXPECT_GE(mib_of(32760, 20), 128) << "a shorter sequence fits into the memory of a longer one";
}

}  // namespace
}  // namespace weft
