// Measures how repetitive a document is, in characters and in tokens.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "tokenizer/vocabulary.h"

namespace weft {

// A piece of ASCII text, reduced to what RepeatedCharacters needs of it.
struct AsciiPiece {
  explicit AsciiPiece(std::string_view ascii);

  uint32_t num_bytes;
  // Counts characters that equal the one before them, without the first and the last one.
  uint32_t num_repeated;
  char first, second_last, last;
};

// Counts characters that equal the one before them. Text may come in any pieces; bytes that are not
// UTF-8 are characters of a kind of their own.
class RepeatedCharacters {
 public:
  void add(std::string_view bytes) {
    for (const char byte : bytes) {
      const auto value = static_cast<uint8_t>(byte);
      if ((value & 0xC0) == 0x80) {
        current_ = current_ << 8 | value;
      } else {
        end_character();
        current_ = value + 1U;  // 0 means that no character has begun
      }
    }
  }
  // Does the same as add() of the piece's bytes, in constant time. The piece must not be empty.
  void add(const AsciiPiece& piece) {
    end_character();
    if (piece.num_bytes > 1) {
      current_ = static_cast<uint8_t>(piece.first) + 1U;
      end_character();
      num_characters_ += piece.num_bytes - 2;
      num_repeated_ += piece.num_repeated;
      previous_ = static_cast<uint8_t>(piece.second_last) + 1U;
    }
    current_ = static_cast<uint8_t>(piece.last) + 1U;
  }
  void end() {
    end_character();
    current_ = 0;
  }
  int64_t num_characters() const { return num_characters_; }
  int64_t num_repeated() const { return num_repeated_; }

 private:
  void end_character() {
    if (current_ == 0) return;
    ++num_characters_;
    num_repeated_ += current_ == previous_;
    previous_ = current_;
  }

  uint64_t current_ = 0, previous_ = 0;
  int64_t num_characters_ = 0, num_repeated_ = 0;
};

// The texts of a vocabulary's entries, for counting repeated characters without making the text.
class TokenTexts {
 public:
  explicit TokenTexts(const Vocabulary& vocabulary);
  // Adds the text of `ids`, without those that the vocabulary does not have. Returns the number of
  // its bytes.
  int64_t add_to(RepeatedCharacters& characters, std::span<const int32_t> ids) const;

 private:
  const Vocabulary& vocabulary_;
  std::vector<AsciiPiece> pieces_;  // num_bytes is 0 where the text is not ASCII
};

// Counts tokens that end a run of four tokens which the document has had before. Each token takes
// one look into a table of 4096 places: a run that was seen more than a few thousand tokens ago may
// have been forgotten, but none is invented (with a chance of 2^-64).
class RepeatedRuns {
 public:
  // Begins a document. `seed` differs between documents, so that the table need not be cleared.
  void begin(uint64_t seed);
  void add(std::span<const int32_t> ids);
  int64_t num_repeated() const { return num_repeated_; }

 private:
  static constexpr int kPlaceBits = 12;
  std::vector<uint64_t> places_ = std::vector<uint64_t>(size_t{1} << kPlaceBits);
  std::array<uint64_t, 3> before_{};
  uint64_t seed_ = 0;
  int64_t num_seen_ = 0, num_repeated_ = 0;
};

// Counts what one document after another repeats: the measure of the report and of inspect stats.
class RepetitionMeter {
 public:
  // Without `texts`, which must outlive it, characters are not counted.
  explicit RepetitionMeter(const TokenTexts* texts) : texts_(texts) {}

  void begin() {
    characters_ = {};
    runs_.begin(num_documents_++);
    num_tokens_ = 0;
  }
  // Returns the number of bytes of the text.
  int64_t add(std::span<const int32_t> ids) {
    runs_.add(ids);
    num_tokens_ += std::ssize(ids);
    return texts_ ? texts_->add_to(characters_, ids) : 0;
  }
  void end() { characters_.end(); }

  // Shares are those of the document from begin() to end(); of nothing they are 0.
  struct Share {
    int64_t num_repeated = 0, count = 0;
    double value() const {
      return count == 0 ? 0 : static_cast<double>(num_repeated) / static_cast<double>(count);
    }
  };
  Share characters() const { return {characters_.num_repeated(), characters_.num_characters()}; }
  Share tokens() const { return {runs_.num_repeated(), num_tokens_}; }

 private:
  const TokenTexts* texts_;
  RepeatedCharacters characters_;
  RepeatedRuns runs_;
  uint64_t num_documents_ = 0;
  int64_t num_tokens_ = 0;
};

}  // namespace weft
