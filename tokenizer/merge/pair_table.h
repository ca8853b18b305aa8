// The merges of a vocabulary as a table that answers in two loads from the L2 cache.
//
// Tokens have numbers of their own here, as in BacktrackTable: 0 to 255 are the bytes, 256 + k is
// the product of merge k. So the product of a pair is its rank, too: a smaller one merges first.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "tokenizer/merge/merge_rules.h"
#include "tokenizer/merge/zeroed_pages.h"

namespace weft {

// `Token` is uint16_t for vocabularies of up to kNever tokens, which takes half the memory.
// Immutable once built, thread-safe.
template <typename Token>
class PairTable {
 public:
  // The pair has no rule.
  static constexpr Token kNone = std::numeric_limits<Token>::max();
  // The pair is of two bytes, and besides no entry contains them side by side. No token reaches
  // across, so a word may be cut there and its parts merged apart. 2,689 of 65,536 byte pairs are
  // possible with GPT-2's vocabulary.
  static constexpr Token kNever = kNone - 1;

  // The merges must be effective ones (effective_merges.h). Empty if the tokens do not fit `Token`.
  static std::optional<PairTable> make(const MergeRules& rules);

  // Returns the product, or kNone.
  Token find(Token left, Token right) const {
    const Slot& slot = slots_[bases_[left] ^ right];
    // This has no branch, because a processor cannot predict whether a pair has a rule.
    return static_cast<Token>(slot.product | -static_cast<Token>(slot.left != left));
  }
  // Returns the product of two bytes, kNone or kNever.
  Token find_bytes(uint8_t left, uint8_t right) const { return byte_pairs_[left << 8 | right]; }

  // A token that merges with none, to be given to `find` only.
  Token lone_token() const { return static_cast<Token>(ids_.size()); }

  int32_t id(Token token) const { return ids_[token]; }
  size_t num_bytes(Token token) const { return num_bytes_[token]; }

  // True if merging the bytes of both tokens ends with just these two: no merge across their border
  // comes first.
  bool is_stable(Token left, Token right) const;

 private:
  struct Slot {
    Token left = kNone, product = kNone;
  };
  struct Halves {
    Token left, right;  // a byte has itself as both
  };
  struct Row;

  PairTable() = default;
  void add_tokens(const MergeRules& rules);
  void place_rows(std::vector<Row>& rows);
  bool place_row(const Row& row);
  void allocate(size_t num_bases);

  // Row displacement: the rule of a pair lies at bases_[left] ^ right, where the bases are chosen
  // so that no two rules meet. `left` in the slot tells whose it is.
  //
  // All three lie in huge pages: a vocabulary of 128,000 entries has 3 MiB of them, which are read
  // at random, and merging its new words mostly waits for that.
  ZeroedPages pages_;
  Slot* slots_ = nullptr;      // a power of two
  uint32_t* bases_ = nullptr;  // one for each token
  Token* byte_pairs_ = nullptr;
  size_t num_slots_ = 0;
  std::vector<Halves> halves_;
  std::vector<int32_t> ids_;
  std::vector<uint32_t> num_bytes_;
};

extern template class PairTable<uint16_t>;
extern template class PairTable<uint32_t>;

}  // namespace weft
