// The pattern of Llama-3 and its relatives, from GPT-4's (cl100k) on:
//
//   (?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|
//   \s*[\r\n]+|\s+(?!\S)|\s+
#pragma once

#include <cstdint>

#include "tokenizer/pieces/pattern_text.h"

namespace weft {

struct Llama3Rules {
  int max_numbers;         // in a piece; kAnyNumbers: no limit
  ClassSet words;          // what stands for \p{L}
  bool end_first = false;  // `\s++$` stands before the other alternatives for white space
  bool has_contractions = true;
};
inline constexpr int kAnyNumbers = 0;

inline constexpr Llama3Rules kLlama3Rules = {3, kLetters};
inline constexpr Llama3Rules kQwen2Rules = {1, kLetters};
inline constexpr Llama3Rules kMegatronV1Rules = {1, kLetters, false, false};
inline constexpr Llama3Rules kQwen35Rules = {1, kLetters | kMarks};
inline constexpr Llama3Rules kCl100kRules = {3, kLetters, true};
inline constexpr Llama3Rules kCl100kOnigurumaRules = {kAnyNumbers, kLetters, true};

// PieceEnd, for each of the rules above.
template <Llama3Rules rules>
const uint8_t* llama3_piece_end(const PatternText& text, const uint8_t* p);

// Returns the end of `\p{N}{1,max_numbers}` at `p`.
const uint8_t* numbers_end(const PatternText& text, const uint8_t* p, int max_numbers);

}  // namespace weft
