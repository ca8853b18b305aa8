// Byte pair encoding of one word by a PairTable: the fast way for the words of real text, and for
// long words of many short tokens.
//
// Up to 32 bytes are merged in place: the word is first cut where no token reaches across, then in
// each part the pair of lowest product is replaced until no pair has a rule.
//
// Longer parts are merged window by window. By the theorem that BacktrackingMerger rests on, the
// tokens of two neighbouring texts are those of both together if and only if the last of the one
// and the first of the other are a stable pair. So: encode 32 bytes, go back to a border between
// its last tokens, encode 32 bytes from there, and if the pair at that border is stable, go on;
// else try an earlier border. If there is none (tokens nearly as long as a window: runs of one
// character), the part is left to longest match. Linear in time either way.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

#include "tokenizer/merge/pair_table.h"

namespace weft {

// Immutable, thread-safe. `table` must outlive it.
template <typename Token>
class PairMerger {
 public:
  static constexpr size_t kMaxShortBytes = 32;

  explicit PairMerger(const PairTable<Token>& table) : table_(table) {}

  // Writes the tokens of a word of 1 to kMaxShortBytes bytes, at most one for each byte, and
  // returns their number.
  size_t merge_short(std::string_view word, Token* tokens) const;

  int32_t id(Token token) const { return table_.id(token); }

  // Appends the ids of a word of any length; false, and nothing appended, if longest match has to
  // do it. Ids must fit `Id`: uint16_t or int32_t.
  template <typename Id>
  bool merge_by_windows(std::string_view word, std::vector<Id>& ids) const;

 private:
  size_t merge_two(const uint8_t* part, size_t num_bytes, Token* tokens) const;
  size_t merge_part(const uint8_t* part, size_t num_bytes, Token* tokens) const;

  const PairTable<Token>& table_;
};

extern template class PairMerger<uint16_t>;
extern template class PairMerger<uint32_t>;

}  // namespace weft
