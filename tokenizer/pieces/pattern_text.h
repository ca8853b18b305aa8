// A text, and the classes of its characters by which a pattern cuts it.
#pragma once

#include <cstddef>
#include <cstdint>

#include "tokenizer/unicode/char_classes.h"
#include "tokenizer/unicode/utf8.h"

namespace weft {

struct PatternChar {
  ClassSet classes;  // the one it is in; none for class kOther and for bytes that are not UTF-8
  uint8_t num_bytes;
  uint32_t code_point;
};

struct PatternText {
  const CharClasses& classes;
  const uint8_t* begin;
  const uint8_t* end;

  // `p` < end.
  PatternChar at(const uint8_t* p) const {
    if (*p < 0x80) return {classes.set_of_ascii[*p], 1, *p};
    const CodePoint c = non_ascii_code_point_at(p, end);
    if (c.value == kNotACodePoint) return {0, 1, kNotACodePoint};
    return {set_of(classes.class_of(c.value)), c.num_bytes, c.value};
  }

  // Returns the start of the character that `p` lies in.
  const uint8_t* char_begin(const uint8_t* p) const {
    for (const uint8_t* lead = p; is_continuation(*p) && lead > begin && p - lead < 3;) {
      --lead;
      if (*lead >= 0xC0) return lead + at(lead).num_bytes > p ? lead : p;
    }
    return p;
  }

  // Returns the end of the run of characters of `wanted` classes that goes on at `p`; `p` if there
  // is none.
  const uint8_t* run_end(const uint8_t* p, ClassSet wanted) const {
    return run_end_if(p, [wanted](ClassSet c) { return (c & wanted) != 0; });
  }
  // The same for characters of all classes but `unwanted`.
  const uint8_t* run_end_without(const uint8_t* p, ClassSet unwanted) const {
    return run_end_if(p, [unwanted](ClassSet c) { return (c & unwanted) == 0; });
  }

 private:
  template <typename Goes>
  const uint8_t* run_end_if(const uint8_t* p, Goes goes_on) const {
    while (p < end) {
      const PatternChar c = at(p);
      if (!goes_on(c.classes)) return p;
      p += c.num_bytes;
    }
    return p;
  }
};

inline bool is_newline(uint8_t byte) { return byte == '\n' || byte == '\r'; }

// A function that returns the end of the piece that starts at `p` < text.end: a pattern, one piece
// at a time. Vector splitters are tested against it, and fall back to it for long pieces.
using PieceEnd = const uint8_t* (*)(const PatternText& text, const uint8_t* p);

}  // namespace weft
