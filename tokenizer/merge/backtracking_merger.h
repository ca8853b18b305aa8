// Byte pair encoding of one word from left to right, in time and memory linear in its length.
//
// A sequence of tokens is what merging gives if and only if each neighbouring pair of them is (the
// theorem of github/rust-gems, crates/bpe). So: take the longest token that matches and forms a
// stable pair with the one before it, else the next shorter one; if none does, the token before was
// wrong: remember that no encoding passes here, and try a shorter one there. Each position is given
// up at most once.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "tokenizer/merge/backtrack_table.h"

namespace weft {

// Holds scratch memory: one per thread. `table` must outlive it.
class BacktrackingMerger {
 public:
  explicit BacktrackingMerger(const BacktrackTable& table) : table_(table), memo_(kMemoSize) {}

  // Appends the ids of `word`, which are those of WordMerger. Takes one bit of memory for each
  // byte.
  void merge(std::string_view word, std::vector<int32_t>& ids);

 private:
  using Token = BacktrackTable::Token;
  static constexpr int kMemoBits = 16;
  static constexpr size_t kMemoSize = size_t{1} << kMemoBits;

  bool is_stable(Token left, Token right);
  bool is_dead(size_t position) const { return dead_[position / 64] >> position % 64 & 1; }

  const BacktrackTable& table_;
  // Answers of is_stable, found again by their exact pair: (left << 32 | right << 1) + 2 | answer,
  // so that 0 is none.
  std::vector<uint64_t> memo_;
  std::vector<uint64_t> dead_;  // bit set: no encoding of the word has a border at this position
};

}  // namespace weft
