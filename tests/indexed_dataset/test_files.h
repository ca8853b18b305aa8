// Small files for the tests of indexed_dataset/.
#pragma once

#include <unistd.h>

#include <cstdint>
#include <exception>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "indexed_dataset/base/storage/file_io.h"
#include "indexed_dataset/format/soundness/verify.h"
#include "tests/indexed_dataset/dataset_writer.h"
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

// All problems of a dataset; empty if it is sound.
inline std::vector<std::string> verify_dataset(const std::filesystem::path& prefix,
                                               int64_t vocabulary_size = 0) {
  return verify_dataset_files(prefix, vocabulary_size, 1).problems();
}

inline std::string to_hex(const std::string& bytes) {
  static const char* digits = "0123456789abcdef";
  std::string hex;
  for (const unsigned char byte : bytes) hex.append({digits[byte >> 4], digits[byte & 15]});
  return hex;
}

// The message with which an action fails.
inline std::string error_of(const std::function<void()>& action) {
  try {
    action();
  } catch (const std::exception& error) {
    return error.what();
  }
  return "(nothing was thrown)";
}

}  // namespace weft
