#include "tokenizer/byte_alphabet.h"

#include <array>

namespace weft {
namespace {

constexpr uint32_t kEndOfAlphabet = 0x100 + 68;

constexpr bool stands_for_itself(uint32_t byte) {
  return (byte >= 0x21 && byte <= 0x7E) || (byte >= 0xA1 && byte <= 0xAC) || byte >= 0xAE;
}

struct Alphabet {
  std::array<uint32_t, 256> code_points{};
  std::array<int, kEndOfAlphabet> bytes{};  // -1 where a code point stands for no byte
};

constexpr Alphabet make_alphabet() {
  Alphabet alphabet;
  for (int& byte : alphabet.bytes) byte = -1;
  uint32_t next = 0x100;
  for (uint32_t byte = 0; byte < 256; ++byte) {
    const uint32_t code_point = stands_for_itself(byte) ? byte : next++;
    alphabet.code_points[byte] = code_point;
    alphabet.bytes[code_point] = static_cast<int>(byte);
  }
  return alphabet;
}

constexpr Alphabet kAlphabet = make_alphabet();

}  // namespace

uint32_t code_point_of_byte(uint8_t byte) { return kAlphabet.code_points[byte]; }

std::string to_printable(std::string_view bytes) {
  std::string printable;
  for (char c : bytes) {
    const uint32_t code_point = code_point_of_byte(static_cast<uint8_t>(c));
    if (code_point < 0x80) {
      printable += static_cast<char>(code_point);
    } else {
      printable += static_cast<char>(0xC0 | code_point >> 6);
      printable += static_cast<char>(0x80 | (code_point & 0x3F));
    }
  }
  return printable;
}

std::optional<std::string> from_printable(std::string_view printable) {
  std::string bytes;
  for (size_t i = 0; i < printable.size(); ++i) {
    uint32_t code_point = static_cast<uint8_t>(printable[i]);
    if (code_point >= 0x80) {  // the alphabet ends below U+0800: two bytes or nothing
      if ((code_point & 0xE0) != 0xC0 || i + 1 == printable.size()) return std::nullopt;
      const uint32_t second = static_cast<uint8_t>(printable[++i]);
      if ((second & 0xC0) != 0x80) return std::nullopt;
      code_point = (code_point & 0x1F) << 6 | (second & 0x3F);
      if (code_point < 0x80) return std::nullopt;
    }
    if (code_point >= kEndOfAlphabet || kAlphabet.bytes[code_point] < 0) return std::nullopt;
    bytes += static_cast<char>(kAlphabet.bytes[code_point]);
  }
  return bytes;
}

}  // namespace weft
