// The scratch of flash attention's backward, which is planned for the longest sequence of a run.
#include <gtest/gtest.h>

#include <cstdint>

#include "kernels/flash_attention.h"

namespace weft {
namespace {

struct Sizes {
  int64_t B, T, H, D;
};

// More heads of a shorter sequence are taken together and have slots, so its sums alone can need more memory.
TEST(FlashScratch, OfALongSequenceIsEnoughForAllShorterOnes) {
  const auto needs_more = [](const Sizes& s) {
    const int64_t planned = TurnLayout(s.B, s.T, s.H, s.D).num_bytes();
    return TurnLayout(s.B, s.T - 128, s.H, s.D).num_bytes() > planned;
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
                                 TurnLayout(s.B, T, s.H, s.D).num_bytes() +
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

}  // namespace
}  // namespace weft
