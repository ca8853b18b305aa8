// Classes of Unicode 15.0 code points as the GPT-2 pattern sees them: \p{L}, \p{N}, \s and
// everything else.
//
// The tables are computed from ICU when Weft is built (generate_unicode_classes.cpp) and pinned to
// Unicode 15.0 whatever ICU's version is: the ids of a text must not depend on the machine that
// Weft was built on.
#pragma once

#include <cstdint>

namespace weft {

inline constexpr char kUnicodeVersion[] = "15.0";

// kSpace is the property White_Space (25 code points), which is what \s means in tiktoken's,
// Hugging Face's and OpenAI's engines; U+001C..001F, U+180E, U+200B and U+FEFF are not in it.
enum class CharClass : uint8_t { kOther = 0, kLetter = 1, kNumber = 2, kSpace = 3 };

// Two-stage table: code point / 256 -> block; a block holds 256 classes of two bits, lowest bits
// first.
extern const uint8_t kClassBlockOfPage[0x1100];
extern const uint8_t kClassBlocks[][64];

// For the first byte of a character of two or three bytes, less 0xC0: the class of all characters
// that begin with it (Cyrillic, Han, Hangul, ...), or kMixedClass.
inline constexpr uint8_t kMixedClass = 4;
extern const uint8_t kClassOfLead[64];

// The classes of code points below U+10000 in one stage, packed as in a block.
extern const uint8_t kClassesBelow10000[0x4000];

// `code_point` must be below 0x110000.
inline CharClass class_of(uint32_t code_point) {
  const uint8_t* block = kClassBlocks[kClassBlockOfPage[code_point >> 8]];
  return static_cast<CharClass>((block[(code_point >> 2) & 63] >> (2 * (code_point & 3))) & 3);
}

}  // namespace weft
