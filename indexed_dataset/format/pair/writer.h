// Writes one dataset as PREFIX.bin (tokens back to back) and PREFIX.idx (where documents start).
//
// The bytes are drawn in shared_pair_writer.h. Both are written as NAME.part; finish() renames
// .bin, then .idx: the existence of the .idx means that the pair is complete.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <vector>

#include "indexed_dataset/format/pair/dtype.h"
#include "indexed_dataset/format/pair/shared_pair_writer.h"

namespace weft {

// Bounded memory: the index is spilled to PREFIX.idx.part and PREFIX.idx.bounds.part as documents
// arrive. One thread at a time. After an exception only the destructor may follow.
class DatasetWriter {
 public:
  // Creates PREFIX.bin.part. Throws std::system_error. An existing complete pair of this name is
  // replaced only by finish(): its .idx is removed first, then .bin is renamed, then .idx.
  DatasetWriter(const std::filesystem::path& prefix, TokenType type);
  ~DatasetWriter();  // without finish(): removes the .part files
  DatasetWriter(const DatasetWriter&) = delete;
  DatasetWriter& operator=(const DatasetWriter&) = delete;

  // Appends tokens already in the file's type (raw bytes, as they go to disk) that hold whole
  // sequences of `lengths_tokens`; each sequence is one document. A length of 0 is an empty
  // document: a repeated document bound and no sequence (Megatron-Core's form; to skip empty
  // documents do not append them). Throws std::system_error if a write fails, std::logic_error if
  // bytes and lengths do not fit each other.
  void append_documents(std::span<const std::byte> tokens, std::span<const int32_t> lengths_tokens);
  // The same for documents of any number of sequences: `sequence_lengths` are the tokens of each
  // sequence (> 0), `document_sequences` the sequences of each document (0: an empty document).
  void append_documents(std::span<const std::byte> tokens,
                        std::span<const int32_t> sequence_lengths,
                        std::span<const int32_t> document_sequences);

  // Writes the index and syncs both files, still under their .part names: all that may fail for
  // want of space. Nothing may be appended afterwards.
  void seal();
  // Seals if that has not been done, and renames both files into place.
  void finish();

  int64_t num_documents() const { return counts_.num_documents; }  // empty ones included
  int64_t num_tokens() const { return counts_.num_tokens; }

 private:
  void flush();
  void remove_parts() noexcept;
  std::filesystem::path with_suffix(const char* suffix) const;

  std::filesystem::path prefix_;
  TokenType type_;
  std::optional<SharedPairWriter> files_;  // .bin.part, .idx.part, .idx.bounds.part
  // Small appends gathered into large writes.
  std::vector<std::byte> tokens_;
  std::vector<int32_t> sequence_lengths_, document_sequences_;
  DatasetCounts written_, counts_;
  bool sealed_ = false, finished_ = false;
};

}  // namespace weft
