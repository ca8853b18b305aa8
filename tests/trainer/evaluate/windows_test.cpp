#include "trainer/evaluate/windows.h"

#include <gtest/gtest.h>

#include <numeric>

namespace weft {
namespace {

using Tokens = std::vector<int32_t>;

Tokens tokens_up_to(int count) {
  Tokens tokens(static_cast<size_t>(count));
  std::iota(tokens.begin(), tokens.end(), 1);
  return tokens;
}

// lm_eval.utils.get_rolling_token_windows(range(1, 12), 0, 4, 1) through make_disjoint_window gives
// these contexts and predictions.
TEST(RollingWindows, AreThoseOfLmEval) {
  const auto windows = rolling_windows(tokens_up_to(11), 4, 4, 0);
  ASSERT_EQ(windows.size(), 3U);
  EXPECT_EQ(windows[0].tokens, (Tokens{0, 1, 2, 3, 4}));
  EXPECT_EQ(windows[0].num_context, 1U);
  EXPECT_EQ(windows[1].tokens, (Tokens{4, 5, 6, 7, 8}));
  EXPECT_EQ(windows[1].num_context, 1U);
  EXPECT_EQ(windows[2].tokens, (Tokens{7, 8, 9, 10, 11}));
  EXPECT_EQ(windows[2].num_context, 2U);
}

TEST(RollingWindows, PredictEachTokenOnceAfterAsManyAsAWindowHas) {
  for (const int32_t prefix : {-1, 0}) {
    for (int count = 2; count < 30; ++count) {
      for (int64_t length = 2; length < 8; ++length) {
        for (int64_t stride = 1; stride <= length; ++stride) {
          Tokens predicted;
          for (const ScoreRequest& window :
               rolling_windows(tokens_up_to(count), length, stride, prefix)) {
            EXPECT_LE(window.num_inputs(), length);
            const auto first = static_cast<int64_t>(predicted.size());
            // All but the first window read at least length - stride tokens before.
            if (first > 0) {
              EXPECT_GE(static_cast<int64_t>(window.num_context), length - stride + 1);
            }
            predicted.insert(predicted.end(),
                             window.tokens.begin() + static_cast<int64_t>(window.num_context),
                             window.tokens.end());
          }
          const Tokens all = tokens_up_to(count);
          EXPECT_EQ(predicted, Tokens(all.begin() + (prefix < 0 ? 1 : 0), all.end()));
        }
      }
    }
  }
  EXPECT_TRUE(rolling_windows({5}, 4, 4, -1).empty());
}

}  // namespace
}  // namespace weft
