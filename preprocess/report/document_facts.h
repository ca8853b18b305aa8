// What the data report says of one document: how repetitive it is, in characters and in tokens.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "tokenizer/vocabulary.h"

namespace weft {

// A piece of text of ASCII only, as far as RepeatedCharacters needs to know it.
struct AsciiPiece {
  explicit AsciiPiece(std::string_view ascii);

  uint32_t num_bytes;
  uint32_t
      num_repeated;  // characters but for the first and the last that equal the one before them
  char first, second_last, last;
};

// Characters that equal the one before them. Takes text in any pieces; bytes that are not UTF-8 are
// characters of their own kind, too.
class RepeatedCharacters {
 public:
  void add(std::string_view bytes) {
    for (const char byte : bytes) {
      const auto value = static_cast<uint8_t>(byte);
      if ((value & 0xC0) == 0x80) {
        current_ = current_ << 8 | value;
      } else {
        end_character();
        current_ = value + 1U;  // 0: none has begun
      }
    }
  }
  // The same as add() of its bytes, in constant time. Not empty.
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
  // Adds the text of `ids`; those that the vocabulary does not have are left out. Returns its
  // bytes.
  int64_t add_to(RepeatedCharacters& characters, std::span<const int32_t> ids) const;

 private:
  const Vocabulary& vocabulary_;
  std::vector<AsciiPiece> pieces_;  // num_bytes 0: the text is not ASCII
};

// Tokens that end a run of four tokens which the document has had before. One look into a table of
// 4096 places a token: runs that were seen longer ago than a few thousand tokens may be forgotten,
// a run is never taken for one that was not there (but for a chance of 2^-64).
class RepeatedRuns {
 public:
  // A document begins; `seed` differs between documents, so that the table need not be cleared.
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

}  // namespace weft
