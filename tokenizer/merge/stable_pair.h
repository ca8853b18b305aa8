// The test on which everything faster than plain merging rests.
#pragma once

#include <cstdint>

namespace weft {

// True if merging the bytes of two tokens ends with just these two: no merge across their border
// comes first. Tokens are numbered in the order in which merging makes them, bytes first.
//
// Takes the later-made token apart again and again: if the two tokens that then touch at the border
// would have merged before it was made, the pair is not what merging ends with. `limit` is the
// first token that is too late to matter; among equal ones the left is made first.
// (is_valid_token_pair of github/rust-gems, crates/bpe.)
//
// `find(left, right)` returns the product of a pair, or a number above all tokens. halves[t] is the
// pair that token t is made of; a byte has itself as both.
template <typename Find, typename Halves>
bool is_stable_pair(uint32_t left, uint32_t right, const Find& find, const Halves& halves) {
  uint32_t limit = UINT32_MAX;
  for (;;) {
    if (find(left, right) < limit) return false;
    if (left > right) {
      limit = left;
      left = halves[left].right;
      if (left != limit) continue;
      limit = right + 1;
      right = halves[right].left;
      if (right + 1 == limit) return true;
    } else {
      limit = right + 1;
      right = halves[right].left;
      if (right + 1 != limit) continue;
      limit = left;
      left = halves[left].right;
      if (left == limit) return true;
    }
  }
}

}  // namespace weft
