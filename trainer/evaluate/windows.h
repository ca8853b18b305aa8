// A long text as windows that fit a model: each token is predicted once, after as many tokens
// before it as its window has. [EleutherAI lm-evaluation-harness, lm_eval/utils.py,
// get_rolling_token_windows with context_len 1]
//
//   tokens     a b c d e f g        windows of 4 inputs, stride 2, p the prefix
//   window 0   p a b c              predicts a b c d
//   window 1       b c d e          predicts         e f
//   window 2         c d e f        predicts             g
#pragma once

#include <cstdint>
#include <vector>

#include "trainer/evaluate/scorer.h"

namespace weft {

// Returns the windows of up to `length` inputs; all but the first predict up to `stride` tokens
// (1 to length). The first token is predicted after `prefix`; with prefix -1 it is not predicted.
std::vector<ScoreRequest> rolling_windows(const std::vector<int32_t>& tokens, int64_t length,
                                          int64_t stride, int32_t prefix);

}  // namespace weft
