// The work on one chunk of lines: parse, tokenize, and lay the tokens out as they go to disk.
#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "indexed_dataset/dtype.h"
#include "preprocess/bad_lines.h"
#include "preprocess/json_line.h"
#include "preprocess/line_chunks.h"
#include "preprocess/text_hash.h"
#include "tokenizer/tokenizer.h"

namespace weft {

enum class EmptyDocuments { kRecord, kSkip };
enum class OnBadLine { kStop, kSkip };

struct TokenizeRules {
  std::vector<std::string> json_keys{"text"};
  bool append_eod = false;
  SpecialTokens special_tokens = SpecialTokens::kLiteral;
  EmptyDocuments empty_documents = EmptyDocuments::kRecord;
  OnBadLine on_bad_line = OnBadLine::kStop;
  size_t max_line_bytes = size_t{256} << 20;
  std::optional<TokenType> token_type;  // of the file, uint16 or int32; nothing: by Megatron's rule
  std::string origin_key{kNoOriginKey};  // origin_strings.h

  bool keeps_origins() const { return origin_key != kNoOriginKey; }
};

// The token type of files under `rules`. Throws std::invalid_argument if the vocabulary's ids do
// not fit the one that the rules want.
TokenType token_type(const TokenizeRules& rules, int64_t vocabulary_size);

// What became of one chunk. Reused from chunk to chunk.
struct TokenizedChunk {
  struct Output {
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
    // As they go into the file; valid until they change.
    std::span<const std::byte> token_bytes() const {
      return tokens_32.empty() ? std::as_bytes(std::span(tokens_16))
                               : std::as_bytes(std::span(tokens_32));
    }
  };
  std::vector<Output> outputs;  // one per key
  int64_t num_lines = 0;
  int64_t num_documents = 0;        // lines that are documents, empty ones included
  int64_t num_empty_documents = 0;  // texts without a token, counted over all keys
  int64_t num_tokens = 0;           // over all keys
  int64_t num_replaced_surrogates = 0;
  int64_t num_code_points = 0;  // of the lines, as Megatron's "MB/s" counts
  TextHash text;                // of all lines
  BadLineCounts bad_line_counts;
  // The first kNumShownBadLines; line_number counts from 1 within the chunk, the input's name is
  // not filled in.
  std::vector<BadLine> bad_lines;

  void clear(size_t num_keys);  // keeps its memory
};

// One per thread: owns a tokenizer with its word cache.
class ChunkTokenizer {
 public:
  ChunkTokenizer(std::shared_ptr<const Vocabulary> vocabulary, const TokenizeRules& rules);

  // Under OnBadLine::kStop it ends at the first bad line. Of a line with a long text the chunk's
  // memory is given back to the system while the tokens grow; its text cannot be read afterwards.
  void tokenize(LineChunk& chunk, TokenizedChunk& result);

 private:
  // How much of an output lines before the current one made.
  struct Mark {
    size_t num_tokens = 0, num_sequences = 0;
  };
  template <typename Id>
  LineOutcome tokenize_line(std::string_view line, int64_t offset_bytes, TokenizedChunk& result);
  template <typename Id>
  bool append_texts(size_t key_idx, TokenizedChunk::Output& output);
  template <typename Id>
  void end_document(const Mark& before, int64_t offset_bytes, const Origin& origin,
                    TokenizedChunk::Output& output, TokenizedChunk& result) const;

  TokenizeRules rules_;
  TokenType type_;
  int32_t end_of_document_ = -1;
  Tokenizer tokenizer_;
  JsonLineParser parser_;
  std::vector<Mark> marks_;  // by key
};

}  // namespace weft
