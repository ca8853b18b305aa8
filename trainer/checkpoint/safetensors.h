// The safetensors file format. [huggingface/safetensors README, "Format"]
//
//   file := header_length:u64 (little-endian) header:JSON[header_length] the tensors' bytes
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "indexed_dataset/base/storage/file_io.h"
#include "kernels/numbers/tensor.h"

namespace weft {

struct SafetensorsEntry {
  std::string name;
  std::string dtype;  // "F32", "BF16", ...
  std::vector<int64_t> shape;
  int64_t begin = 0, end = 0;  // bytes, from the end of the header
};

// Returns the format's name of a type: "F32", "BF16", "F16", "I32" or "U8".
std::string_view safetensors_dtype(DType dtype);

// Places `entries` back to back in their order (it fills begin and end) and returns the header with
// its length. Spaces pad the header, so that the data starts at a multiple of 64.
std::string safetensors_header(std::vector<SafetensorsEntry>& entries,
                               const std::map<std::string, std::string>& metadata);

// Reads one file, which stays mapped while the object lives. Thread-safe.
class SafetensorsFile {
 public:
  // Checks the header: its length, the types, the shapes against the byte ranges. The ranges must
  // cover the rest of the file without hole or overlap. Throws std::runtime_error with file, tensor
  // and reason, std::system_error if the file cannot be opened.
  explicit SafetensorsFile(const std::filesystem::path& path);

  const std::vector<SafetensorsEntry>& entries() const { return entries_; }
  // Returns null if there is no such tensor. The entry lives as long as this object.
  const SafetensorsEntry* find(std::string_view name) const;
  std::span<const std::byte> bytes(const SafetensorsEntry& entry) const;
  const std::map<std::string, std::string>& metadata() const { return metadata_; }
  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
  MappedFile file_;
  int64_t data_begin_ = 0;
  std::vector<SafetensorsEntry> entries_;
  std::map<std::string, size_t, std::less<>> by_name_;  // places in entries_
  std::map<std::string, std::string> metadata_;
};

}  // namespace weft
