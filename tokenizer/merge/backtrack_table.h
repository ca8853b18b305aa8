// Answers what encoding by longest match asks of a vocabulary (backtracking_merger.h).
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "tokenizer/merge/merge_rules.h"
#include "tokenizer/merge/merge_table.h"

namespace weft {

// Tokens have numbers of their own here: 0 to 255 are the bytes, 256 + k is the product of merge k,
// so that a larger number was made later. Immutable once built, thread-safe.
class BacktrackTable {
 public:
  using Token = uint32_t;
  static constexpr Token kNone = UINT32_MAX;

  // The merges must be effective ones (effective_merges.h): longest match gives the right ids only
  // then. Empty if the entries have more than 16 MB.
  static std::optional<BacktrackTable> make(const MergeRules& rules);

  // The longest token that `text` (not empty) begins with.
  Token longest_match(std::string_view text) const {
    uint32_t node = static_cast<uint8_t>(text[0]);
    Token best = node;
    for (size_t i = 1; i < text.size(); ++i) {
      node = child(node, static_cast<uint8_t>(text[i]));
      if (node == kNone) break;
      if (node < ids_.size()) best = node;
    }
    return best;
  }
  // The longest token that is a proper prefix of this one, or kNone.
  Token next_shorter(Token token) const { return next_shorter_[token]; }
  size_t num_bytes(Token token) const { return lengths_[token]; }
  int32_t id(Token token) const { return ids_[token]; }

  // True if merging the bytes of both tokens ends with just these two: no merge across their border
  // comes first.
  bool is_stable(Token left, Token right) const;

 private:
  struct Halves {
    Token left, right;  // a byte has itself as both
  };
  struct Edge {
    uint32_t parent_and_byte = kNone;  // parent << 8 | byte
    uint32_t child = 0;
  };

  BacktrackTable(size_t num_tokens, size_t num_entry_bytes);
  void add_tokens(const MergeRules& rules);
  void add_path(Token token, std::string_view bytes);

  size_t slot_of(uint32_t parent_and_byte) const {
    return (uint64_t{parent_and_byte} * 0x9E3779B97F4A7C15) >> shift_;
  }
  uint32_t child(uint32_t node, uint8_t byte) const {
    const uint32_t key = node << 8 | byte;
    for (size_t i = slot_of(key);; i = (i + 1) & (edges_.size() - 1)) {
      if (edges_[i].parent_and_byte == key) return edges_[i].child;
      if (edges_[i].parent_and_byte == kNone) return kNone;
    }
  }

  // Tree of the entries' bytes: the node of an entry is its token's number, other nodes come
  // behind. Open addressing, at most half full.
  std::vector<Edge> edges_;
  int shift_;
  uint32_t num_nodes_;
  std::vector<int32_t> ids_;
  std::vector<uint32_t> lengths_;
  std::vector<Token> next_shorter_;
  std::vector<Halves> halves_;
  MergeTable pairs_;  // pairs of tokens
};

}  // namespace weft
