// Small files for the tests of indexed_dataset/.
#pragma once

#include <unistd.h>

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "indexed_dataset/base/storage/file_io.h"
#include "indexed_dataset/format/pair/writer.h"
#include "tests/temporary_folder.h"

namespace weft {

template <typename T>
void append(DatasetWriter& writer, const std::vector<T>& document) {
  const int32_t length = static_cast<int32_t>(document.size());
  writer.append_documents(std::as_bytes(std::span(document)), {&length, 1});
}

// A dataset with one document per entry.
template <typename T>
void write_dataset(const std::filesystem::path& prefix, TokenType type,
                   const std::vector<std::vector<T>>& documents) {
  DatasetWriter writer(prefix, type);
  for (const auto& document : documents) append(writer, document);
  writer.finish();
}

inline std::string to_hex(const std::string& bytes) {
  static const char* digits = "0123456789abcdef";
  std::string hex;
  for (const unsigned char byte : bytes) hex.append({digits[byte >> 4], digits[byte & 15]});
  return hex;
}

}  // namespace weft
