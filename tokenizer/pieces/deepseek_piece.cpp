#include "tokenizer/pieces/deepseek_piece.h"

#include "tokenizer/pieces/llama3_piece.h"
#include "tokenizer/pieces/white_space.h"

namespace weft {
namespace {

constexpr ClassSet kWords = kLetters | kMarks;

bool is_han_or_kana(uint32_t code_point) {
  return (code_point >= 0x4E00 && code_point <= 0x9FA5) ||
         (code_point >= 0x3040 && code_point <= 0x30FF);
}

bool is_ascii_letter(uint8_t byte) { return (byte | 0x20) >= 'a' && (byte | 0x20) <= 'z'; }

// What the third Split sees as the end of its text.
class ThirdSplit {
 public:
  ThirdSplit(const PatternText& text, PatternChar first)
      : text_(text), is_han_or_kana_(is_han_or_kana(first.code_point)) {}

  bool is_end(const uint8_t* p) const {
    if (p == text_.end) return true;
    const PatternChar c = text_.at(p);
    return (c.classes & kNumbers) != 0 || is_han_or_kana(c.code_point) != is_han_or_kana_;
  }
  // The classes of the character at `p`, or none.
  ClassSet classes_at(const uint8_t* p) const { return is_end(p) ? 0 : text_.at(p).classes; }
  const uint8_t* run_end(const uint8_t* p, ClassSet wanted) const {
    while (classes_at(p) & wanted) p += text_.at(p).num_bytes;
    return p;
  }
  const uint8_t* piece_end(const uint8_t* p) const;

 private:
  // True if the third pattern matches at `p`, where a control character or the like stands.
  bool is_prefix(const uint8_t* p) const {
    return (classes_at(p + text_.at(p).num_bytes) & kWords) != 0;
  }

  const PatternText& text_;
  bool is_han_or_kana_;
};

const uint8_t* ThirdSplit::piece_end(const uint8_t* p) const {
  const PatternChar first = text_.at(p);
  const uint8_t* next = p + first.num_bytes;
  if (first.classes & kWords) return run_end(next, kWords);
  if (first.classes & kPunctuationOrSymbols) {
    if (*p < 0x80 && next < text_.end && is_ascii_letter(*next)) {
      while (next < text_.end && is_ascii_letter(*next)) ++next;
      return next;
    }
  } else if (!is_newline(*p) && is_prefix(p)) {
    return run_end(next, kWords);
  }
  const uint8_t* const others = *p == ' ' ? next : p;
  if (classes_at(others) & kPunctuationOrSymbols) {
    p = run_end(others, kPunctuationOrSymbols);
    while (!is_end(p) && is_newline(*p)) ++p;
    return p;
  }
  if (first.classes & kWhiteSpace)
    return lines_end<false>(text_, p, [this](const uint8_t* q) { return is_end(q); });
  while (!is_end(next) && text_.at(next).classes == 0 && !is_prefix(next))
    next += text_.at(next).num_bytes;
  return next;
}

}  // namespace

const uint8_t* deepseek_piece_end(const PatternText& text, const uint8_t* p) {
  const PatternChar first = text.at(p);
  if (first.classes & kNumbers) return numbers_end(text, p, 3);
  return ThirdSplit(text, first).piece_end(p);
}

}  // namespace weft
