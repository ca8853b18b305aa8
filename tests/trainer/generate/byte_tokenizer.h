// A tokenizer in GPT-2's format whose tokens are the bytes and <|endoftext|>, the last of 257.
// Token 0 is '!', and the characters up to '~' follow.
#pragma once

#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>

#include "indexed_dataset/base/storage/file_io.h"

namespace weft {

constexpr int kByteTokens = 257;

// Returns the UTF-8 of the character that stands for a byte. [GPT-2, encoder.py, bytes_to_unicode]
inline std::string character_of_byte(int byte) {
  const auto is_printable = [](int b) {
    return (b >= 33 && b <= 126) || (b >= 161 && b <= 172) || b >= 174;
  };
  int code = byte;
  if (!is_printable(byte)) {
    code = 256;
    for (int b = 0; b < byte; ++b) code += is_printable(b) ? 0 : 1;
  }
  if (code < 0x80) return std::string(1, static_cast<char>(code));
  return {static_cast<char>(0xc0 | code >> 6), static_cast<char>(0x80 | (code & 0x3f))};
}

// Writes vocab.json and merges.txt.
inline void write_byte_tokenizer(const std::filesystem::path& folder) {
  nlohmann::json vocabulary;
  for (int id = 0; id < 256; ++id) vocabulary[character_of_byte((id + 33) % 256)] = id;
  vocabulary["<|endoftext|>"] = 256;
  std::filesystem::create_directories(folder);
  write_file_atomically(folder / "vocab.json", vocabulary.dump());
  write_file_atomically(folder / "merges.txt", "#version: 0.2\n");
}

// The same as a text's tokens: those of printable ASCII.
inline char byte_of_token(int id) { return static_cast<char>((id + 33) % 256); }

}  // namespace weft
