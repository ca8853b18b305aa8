#include "tokenizer/unicode/char_classes.h"

#include <memory>
#include <string_view>

#include "tokenizer/unicode/class_ranges.h"

namespace weft {
namespace {

constexpr uint32_t kNumCodePoints = 0x110000;

void set_class(CharClasses& classes, CodePointRange range, CharClass char_class) {
  const auto value = static_cast<unsigned>(char_class);
  for (uint32_t c = range.first; c <= range.last; ++c) {
    uint8_t& pair = classes.nibbles[c >> 1];
    pair = static_cast<uint8_t>(c & 1 ? (pair & 0x0F) | value << 4 : (pair & 0xF0) | value);
  }
}

void set_classes(CharClasses& classes, std::span<const CodePointRange> ranges,
                 CharClass char_class) {
  for (const CodePointRange& range : ranges) set_class(classes, range, char_class);
}

void make_16(CharClasses& classes) {
  for (size_t i = 0; i < kClassRuns.size(); ++i) {
    const uint32_t next = i + 1 < kClassRuns.size() ? kClassRuns[i + 1] >> 4 : kNumCodePoints;
    set_class(classes, {kClassRuns[i] >> 4, next - 1}, static_cast<CharClass>(kClassRuns[i] & 15));
  }
}

void use_punctuation_of_8(CharClasses& classes) {
  set_classes(classes, kPunctuationAfter8, CharClass::kSymbol);
  set_classes(classes, kPunctuationOf8, CharClass::kPunctuation);
  for (uint32_t c = '!'; c < 0x80; ++c) {
    if (classes.class_of(c) == CharClass::kSymbol)
      set_class(classes, {c, c}, CharClass::kPunctuation);
  }
}

void use_stops_of_bloom(CharClasses& classes) {
  for (uint32_t c = 0; c < kNumCodePoints; ++c) {
    if (classes.class_of(c) == CharClass::kPunctuation)
      set_class(classes, {c, c}, CharClass::kSymbol);
  }
  for (const char32_t c : std::u32string_view(U"(|).,!?\u2026\u3002\uFF0C\u3001\u0964\u06D4\u060C"))
    set_class(classes, {c, c}, CharClass::kPunctuation);
}

// Letters and marks are kLower, punctuation and symbols kPunctuation. In the ranges that the
// pattern cuts out they are kCaseless and kSymbol, and what is none of them is kMark.
void group_for_deepseek(CharClasses& classes) {
  for (uint32_t c = 0; c < kNumCodePoints; ++c) {
    const bool is_han_or_kana = (c >= 0x4E00 && c <= 0x9FA5) || (c >= 0x3040 && c <= 0x30FF);
    const ClassSet set = set_of(classes.class_of(c));
    if ((set & (kLetters | kMarks)) != 0) {
      set_class(classes, {c, c}, is_han_or_kana ? CharClass::kCaseless : CharClass::kLower);
    } else if ((set & kPunctuationOrSymbols) != 0) {
      set_class(classes, {c, c}, is_han_or_kana ? CharClass::kSymbol : CharClass::kPunctuation);
    } else if (is_han_or_kana) {
      set_class(classes, {c, c}, CharClass::kMark);
    }
  }
}

std::unique_ptr<const CharClasses> make_classes(CharClasses::Version version) {
  auto classes = std::make_unique<CharClasses>();
  make_16(*classes);
  switch (version) {
    case CharClasses::Version::k15:
      set_classes(*classes, kAssignedAfter15, CharClass::kOther);
      break;
    case CharClasses::Version::k16:
      break;
    case CharClasses::Version::kNumbersOf17:
      set_classes(*classes, kNumbersOf17, CharClass::kNumber);
      break;
    case CharClasses::Version::kPunctuationOf8:
      use_punctuation_of_8(*classes);
      break;
    case CharClasses::Version::kStopsOfBloom:
      use_stops_of_bloom(*classes);
      break;
    case CharClasses::Version::kDeepSeek:
      group_for_deepseek(*classes);
      break;
  }
  for (uint32_t c = 0; c < 128; ++c) classes->set_of_ascii[c] = set_of(classes->class_of(c));
  return classes;
}

template <CharClasses::Version version>
const CharClasses& classes_made_once() {
  static const std::unique_ptr<const CharClasses> classes = make_classes(version);
  return *classes;
}

}  // namespace

const CharClasses& CharClasses::of(Version version) {
  switch (version) {
    case Version::k15:
      return classes_made_once<Version::k15>();
    case Version::kNumbersOf17:
      return classes_made_once<Version::kNumbersOf17>();
    case Version::kPunctuationOf8:
      return classes_made_once<Version::kPunctuationOf8>();
    case Version::kStopsOfBloom:
      return classes_made_once<Version::kStopsOfBloom>();
    case Version::kDeepSeek:
      return classes_made_once<Version::kDeepSeek>();
    case Version::k16:
      break;
  }
  return classes_made_once<Version::k16>();
}

}  // namespace weft
