#include "preprocess/benchmarks/python_text.h"

#include <algorithm>
#include <stdexcept>

#include "tokenizer/unicode/char_classes.h"
#include "tokenizer/unicode/utf8.h"

namespace weft {
namespace {

CodePoint code_point_at(std::string_view text, size_t at) {
  const auto* const begin = reinterpret_cast<const uint8_t*>(text.data());
  if (begin[at] < 0x80) return {begin[at], 1};
  return non_ascii_code_point_at(begin + at, begin + text.size());
}

CharClass class_of(uint32_t code_point) {
  if (code_point == kNotACodePoint) return CharClass::kOther;
  return CharClasses::of(CharClasses::Version::k16).class_of(code_point);
}

// str.isspace() of a character: White_Space, and four separators of ASCII.
bool is_space(uint32_t code_point) {
  return class_of(code_point) == CharClass::kSpace || (code_point >= 0x1C && code_point <= 0x1F);
}

std::string replaced(std::string text, std::string_view old, std::string_view by) {
  for (size_t at = text.find(old); at != text.npos; at = text.find(old, at + by.size()))
    text.replace(at, old.size(), by);
  return text;
}

// re.sub("\\[.*?\\]", "", text)
std::string without_brackets(const std::string& text) {
  std::string result;
  for (size_t at = 0; at < text.size();) {
    const size_t end = text[at] == '[' ? text.find_first_of("]\n", at) : text.npos;
    if (end != text.npos && text[end] == ']') {
      at = end + 1;
    } else {
      result += text[at++];
    }
  }
  return result;
}

}  // namespace

std::string_view stripped(std::string_view text) {
  size_t begin = text.size(), end = 0;
  for (size_t at = 0; at < text.size();) {
    const CodePoint here = code_point_at(text, at);
    if (!is_space(here.value)) {
      begin = std::min(begin, at);
      end = at + here.num_bytes;
    }
    at += here.num_bytes;
  }
  return end == 0 ? std::string_view() : text.substr(begin, end - begin);
}

std::string capitalized(const std::string& text) {
  std::string result = text;
  for (size_t at = 0; at < text.size();) {
    const CodePoint here = code_point_at(text, at);
    const auto changing = at == 0 ? CharClass::kLower : CharClass::kUpper;
    if (class_of(here.value) == changing) {
      if (here.value >= 0x80)
        throw std::runtime_error(
            "a letter beyond ASCII would be capitalized, which is not "
            "supported: '" +
            text.substr(at, here.num_bytes) + "'");
      result[at] = static_cast<char>(text[at] ^ 0x20);
    }
    at += here.num_bytes;
  }
  return result;
}

std::string without_wikihow_marks(const std::string& text) {
  const std::string titled = replaced(std::string(stripped(text)), " [title]", ". ");
  return replaced(without_brackets(titled), "  ", " ");
}

}  // namespace weft
