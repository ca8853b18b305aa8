// DeepSeek's pattern, V3 and later: three Splits, each of which sees only the pieces of the one
// before.
//
//   \p{N}{1,3}
//   [一-龥぀-ゟ゠-ヿ]+
//   [!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+|
//    ?[\p{P}\p{S}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+
//
// What the last does not match (control characters, unassigned code points) is a piece, too.
#pragma once

#include <cstdint>

#include "tokenizer/pieces/pattern_text.h"

namespace weft {

// The classes must have CharClasses::Version::kDeepSeek, which has these groups: letters and marks,
// punctuation and symbols, and all that the second Split matches.
inline constexpr ClassSet kDeepSeekWords = kLetters;
inline constexpr ClassSet kDeepSeekOthers = kPunctuationOrSymbols;
inline constexpr ClassSet kDeepSeekHan =
    set_of(CharClass::kCaseless) | set_of(CharClass::kSymbol) | kMarks;

// PieceEnd.
const uint8_t* deepseek_piece_end(const PatternText& text, const uint8_t* p);

}  // namespace weft
