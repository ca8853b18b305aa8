// A small dataset that a small model can learn, for tests.
#pragma once

#include <cstdint>
#include <filesystem>
#include <random>
#include <string>
#include <vector>

#include "tests/indexed_dataset/dataset_writer.h"
#include "tests/temporary_folder.h"

namespace weft {

constexpr int64_t kTinyVocabulary = 64;  // the last id ends documents

// `num_documents` arithmetic progressions modulo 63, each ended by token 63.
inline std::string write_tiny_dataset(const std::filesystem::path& prefix,
                                      int num_documents = 300) {
  std::mt19937 random(7);
  DatasetWriter writer(prefix, TokenType::kUInt16);
  for (int d = 0; d < num_documents; ++d) {
    std::vector<uint16_t> tokens(20 + random() % 150);
    const uint16_t start = static_cast<uint16_t>(random() % 60),
                   step = static_cast<uint16_t>(1 + random() % 5);
    for (size_t i = 0; i < tokens.size(); ++i)
      tokens[i] = static_cast<uint16_t>((start + i * step) % 63);
    tokens.back() = 63;
    const auto length = static_cast<int32_t>(tokens.size());
    writer.append_documents(std::as_bytes(std::span(tokens)), {&length, 1});
  }
  writer.finish();
  return prefix.string();
}

}  // namespace weft
