// Rates how unlike the rest of its range a text is, whatever its language: what stands out among
// the documents that a run took before a spike of its loss.
//
// Four measures are taken of each piece of a document:
//   repeated characters   share of characters that equal the one before them
//   repeated tokens       share of tokens that end a run of four which the piece has had before
//   compressed size       bytes of zlib's fastest level for each byte of text
//   rarity                mean of -log2 of the tokens' shares in the range: bits a token
//
// suspects.h makes scores of them.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "preprocess/inspect/text/document_facts.h"
#include "tokenizer/vocabulary.h"

namespace weft {

enum Measure { kRepeatedCharacters, kRepeatedTokens, kCompressedSize, kRarity, kNumMeasures };
constexpr std::array<const char*, kNumMeasures> kMeasureNames = {
    "repeated characters", "repeated tokens", "compressed size", "rarity"};
using Measures = std::array<float, kNumMeasures>;
// Returns true for measures whose small values are suspicious, too.
constexpr bool counts_below_median(Measure measure) {
  return measure == kCompressedSize || measure == kRarity;
}

// Shorter pieces are not rated: their measures are chance.
constexpr int64_t kMinRatedPieceTokens = 32;

// Counts how often each token stands in a range. One for each thread, and then merged.
class TokenCounts {
 public:
  void add(std::span<const int32_t> ids);
  void merge(const TokenCounts& other);
  // The bits of each token; one that was never counted has those of one that was counted once.
  std::vector<float> bits() const;

 private:
  std::vector<int64_t> counts_;
  int64_t total_ = 0;
};

// Takes measures. It holds buffers, so that each thread needs its own.
class TextMeter {
 public:
  // All of these must outlive it.
  TextMeter(const Vocabulary& vocabulary, const TokenTexts& texts,
            const std::vector<float>& token_bits);
  ~TextMeter();
  TextMeter(const TextMeter&) = delete;
  TextMeter& operator=(const TextMeter&) = delete;

  Measures measure(std::span<const int32_t> ids);

 private:
  struct Compressor;
  const Vocabulary& vocabulary_;
  const std::vector<float>& token_bits_;
  std::unique_ptr<Compressor> compressor_;
  RepetitionMeter repetition_;
  std::string text_;
};

}  // namespace weft
