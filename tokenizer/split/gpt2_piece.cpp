#include "tokenizer/split/gpt2_piece.h"

#include "tokenizer/split/char_at.h"

namespace weft {
namespace {

// `\s+(?!\S)|\s+`: a run at the end of the text is one piece; before anything else its last
// character is left for the next piece, unless it is the only one.
const uint8_t* white_space_end(const uint8_t* p, const uint8_t* end) {
  const uint8_t* const begin = p;
  const uint8_t* last = p;
  while (p < end) {
    const Char c = char_at(p, end);
    if (c.char_class != CharClass::kSpace) return last == begin ? p : last;
    last = p;
    p += c.num_bytes;
  }
  return p;
}

}  // namespace

const uint8_t* gpt2_piece_end(const uint8_t* p, const uint8_t* end) {
  if (*p == ' ' && p + 1 < end) {
    const Char next = char_at(p + 1, end);
    if (next.char_class == CharClass::kSpace) return white_space_end(p, end);
    return run_end(p + 1 + next.num_bytes, end, next.char_class);
  }
  if (*p == '\'') {
    if (const size_t num_bytes = contraction_bytes(p, end)) return p + num_bytes;
  }
  const Char first = char_at(p, end);
  if (first.char_class == CharClass::kSpace) return white_space_end(p, end);
  return run_end(p + first.num_bytes, end, first.char_class);
}

size_t split_gpt2_scalar(std::string_view text, size_t begin, size_t* ends, size_t max_pieces) {
  const auto* const data = reinterpret_cast<const uint8_t*>(text.data());
  const uint8_t* const end = data + text.size();
  const uint8_t* p = data + begin;
  size_t num_pieces = 0;
  while (num_pieces < max_pieces && p < end) {
    p = gpt2_piece_end(p, end);
    ends[num_pieces++] = static_cast<size_t>(p - data);
  }
  return num_pieces;
}

}  // namespace weft
