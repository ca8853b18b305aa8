#include "tokenizer/pieces/deepseek_piece.h"

#include "tokenizer/pieces/llama3_piece.h"
#include "tokenizer/pieces/white_space.h"

namespace weft {
namespace {

bool is_han(PatternChar c) { return (c.classes & kDeepSeekHan) != 0; }

bool is_ascii_letter(uint8_t byte) { return (byte | 0x20) >= 'a' && (byte | 0x20) <= 'z'; }

// What the third Split sees as the end of its text.
class ThirdSplit {
 public:
  ThirdSplit(const PatternText& text, PatternChar first) : text_(text), is_han_(is_han(first)) {}

  bool is_end(const uint8_t* p) const {
    if (p == text_.end) return true;
    const PatternChar c = text_.at(p);
    return (c.classes & kNumbers) != 0 || is_han(c) != is_han_;
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
    return (classes_at(p + text_.at(p).num_bytes) & kDeepSeekWords) != 0;
  }

  const PatternText& text_;
  bool is_han_;
};

const uint8_t* ThirdSplit::piece_end(const uint8_t* p) const {
  const PatternChar first = text_.at(p);
  const uint8_t* next = p + first.num_bytes;
  if (first.classes & kDeepSeekWords) return run_end(next, kDeepSeekWords);
  if (first.classes & kDeepSeekOthers) {
    if (*p < 0x80 && next < text_.end && is_ascii_letter(*next)) {
      while (next < text_.end && is_ascii_letter(*next)) ++next;
      return next;
    }
  } else if (!is_newline(*p) && is_prefix(p)) {
    return run_end(next, kDeepSeekWords);
  }
  const uint8_t* const others = *p == ' ' ? next : p;
  if (classes_at(others) & kDeepSeekOthers) {
    p = run_end(others, kDeepSeekOthers);
    while (!is_end(p) && is_newline(*p)) ++p;
    return p;
  }
  if (first.classes & kWhiteSpace)
    return lines_end<false>(text_, p, [this](const uint8_t* q) { return is_end(q); });
  constexpr ClassSet kMatched = kDeepSeekWords | kDeepSeekOthers | kWhiteSpace;
  while (!is_end(next) && (text_.at(next).classes & kMatched) == 0 && !is_prefix(next))
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
