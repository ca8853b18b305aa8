// What became of one chunk of lines: tokens as they go to disk, sequences, documents, bad lines.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "indexed_dataset/pair/dataset_counts.h"
#include "indexed_dataset/pair/shared_pair_writer.h"
#include "indexed_dataset/storage/scratch_file.h"
#include "preprocess/documents/bad_lines.h"
#include "preprocess/documents/origin.h"

namespace weft {

// How much of one chunk is in memory.
struct ChunkMemory {
  // Longer strings are tokenized in pieces of this.
  size_t text_piece_bytes = size_t{1} << 20;
  // More bytes of tokens, or of sequence lengths, go to a scratch file; a piece's tokens come on
  // top. As many as a chunk of ordinary lines can have: a token of 4 bytes for each of 1 MiB.
  size_t max_output_bytes = size_t{4} << 20;
  std::function<ScratchFile()> make_scratch = {};  // without it everything stays in memory
};

// Reused from chunk to chunk.
struct TokenizedChunk {
  class Output {
   public:
    // In the file's type; the other one stays empty. The tokenizer appends to it: no copy.
    std::vector<uint16_t> tokens_16;
    std::vector<int32_t> tokens_32;
    std::vector<int32_t> sequence_lengths;  // tokens of each sequence, > 0
    // Of each document that goes into the file: 1 sequence, 0 if it is empty, or one for each
    // string with tokens of a list.
    std::vector<int32_t> document_sequences;
    // Of each document: where its line begins, in the decompressed stream.
    std::vector<int64_t> line_offsets;
    std::vector<Origin> origins;  // of each document, or none if they are not kept

    template <typename Id>
    std::vector<Id>& tokens() {
      if constexpr (sizeof(Id) == 2) return tokens_16;
      if constexpr (sizeof(Id) == 4) return tokens_32;
    }
    // As they go into the file; valid until they change. What is stored comes before.
    std::span<const std::byte> token_bytes() const {
      return tokens_32.empty() ? std::as_bytes(std::span(tokens_16))
                               : std::as_bytes(std::span(tokens_32));
    }
    // What comes before tokens and sequence_lengths and lies in a scratch file; valid until the
    // next call of any other function.
    StoredSequences stored() const;

    int64_t num_tokens() const;  // stored ones included, as all that follows
    int64_t num_sequences() const;
    DatasetCounts counts() const;
    int64_t held_bytes() const;  // in memory and in scratch files

    // Moves tokens and all lengths but the last to scratch files if they are too many. Throws
    // std::system_error.
    void keep_small(const ChunkMemory& memory);
    // Forgets the last ones. The tokens that stay must be those of the sequences that stay.
    void cut(int64_t num_tokens, int64_t num_sequences);
    void clear();  // keeps its memory

   private:
    struct Stored {
      explicit Stored(const ChunkMemory& memory)
          : tokens(memory.make_scratch()), lengths(memory.make_scratch()) {}
      ScratchFile tokens, lengths;
      int64_t num_tokens = 0, num_sequences = 0;
      int64_t sum_lengths = 0;  // of the sequences in `lengths`
    };
    template <typename Id>
    void store_tokens(std::vector<Id>& tokens);

    std::shared_ptr<Stored> stored_;  // null: nothing
  };
  std::vector<Output> outputs;  // one per key
  int64_t num_lines = 0;
  int64_t num_documents = 0;        // lines that are documents, empty ones included
  int64_t num_empty_documents = 0;  // texts without a token, counted over all keys
  int64_t num_tokens = 0;           // over all keys
  int64_t num_replaced_surrogates = 0;
  BadLineCounts bad_line_counts;
  // The first kNumShownBadLines; line_number counts from 1 within the chunk, the input's name is
  // not filled in.
  std::vector<BadLine> bad_lines;

  void clear(size_t num_keys);  // keeps its memory
};

}  // namespace weft
