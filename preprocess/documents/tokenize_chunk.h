// The work on one chunk of lines: parse, tokenize, and lay the tokens out as they go to disk.
#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "indexed_dataset/format/pair/dtype.h"
#include "preprocess/documents/batch.h"
#include "preprocess/documents/json_line.h"
#include "preprocess/stream/line_chunks.h"
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
  std::string origin_key{kNoOriginKey};  // origin.h

  bool keeps_origins() const { return origin_key != kNoOriginKey; }
};

// The token type of files under `rules`. Throws std::invalid_argument if the vocabulary's ids do
// not fit the one that the rules want.
TokenType token_type(const TokenizeRules& rules, int64_t vocabulary_size);

// One per thread: owns a tokenizer with its word cache. Longer strings than `text_piece_bytes` are
// tokenized in pieces.
class ChunkTokenizer {
 public:
  ChunkTokenizer(std::shared_ptr<const Vocabulary> vocabulary, const TokenizeRules& rules,
                 size_t text_piece_bytes = kTextPieceBytes);

  // Under OnBadLine::kStop it ends at the first bad line.
  void tokenize(const LineChunk& chunk, Batch& result);

 private:
  // The size of an output before the current line.
  struct Mark {
    int64_t num_tokens = 0, num_sequences = 0;
  };
  void reserve_for(size_t text_bytes, Batch& result) const;
  LineOutcome tokenize_line(std::string_view line, const LineChunk& chunk, Batch& result);
  template <typename Id>
  LineOutcome append_line(int64_t offset_bytes, Batch& result);
  template <typename Id>
  bool append_texts(size_t key_idx, Batch::Output& output);
  template <typename Id>
  bool append_piece(const TextPiece& piece, std::vector<Id>& tokens);
  template <typename Id>
  void end_document(const Mark& before, int64_t offset_bytes, const Origin& origin,
                    Batch::Output& output, Batch& result) const;

  TokenizeRules rules_;
  size_t text_piece_bytes_;
  TokenType type_;
  int32_t end_of_document_ = -1;
  Tokenizer tokenizer_;
  JsonLineParser parser_;
  std::vector<Mark> marks_;  // by key
  // The end of a text in pieces that is not encoded yet, and the state of its encoding.
  std::string waiting_;
  BegunText begun_;
};

}  // namespace weft
