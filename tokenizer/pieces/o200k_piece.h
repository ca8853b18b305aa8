// The pattern of GPT-4o (o200k), and Tekken's, which lacks contractions and has \p{N} in place of
// \p{N}{1,3}. With U for [\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}] and L for [\p{Ll}\p{Lm}\p{Lo}\p{M}]:
//
//   [^\r\n\p{L}\p{N}]?U*L+(?i:'s|'t|'re|'ve|'m|'ll|'d)?|
//   [^\r\n\p{L}\p{N}]?U+L*(?i:'s|'t|'re|'ve|'m|'ll|'d)?|
//   \p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+
#pragma once

#include <cstdint>

#include "tokenizer/pieces/pattern_text.h"

namespace weft {

struct O200kRules {
  int max_numbers;
  bool has_contractions;
};
inline constexpr O200kRules kO200kRules = {3, true};
inline constexpr O200kRules kTekkenRules = {1, false};

// PieceEnd, for each of the rules above.
template <O200kRules rules>
const uint8_t* o200k_piece_end(const PatternText& text, const uint8_t* p);

}  // namespace weft
