// The result of one chunk of lines: tokens as they go to disk, sequences, documents, bad lines.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "indexed_dataset/base/storage/crc32.h"
#include "indexed_dataset/format/pair/dataset_counts.h"
#include "indexed_dataset/format/pair/shared_pair_writer.h"
#include "preprocess/documents/bad_lines.h"
#include "preprocess/documents/condition.h"
#include "preprocess/documents/origin.h"

namespace weft {

// Reused from chunk to chunk.
struct Batch {
  struct Output {
    // Tokens in the file's type; the other one stays empty. The tokenizer appends to it: no copy.
    std::vector<uint16_t> tokens_16;
    std::vector<int32_t> tokens_32;
    std::vector<int32_t> sequence_lengths;  // tokens of each sequence, > 0
    // Sequences of each document that goes into the file: 1, 0 if it is empty, or one for each
    // string with tokens of a list.
    std::vector<int32_t> document_sequences;
    // Where each document is in the task (DocumentReader::locator).
    std::vector<int64_t> locators;
    std::vector<Origin> origins;  // of each document, or none if they are not kept

    template <typename Id>
    std::vector<Id>& tokens() {
      if constexpr (sizeof(Id) == 2) return tokens_16;
      if constexpr (sizeof(Id) == 4) return tokens_32;
    }
    // The tokens as they go into the file; valid until they change.
    std::span<const std::byte> token_bytes() const {
      return tokens_32.empty() ? std::as_bytes(std::span(tokens_16))
                               : std::as_bytes(std::span(tokens_32));
    }
    int64_t num_tokens() const { return std::ssize(tokens_16) + std::ssize(tokens_32); }
    int64_t num_sequences() const { return std::ssize(sequence_lengths); }
    DatasetCounts counts() const {
      return SharedPairWriter::counts_of(sequence_lengths, document_sequences);
    }
    int64_t held_bytes() const;

    // Forgets the last ones. The tokens that stay must be those of the sequences that stay.
    void cut(int64_t num_tokens, int64_t num_sequences);
    void clear();  // keeps its memory
  };
  std::vector<Output> outputs;  // one per key
  int64_t num_lines = 0;
  int64_t num_documents = 0;        // lines that are documents and go in, empty ones included
  int64_t num_empty_documents = 0;  // texts without a token, counted over all keys
  int64_t num_tokens = 0;           // over all keys
  int64_t num_replaced_surrogates = 0;
  int64_t num_dropped_bytes = 0;  // for which the tokenizer has no entry
  LeftOutCounts left_out;
  BadLineCounts bad_line_counts;
  // The first kNumShownBadLines; line_number counts from 1 within the chunk, the input's name is
  // not filled in.
  std::vector<BadLine> bad_lines;

  void clear(size_t num_keys);  // keeps its memory
};

// Checksums of the bytes that a task, or a part of it, adds to one dataset. They are made from the
// tokens in memory before any file system sees them, so that bytes which did not arrive are found
// before the dataset gets its name. Numbers that count from the begin of a file or an input are
// taken relative to the task: the checksums are known, and in the journal, before its offset is.
struct WrittenChecksums {
  Crc32 tokens;     // of .bin
  Crc32 lengths;    // of .idx: an int32 for each sequence
  Crc32 documents;  // of .idx: the number of sequences of each document, as int32
  Crc32 sources;    // entries of .sources, with offsets from the begin of the task

  void append(const WrittenChecksums& next);
  bool operator==(const WrittenChecksums&) const = default;
};

// Makes the checksums of a batch for one dataset.
WrittenChecksums written_checksums(const Batch::Output& output, int32_t input_idx);

}  // namespace weft
