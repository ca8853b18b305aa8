// Writes whole datasets for tests and benchmarks.
#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <vector>

#include "indexed_dataset/format/pair/shared_pair_writer.h"

namespace weft {

class DatasetWriter {
 public:
  DatasetWriter(const std::filesystem::path& prefix, TokenType type)
      : prefix_(prefix.string()),
        files_(prefix_ + ".bin", prefix_ + ".new", prefix_ + ".bounds", type) {
    remove_file(prefix_ + ".idx");
    std::filesystem::resize_file(prefix_ + ".bin", 0);
  }

  // Appends tokens of the file's type that hold whole sequences of these lengths. Each sequence is
  // one document, and a length of 0 an empty one.
  void append_documents(std::span<const std::byte> tokens,
                        std::span<const int32_t> lengths_tokens) {
    std::vector<int32_t> sequence_lengths, document_sequences;
    for (const int32_t length : lengths_tokens) {
      if (length != 0) sequence_lengths.push_back(length);
      document_sequences.push_back(length == 0 ? 0 : 1);
    }
    append_documents(tokens, sequence_lengths, document_sequences);
  }
  // The same for documents of any number of sequences.
  void append_documents(std::span<const std::byte> tokens,
                        std::span<const int32_t> sequence_lengths,
                        std::span<const int32_t> document_sequences) {
    files_.write(counts_, tokens, sequence_lengths, document_sequences);
    counts_.add(SharedPairWriter::counts_of(sequence_lengths, document_sequences));
  }

  void finish() {
    files_.prepare(counts_);
    files_.write_index(counts_, {}, counts_, {});
    commit_rename(prefix_ + ".new", prefix_ + ".idx");
    remove_file(prefix_ + ".bounds");
  }

  int64_t num_tokens() const { return counts_.num_tokens; }

 private:
  const std::string prefix_;
  SharedPairWriter files_;
  DatasetCounts counts_;
};

}  // namespace weft
