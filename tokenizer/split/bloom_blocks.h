// BLOOM's pattern (bloom_piece.h) as an algebra of masks, for split_blocks.
//
// Included by one .cpp per instruction set, as split_blocks.h is.
#pragma once

#include <cstdint>

#include "tokenizer/pieces/bloom_piece.h"
#include "tokenizer/split/shared_blocks.h"

namespace weft {
namespace {

struct BloomBlocks : BlockPattern {
  static constexpr PieceEnd kPieceEnd = bloom_piece_end;
  static constexpr bool kAsksForPunctuation = true;

  template <typename Instructions, bool is_last, typename Masks>
  [[gnu::always_inline]] static inline uint64_t starts(const uint8_t*, const Masks& masks,
                                                       uint64_t) {
    const uint64_t words = ~(masks.white_space | masks.punctuation);
    return (words & ~(words << 1) & ~(masks.spaces << 1)) | (masks.spaces & words >> 1) |
           (~words & words << 1);
  }
};

}  // namespace
}  // namespace weft
