#include "tokenizer/pieces/bloom_piece.h"

namespace weft {
namespace {

constexpr ClassSet kNoWord = kWhiteSpace | set_of(CharClass::kPunctuation);

bool is_word_at(const PatternText& text, const uint8_t* p) {
  return p < text.end && (text.at(p).classes & kNoWord) == 0;
}

}  // namespace

const uint8_t* bloom_piece_end(const PatternText& text, const uint8_t* p) {
  const auto word_begins = [&](const uint8_t* q) {
    return is_word_at(text, *q == ' ' ? q + 1 : q);
  };
  if (word_begins(p)) return text.run_end_without(*p == ' ' ? p + 1 : p, kNoWord);
  do {
    p += text.at(p).num_bytes;
  } while (p < text.end && !word_begins(p));
  return p;
}

}  // namespace weft
