// Cuts text into the pieces of the GPT-2 pattern (Radford et al. 2019, encoder.py of the release)
//
//   's|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+
//
// without a regular expression engine. Every character is a letter, a number, white space or
// "other", so the pieces cover the text without gaps. The README goes through the cases.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace weft {

// The instructions that a splitter uses; all give the same pieces. kAvx512 needs BW, VBMI and
// VBMI2 (Intel since Ice Lake, AMD since Zen 4). kNeon: every aarch64 processor.
enum class Simd { kScalar, kAvx2, kAvx512, kNeon };

// True if this processor has them.
bool has_simd(Simd simd);

// Returns the value of a name: scalar, avx2, avx512 or neon. Throws std::invalid_argument for other
// names, and for what this processor lacks.
Simd simd_of_name(const std::string& name);

// Returns the best of this processor, or the one that $WEFT_SIMD names (errors as by simd_of_name).
Simd chosen_simd();

// Room for this many pieces lets the vector splitters work; with less every call is scalar.
inline constexpr size_t kSplitBatch = 256;

// Finds the pieces of `text` from `begin`, which must be the start of the text or the end of one of
// its pieces. Writes at most `max_pieces` (at least 1) end positions to `ends` (the next piece
// starts where one ends) and returns their number: 0 only at the end of the text. Any bytes are
// accepted: a byte that is not part of valid UTF-8 counts as one character of class "other".
size_t split_pieces(std::string_view text, size_t begin, size_t* ends, size_t max_pieces);

// Does the same with chosen instructions, which this processor must have.
size_t split_pieces_with(Simd simd, std::string_view text, size_t begin, size_t* ends,
                         size_t max_pieces);

}  // namespace weft
