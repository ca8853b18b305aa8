// Byte-level BPE: text to ids and back, equal to tiktoken's and Hugging Face's tokenizers token for
// token (README of this folder).
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "tokenizer/added_tokens.h"
#include "tokenizer/vocabulary.h"

namespace weft {

// Encodes and decodes with one vocabulary. Holds a word cache (40 MiB at most; making it takes 5
// ms with GPT-2's vocabulary): use one Tokenizer per thread. The vocabulary behind it is shared and
// immutable.
class Tokenizer {
 public:
  explicit Tokenizer(std::shared_ptr<const Vocabulary> vocabulary,
                     SpecialTokens special_tokens = SpecialTokens::kLiteral);
  ~Tokenizer();
  Tokenizer(Tokenizer&&) noexcept;
  Tokenizer& operator=(Tokenizer&&) noexcept;

  // Appends the ids of `text`, which must be valid UTF-8 (callers validate; invalid bytes never
  // crash, and are treated as characters of no class). Time and memory are linear in the text with
  // any vocabulary for which longest match works (BacktrackTable::make: GPT-2's does), else O(n log
  // n). Throws SpecialTokenInText for a special token in the text under SpecialTokens::kError.
  void encode(std::string_view text, std::vector<int32_t>& ids);
  // Does the same in half the memory, and faster. Throws std::invalid_argument for a vocabulary of
  // more than 65536 ids.
  void encode(std::string_view text, std::vector<uint16_t>& ids);
  // Does the same, and puts around it what the tokenizer's own template does (Llama-3's
  // <|begin_of_text|>).
  void encode_with_template(std::string_view text, std::vector<int32_t>& ids);
  void encode_with_template(std::string_view text, std::vector<uint16_t>& ids);

  // Number of bytes of all texts so far that have no entry (Vocabulary::missing_bytes): the ids do
  // not decode to them.
  int64_t num_dropped_bytes() const;

  // True if `text` may be cut at `at`, between its first byte and its last: the ids of both parts
  // are those of the whole. May be false where only a longer look could tell.
  bool is_safe_cut(std::string_view text, size_t at) const;

  // Returns the bytes of `ids`, which are no valid UTF-8 where ids cut a character. Throws
  // std::out_of_range for an id that is not in the vocabulary.
  std::string decode(const int32_t* ids, size_t num_ids) const;
  // Appends the same to `text`, which is faster where its memory is used again.
  void decode(const int32_t* ids, size_t num_ids, std::string& text) const;
  void decode(const uint16_t* ids, size_t num_ids, std::string& text) const;

  const Vocabulary& vocabulary() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace weft
