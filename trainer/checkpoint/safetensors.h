// The safetensors file format: an 8-byte little-endian header length, a JSON header, then the
// tensors' bytes. [huggingface/safetensors README, "Format"]
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "indexed_dataset/storage/file_io.h"
#include "kernels/tensor.h"

namespace weft {

struct SafetensorsEntry {
  std::string name;
  std::string dtype;  // "F32", "BF16", ...
  std::vector<int64_t> shape;
  int64_t begin = 0, end = 0;  // bytes, from the end of the header
};

// "F32", "BF16", "I32", "U8".
std::string_view safetensors_dtype(DType dtype);

// Lays `entries` out back to back in their order (fills begin and end) and returns the header, its
// length included, padded with spaces so that the data starts at a multiple of 64.
std::string safetensors_header(std::vector<SafetensorsEntry>& entries,
                               const std::map<std::string, std::string>& metadata);

// Reads one file, mapped while this lives. Thread-safe.
class SafetensorsFile {
 public:
  // Checks the header: its length, types, shapes against byte ranges, no overlap, no hole, the end
  // of the file. Throws std::runtime_error with file, tensor and reason; std::system_error if it
  // cannot be opened.
  explicit SafetensorsFile(const std::filesystem::path& path);

  const std::vector<SafetensorsEntry>& entries() const { return entries_; }
  const SafetensorsEntry* find(
      std::string_view name) const;  // null where absent; lives as long as this
  std::span<const std::byte> bytes(const SafetensorsEntry& entry) const;
  const std::map<std::string, std::string>& metadata() const { return metadata_; }
  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
  MappedFile file_;
  int64_t data_begin_ = 0;
  std::vector<SafetensorsEntry> entries_;
  std::map<std::string, std::string> metadata_;
};

}  // namespace weft
