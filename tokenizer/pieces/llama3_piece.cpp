#include "tokenizer/pieces/llama3_piece.h"

#include "tokenizer/pieces/contraction.h"
#include "tokenizer/pieces/white_space.h"

namespace weft {

const uint8_t* numbers_end(const PatternText& text, const uint8_t* p, int max_numbers) {
  if (max_numbers == kAnyNumbers) return text.run_end(p, kNumbers);
  for (int i = 0; i < max_numbers && p < text.end; ++i) {
    const PatternChar c = text.at(p);
    if ((c.classes & kNumbers) == 0) break;
    p += c.num_bytes;
  }
  return p;
}

template <Llama3Rules rules>
const uint8_t* llama3_piece_end(const PatternText& text, const uint8_t* p) {
  constexpr ClassSet kNotOther = kWhiteSpace | kNumbers | rules.words;
  if (rules.has_contractions && *p == '\'') {
    if (const size_t num_bytes = any_case_contraction_bytes(p, text.end)) return p + num_bytes;
  }
  const PatternChar first = text.at(p);
  const uint8_t* const next = p + first.num_bytes;
  if (first.classes & rules.words) return text.run_end(next, rules.words);
  if (first.classes & kNumbers) return numbers_end(text, p, rules.max_numbers);
  if (next < text.end && !is_newline(*p) && (text.at(next).classes & rules.words) != 0)
    return text.run_end(next, rules.words);
  const uint8_t* const others = *p == ' ' ? next : p;
  if (others < text.end && (text.at(others).classes & kNotOther) == 0) {
    p = text.run_end_without(others, kNotOther);
    while (p < text.end && is_newline(*p)) ++p;
    return p;
  }
  return lines_end<rules.end_first>(text, p, [&](const uint8_t* q) { return q == text.end; });
}

template const uint8_t* llama3_piece_end<kLlama3Rules>(const PatternText&, const uint8_t*);
template const uint8_t* llama3_piece_end<kQwen2Rules>(const PatternText&, const uint8_t*);
template const uint8_t* llama3_piece_end<kMegatronV1Rules>(const PatternText&, const uint8_t*);
template const uint8_t* llama3_piece_end<kQwen35Rules>(const PatternText&, const uint8_t*);
template const uint8_t* llama3_piece_end<kCl100kRules>(const PatternText&, const uint8_t*);
template const uint8_t* llama3_piece_end<kCl100kOnigurumaRules>(const PatternText&, const uint8_t*);

}  // namespace weft
