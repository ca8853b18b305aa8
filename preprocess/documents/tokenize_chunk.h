// The work on the documents of one chunk: tokenize, and lay the tokens out as they go to disk.
#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "indexed_dataset/format/pair/dtype.h"
#include "preprocess/documents/batch.h"
#include "preprocess/documents/line_reader.h"
#include "preprocess/documents/row_reader.h"
#include "preprocess/inputs/input.h"
#include "preprocess/stream/line_chunks.h"
#include "tokenizer/tokenizer.h"

namespace weft {

// 64 MiB: no document that a model should read as one is so long, and a worker may hold a few
// lines.
inline constexpr size_t kDefaultMaxLineBytes = size_t{64} << 20;

enum class EmptyDocuments { kRecord, kSkip };
enum class OnBadLine { kStop, kSkip };

struct TokenizeRules {
  std::vector<std::string> json_keys{"text"};
  // The inputs are plain texts, and documents end there; nothing: they are lines of JSON.
  std::optional<SplitAt> split_texts_at;
  Condition where;  // of the documents that go in
  bool append_eod = false;
  std::optional<int32_t> end_of_document;  // that append_eod appends; nothing: the vocabulary's
  SpecialTokens special_tokens = SpecialTokens::kLiteral;
  bool add_special_tokens = false;  // what the vocabulary's template puts around each text
  EmptyDocuments empty_documents = EmptyDocuments::kRecord;
  OnBadLine on_bad_line = OnBadLine::kStop;
  size_t max_line_bytes = kDefaultMaxLineBytes;
  std::optional<TokenType> token_type;  // of the file, uint16 or int32; nothing: by Megatron's rule
  std::string origin_key{kNoOriginKey};  // origin.h

  SplitAt split_at() const { return split_texts_at.value_or(SplitAt::kLine); }
  bool keeps_origins() const { return origin_key != kNoOriginKey; }
};

// The token type of files under `rules`. Throws UsageError if the vocabulary's ids do
// not fit the one that the rules want.
TokenType token_type(const TokenizeRules& rules, int64_t vocabulary_size);

// Throws UsageError for an input, which was looked at, that the rules are not for: a table is no
// plain text.
void check_can_be_read(const Input& input, const TokenizeRules& rules);

// The reader of what a LineChunker has cut at rules.split_at(). Throws as LineReader.
std::unique_ptr<ChunkReader> make_chunk_reader(const TokenizeRules& rules);

// One per thread: owns a tokenizer with its word cache.
class ChunkTokenizer {
 public:
  ChunkTokenizer(std::shared_ptr<const Vocabulary> vocabulary, const TokenizeRules& rules);

  // Under OnBadLine::kStop all end at the first bad line.
  void tokenize(const LineChunk& chunk, Batch& result);
  void tokenize(const RowChunk& chunk, Batch& result);
  void tokenize(DocumentReader& documents, Batch& result);

 private:
  // The size of an output before the current document.
  struct Mark {
    int64_t num_tokens = 0, num_sequences = 0;
  };
  template <typename Id>
  LineOutcome append_document(DocumentReader& document, Batch& result);
  template <typename Id>
  void append_texts(DocumentReader& document, size_t key_idx, Batch::Output& output);
  template <typename Id>
  void end_document(const Mark& before, int64_t locator, const Origin& origin,
                    Batch::Output& output, Batch& result) const;

  TokenizeRules rules_;
  TokenType type_;
  int32_t end_of_document_ = -1;
  Tokenizer tokenizer_;
  std::unique_ptr<ChunkReader> lines_;
  RowReader rows_;
  std::vector<Mark> marks_;  // by key
};

}  // namespace weft
