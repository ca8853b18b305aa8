#include "tokenizer/pieces/o200k_piece.h"

#include "tokenizer/pieces/contraction.h"
#include "tokenizer/pieces/llama3_piece.h"
#include "tokenizer/pieces/white_space.h"

namespace weft {
namespace {

constexpr ClassSet kCaseless = set_of(CharClass::kCaseless) | kMarks;
constexpr ClassSet kUpperOrCaseless = set_of(CharClass::kUpper) | kCaseless;
constexpr ClassSet kLowerOrCaseless = set_of(CharClass::kLower) | kCaseless;

// Returns the end of `U*L+` at `p`, or null. U* takes all it can; where nothing of L follows, it
// gives characters back until one of them, which has no case, is L+.
const uint8_t* mixed_word_end(const PatternText& text, const uint8_t* p) {
  const uint8_t* behind_caseless = nullptr;
  while (p < text.end) {
    const PatternChar c = text.at(p);
    if ((c.classes & kUpperOrCaseless) == 0) {
      if (c.classes & kLowerOrCaseless) return text.run_end(p, kLowerOrCaseless);
      break;
    }
    p += c.num_bytes;
    if (c.classes & kCaseless) behind_caseless = p;
  }
  return behind_caseless;
}

// Returns the end of `U+L*` at `p`, or null, where `U*L+` does not match.
const uint8_t* upper_word_end(const PatternText& text, const uint8_t* p) {
  const uint8_t* const end = text.run_end(p, kUpperOrCaseless);
  return end == p ? nullptr : end;
}

// Returns the end of the first two alternatives at `p` without contractions, or null.
const uint8_t* word_end(const PatternText& text, const uint8_t* p) {
  const PatternChar first = text.at(p);
  const bool may_be_prefix = (first.classes & (kLetters | kNumbers)) == 0 && !is_newline(*p);
  const uint8_t* const behind = p + first.num_bytes;
  for (const auto& end_of : {mixed_word_end, upper_word_end}) {
    if (may_be_prefix) {
      if (const uint8_t* end = end_of(text, behind)) return end;
    }
    if (const uint8_t* end = end_of(text, p)) return end;
  }
  return nullptr;
}

}  // namespace

template <O200kRules rules>
const uint8_t* o200k_piece_end(const PatternText& text, const uint8_t* p) {
  if (const uint8_t* const end = word_end(text, p)) {
    if (!rules.has_contractions || end == text.end || *end != '\'') return end;
    return end + any_case_contraction_bytes(end, text.end);
  }
  if (text.at(p).classes & kNumbers) return numbers_end(text, p, rules.max_numbers);
  constexpr ClassSet kNotOther = kWhiteSpace | kLetters | kNumbers;
  const uint8_t* const others = *p == ' ' ? p + 1 : p;
  if (others < text.end && (text.at(others).classes & kNotOther) == 0) {
    p = text.run_end_without(others, kNotOther);
    while (p < text.end && (is_newline(*p) || *p == '/')) ++p;
    return p;
  }
  return lines_end<false>(text, p, [&](const uint8_t* q) { return q == text.end; });
}

template const uint8_t* o200k_piece_end<kO200kRules>(const PatternText&, const uint8_t*);
template const uint8_t* o200k_piece_end<kTekkenRules>(const PatternText&, const uint8_t*);

}  // namespace weft
