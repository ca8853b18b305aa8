// Reads a Megatron mmap dataset (format: writer.h).
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "indexed_dataset/dtype.h"
#include "indexed_dataset/file_io.h"

namespace weft {

// Thread-safe after construction. The files stay mapped while it lives.
class DatasetReader {
 public:
  // Opens PREFIX.idx and PREFIX.bin. Checks magic, version, token type, that the index's size fits its counts, and that
  // the .bin ends where the last sequence ends. (Every other check: verify_dataset.)
  // Throws std::runtime_error with what is wrong and where; std::system_error if a file cannot be opened.
  explicit DatasetReader(const std::filesystem::path& prefix);

  TokenType token_type() const { return type_; }
  int64_t num_sequences() const { return num_sequences_; }
  int64_t num_documents() const { return num_bounds_ - 1; }  // empty documents are counted; 0 in files without bounds
  int64_t num_tokens() const;
  int32_t length(int64_t sequence_idx) const;        // tokens
  int64_t offset_bytes(int64_t sequence_idx) const;  // in .bin
  int64_t document_bound(int64_t idx) const;         // first sequence of document idx; idx in [0, num_documents()]
  // Tokens [begin, begin + count) of one sequence, widened. Throws std::out_of_range.
  void copy_tokens(int64_t sequence_idx, int64_t begin, int64_t count, int32_t* tokens) const;
  std::vector<int32_t> tokens(int64_t sequence_idx) const;
  const std::filesystem::path& prefix() const { return prefix_; }

 private:
  std::filesystem::path prefix_;
  MappedFile idx_, bin_;
  TokenType type_{};
  int64_t num_sequences_ = 0, num_bounds_ = 0;
};

// Every structural check of the format: sizes, offsets equal the prefix sum of lengths, bounds monotone from 0 to the
// number of sequences, lengths >= 0, ids below `vocabulary_size` if that is > 0. Returns the problems found, each with
// the position; empty means sound. Throws std::system_error if a file cannot be read.
std::vector<std::string> verify_dataset(const std::filesystem::path& prefix, int64_t vocabulary_size = 0);

}  // namespace weft
