#include "tokenizer/split/gpt2_pattern.h"

#include "tokenizer/split/char_at.h"
#include "tokenizer/split/gpt2_piece.h"
#include "tokenizer/split/split_simd.h"

namespace weft {
namespace {

// A block may hold so many pieces; with less room the vector splitters could not write what they
// find.
constexpr size_t kMaxPiecesOfABlock = 64;

}  // namespace

Gpt2Pattern::Gpt2Pattern([[maybe_unused]] Simd simd) : split_batch_(split_gpt2_scalar) {
#if defined(__x86_64__)
  if (simd == Simd::kAvx512) split_batch_ = split_gpt2_avx512;
  if (simd == Simd::kAvx2) split_batch_ = split_gpt2_avx2;
#elif defined(__aarch64__)
  if (simd == Simd::kNeon) split_batch_ = split_gpt2_neon;
#endif
}

size_t Gpt2Pattern::split(std::string_view text, size_t begin, size_t* ends,
                          size_t max_pieces) const {
  return max_pieces < kMaxPiecesOfABlock ? split_gpt2_scalar(text, begin, ends, max_pieces)
                                         : split_batch_(text, begin, ends, max_pieces);
}

// No piece goes on from another character to white space.
bool Gpt2Pattern::is_safe_cut(std::string_view text, size_t at) const {
  const uint8_t before = kByteClasses[static_cast<uint8_t>(text[at - 1])];
  const uint8_t behind = kByteClasses[static_cast<uint8_t>(text[at])];
  constexpr auto kSpace = static_cast<uint8_t>(CharClass::kSpace);
  return before != kSpace && before != kNotAscii && behind == kSpace;
}

}  // namespace weft
