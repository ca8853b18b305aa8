// Cuts text into the pieces of the GPT-2 pattern (Radford et al. 2019, encoder.py of the release)
//
//   's|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+
//
// without a regular expression engine. Every character is a letter, a number, white space or
// "other", so the pieces cover the text without gaps. README: what that means case by case.
#pragma once

#include <cstddef>
#include <string_view>

namespace weft {

// Finds the pieces of `text` from `begin`, which must be the start of the text or the end of one of
// its pieces. Writes at most `max_pieces` end positions to `ends` (the next piece starts where one
// ends) and returns their number: less than `max_pieces` only at the end of the text. Any bytes are
// accepted: a byte that is not part of valid UTF-8 counts as one character of class "other".
size_t split_pieces(std::string_view text, size_t begin, size_t* ends, size_t max_pieces);

}  // namespace weft
