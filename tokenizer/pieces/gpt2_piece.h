// GPT-2's pattern (Radford et al. 2019, encoder.py of the release)
//
//   's|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+
//
// and those of families that cut text by something else before: StarCoder's and Falcon's.
#pragma once

#include <cstdint>

#include "tokenizer/pieces/pattern_text.h"

namespace weft {

// All these are PieceEnd.
const uint8_t* gpt2_piece_end(const PatternText& text, const uint8_t* p);

// Digits(individual_digits=true) before GPT-2's pattern. The classes must have kNumbersOf17: an
// unassigned code point of 16.0 that is a number of 17.0 is a piece of its own either way.
const uint8_t* starcoder_piece_end(const PatternText& text, const uint8_t* p);

// Punctuation(Contiguous), then GPT-2's pattern, then Digits(individual_digits=false) and
// Split([0-9][0-9][0-9]) on the bytes: Hugging Face runs these two on the printable alphabet, in
// which the bytes kFalconNumbers are written as superscripts and fractions, so that they are
// numbers and characters are cut there. The classes must have kPunctuationOf8.
const uint8_t* falcon_piece_end(const PatternText& text, const uint8_t* p);
inline constexpr uint8_t kFalconNumbers[] = {0xB2, 0xB3, 0xB9, 0xBC, 0xBD, 0xBE};

}  // namespace weft
