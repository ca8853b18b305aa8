// The class of every code point, as patterns see it, in tables that are made from pinned data: the
// ids of a text must not depend on the machine that Weft was built on.
#pragma once

#include <cstdint>

namespace weft {

// kUpper is \p{Lu} and \p{Lt}, kCaseless \p{Lm} and \p{Lo}. kSpace is the property White_Space (25
// code points), which is what \s means in all engines of tokenizers; U+001C..001F, U+180E, U+200B
// and U+FEFF are not in it. kOther: control characters and the like, and what is unassigned.
enum class CharClass : uint8_t {
  kOther,
  kUpper,
  kLower,
  kCaseless,
  kMark,
  kNumber,
  kSpace,
  kPunctuation,
  kSymbol
};
inline constexpr int kNumCharClasses = 9;

// A set of classes: one bit for each but kOther, which no set needs.
using ClassSet = uint8_t;
constexpr ClassSet set_of(CharClass char_class) {
  return static_cast<ClassSet>((1 << static_cast<int>(char_class)) >> 1);
}
inline constexpr ClassSet kLetters =
    set_of(CharClass::kUpper) | set_of(CharClass::kLower) | set_of(CharClass::kCaseless);
inline constexpr ClassSet kMarks = set_of(CharClass::kMark);
inline constexpr ClassSet kNumbers = set_of(CharClass::kNumber);
inline constexpr ClassSet kWhiteSpace = set_of(CharClass::kSpace);
inline constexpr ClassSet kPunctuationOrSymbols =
    set_of(CharClass::kPunctuation) | set_of(CharClass::kSymbol);

// Immutable.
struct CharClasses {
  enum class Version {
    k15,              // Unicode 15.0, for letters, numbers and white space alone
    k16,              // Unicode 16.0
    kNumbersOf17,     // 16.0 with the numbers of 17.0: Hugging Face's Digits
    kPunctuationOf8,  // 16.0 with the punctuation of 8.0 and all of ASCII: its Punctuation
    kStopsOfBloom,    // 16.0; kPunctuation are those that BLOOM's pattern names, and no others
    kDeepSeek,        // 16.0 in the groups that DeepSeek's pattern tells apart (deepseek_piece.h)
  };
  // Made on first use, in a millisecond.
  static const CharClasses& of(Version version);

  // `code_point` must be below 0x110000.
  CharClass class_of(uint32_t code_point) const {
    return static_cast<CharClass>(nibbles[code_point >> 1] >> (4 * (code_point & 1)) & 15);
  }

  // Classes of four bits, lowest first; four bytes more, so that 32 bits can be loaded anywhere.
  uint8_t nibbles[0x110000 / 2 + 4];
  // The set of each ASCII byte's class.
  alignas(64) ClassSet set_of_ascii[128];
};

}  // namespace weft
