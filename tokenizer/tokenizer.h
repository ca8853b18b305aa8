// GPT-2 byte-level BPE: text to ids and back, equal to tiktoken's encode_ordinary and Hugging
// Face's GPT2Tokenizer token for token (README of this folder; pattern: Radford et al. 2019,
// released encoder.py).
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "tokenizer/vocabulary.h"

namespace weft {

// Says what becomes of `<|endoftext|>` inside a text: its seven ordinary tokens (a document cannot
// forge a boundary), the one token 50256 (as Megatron's and Hugging Face's tokenizers do today), or
// an error (std::runtime_error).
enum class SpecialTokens { kLiteral, kToken, kError };

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
  // n). Throws std::runtime_error for `<|endoftext|>` in the text under SpecialTokens::kError.
  void encode(std::string_view text, std::vector<int32_t>& ids);
  // Does the same in half the memory, and faster. Throws std::invalid_argument for a vocabulary of
  // more than 65536 ids.
  void encode(std::string_view text, std::vector<uint16_t>& ids);

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
