// The alternatives for white space at the end of patterns.
#pragma once

#include <cstdint>

#include "tokenizer/pieces/pattern_text.h"

namespace weft {

// `\s+(?!\S)|\s+` at white space `p`: a run at the end of the text is one piece; before anything
// else its last character is left for the next piece, unless it is the only one. For a pattern that
// follows another in a sequence of Splits the text ends at a character of the classes `stops`.
inline const uint8_t* white_space_end(const PatternText& text, const uint8_t* p, ClassSet stops) {
  const uint8_t* const begin = p;
  const uint8_t* last = p;
  while (p < text.end) {
    const PatternChar c = text.at(p);
    if ((c.classes & kWhiteSpace) == 0) return last == begin || (c.classes & stops) != 0 ? p : last;
    last = p;
    p += c.num_bytes;
  }
  return p;
}

// `\s*[\r\n]+|\s+(?!\S)|\s+` at white space `p`: what goes up to the last end of a line in the run
// is one piece. `is_end(p)` says that the text ends at `p`; `end_first` puts `\s++$` in front.
template <bool end_first, typename IsEnd>
const uint8_t* lines_end(const PatternText& text, const uint8_t* p, IsEnd is_end) {
  const uint8_t* const begin = p;
  const uint8_t* last = p;
  const uint8_t* behind_lines = nullptr;
  while (!is_end(p)) {
    const PatternChar c = text.at(p);
    if ((c.classes & kWhiteSpace) == 0) break;
    if (is_newline(*p)) behind_lines = p + 1;
    last = p;
    p += c.num_bytes;
  }
  if (end_first && is_end(p)) return p;
  if (behind_lines != nullptr) return behind_lines;
  return is_end(p) || last == begin ? p : last;
}

}  // namespace weft
