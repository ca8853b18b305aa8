#include "tokenizer/pieces/gpt2_piece.h"

#include <algorithm>
#include <iterator>

#include "tokenizer/pieces/contraction.h"
#include "tokenizer/pieces/white_space.h"

namespace weft {
namespace {

// Returns the end of the run of characters that GPT-2's pattern joins to one of these classes. It
// has four groups: letters, numbers, white space and all others.
const uint8_t* gpt2_group_end(const PatternText& text, const uint8_t* p, ClassSet classes,
                              ClassSet stops) {
  for (const ClassSet group : {kLetters, kNumbers}) {
    if (classes & group) return text.run_end(p, group & ~stops);
  }
  return text.run_end_without(p, kLetters | kNumbers | kWhiteSpace | stops);
}

// The text ends at a character of the classes `stops`, where `p` is not.
const uint8_t* gpt2_piece_end_before(const PatternText& text, const uint8_t* p, ClassSet stops) {
  const PatternChar first = text.at(p);
  if (*p == '\'') {
    if (const size_t num_bytes = contraction_bytes(p, text.end)) return p + num_bytes;
  }
  if ((first.classes & kWhiteSpace) == 0)
    return gpt2_group_end(text, p + first.num_bytes, first.classes, stops);
  if (*p == ' ' && p + 1 < text.end) {
    const PatternChar next = text.at(p + 1);
    if ((next.classes & (kWhiteSpace | stops)) == 0)
      return gpt2_group_end(text, p + 1 + next.num_bytes, next.classes, stops);
  }
  return white_space_end(text, p, stops);
}

bool is_digit(uint8_t byte) { return byte >= '0' && byte <= '9'; }

bool is_number_in_printable_alphabet(uint8_t byte) {
  return is_digit(byte) || std::find(std::begin(kFalconNumbers), std::end(kFalconNumbers), byte) !=
                               std::end(kFalconNumbers);
}

// Digits and Split on the bytes of a piece; returns the end of the first part.
const uint8_t* first_part_end(const uint8_t* p, const uint8_t* end) {
  const bool is_number = is_number_in_printable_alphabet(*p);
  const uint8_t* const run = std::find_if(
      p, end, [&](uint8_t b) { return is_number_in_printable_alphabet(b) != is_number; });
  if (!is_number) return run;
  const auto three_digits = [&](const uint8_t* q) {
    return run - q >= 3 && is_digit(q[0]) && is_digit(q[1]) && is_digit(q[2]);
  };
  if (three_digits(p)) return p + 3;
  while (p < run && !three_digits(p)) ++p;
  return p;
}

}  // namespace

const uint8_t* gpt2_piece_end(const PatternText& text, const uint8_t* p) {
  return gpt2_piece_end_before(text, p, 0);
}

const uint8_t* starcoder_piece_end(const PatternText& text, const uint8_t* p) {
  const PatternChar first = text.at(p);
  if (first.classes & kNumbers) return p + first.num_bytes;
  return gpt2_piece_end_before(text, p, kNumbers);
}

// Only as much of the text is looked at as the piece needs: the run of letters or punctuation that
// it is cut from may be long.
const uint8_t* falcon_piece_end(const PatternText& text, const uint8_t* p) {
  constexpr ClassSet kPunctuation = set_of(CharClass::kPunctuation);
  const uint8_t* const begin = text.char_begin(p);
  for (ptrdiff_t num_seen = 64;; num_seen *= 2) {
    const PatternText seen = {text.classes, text.begin, std::min(text.end - p, num_seen) + p};
    const PatternChar first = seen.at(begin);
    const uint8_t* end =
        begin < p ? gpt2_group_end(seen, begin + first.num_bytes, first.classes, kPunctuation)
                  : gpt2_piece_end_before(seen, p, kPunctuation);
    if (first.classes & kPunctuation) end = seen.run_end(begin, kPunctuation);
    end = first_part_end(p, end);
    // Close to the end of what was seen a character may be cut, or white space go on.
    if (seen.end == text.end || seen.end - end > 8) return end;
  }
}

}  // namespace weft
