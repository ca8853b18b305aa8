#include "tokenizer/merge/backtrack_table.h"

#include <algorithm>
#include <bit>
#include <numeric>
#include <string>

#include "tokenizer/merge/stable_pair.h"

namespace weft {
namespace {

// Nodes of the tree must leave 8 bits for the byte.
constexpr size_t kMaxNodes = 1 << 24;

}  // namespace

BacktrackTable::BacktrackTable(size_t num_tokens, size_t num_entry_bytes)
    : edges_(std::bit_ceil(2 * num_entry_bytes)),
      shift_(64 - std::countr_zero(edges_.size())),
      num_nodes_(static_cast<uint32_t>(num_tokens)),
      ids_(num_tokens, -1),
      lengths_(num_tokens),
      next_shorter_(num_tokens, kNone),
      halves_(num_tokens),
      pairs_(num_tokens) {}

std::optional<BacktrackTable> BacktrackTable::make(const MergeRules& rules) {
  size_t num_entry_bytes = 0;
  for (const std::string& entry : rules.entries) num_entry_bytes += entry.size();
  if (num_entry_bytes > kMaxNodes) return std::nullopt;
  BacktrackTable table(kNumByteTokens + rules.merges.size(), num_entry_bytes);
  table.add_tokens(rules);

  std::vector<Token> tokens(rules.merges.size());  // a byte has no path
  std::iota(tokens.begin(), tokens.end(), kNumByteTokens);
  // Prefixes first: their nodes have the numbers of tokens.
  std::stable_sort(tokens.begin(), tokens.end(),
                   [&](Token a, Token b) { return table.lengths_[a] < table.lengths_[b]; });
  for (Token token : tokens)
    table.add_path(token, rules.entries[static_cast<size_t>(table.ids_[token])]);
  return table;
}

void BacktrackTable::add_tokens(const MergeRules& rules) {
  std::vector<Token> token_of_id(rules.entries.size(), kNone);
  for (Token byte = 0; byte < kNumByteTokens; ++byte) {
    ids_[byte] = rules.table.byte_id(static_cast<uint8_t>(byte));
    if (ids_[byte] >= 0) token_of_id[ids_[byte]] = byte;
    halves_[byte] = {byte, byte};
    lengths_[byte] = 1;
  }
  Token token = kNumByteTokens;
  for (const MergeRules::Merge& merge : rules.merges) {
    const Token left = token_of_id[merge.left], right = token_of_id[merge.right];
    pairs_.add(static_cast<int32_t>(left), static_cast<int32_t>(right),
               {token, static_cast<int32_t>(token)});
    ids_[token] = merge.result;
    token_of_id[merge.result] = token;
    halves_[token] = {left, right};
    lengths_[token] = lengths_[left] + lengths_[right];
    ++token;
  }
}

void BacktrackTable::add_path(Token token, std::string_view bytes) {
  uint32_t node = static_cast<uint8_t>(bytes[0]);
  for (size_t i = 1; i < bytes.size(); ++i) {
    if (node < ids_.size()) next_shorter_[token] = node;
    const auto byte = static_cast<uint8_t>(bytes[i]);
    uint32_t next = child(node, byte);
    if (next == kNone) {
      next = i + 1 == bytes.size() ? token : num_nodes_++;
      const uint32_t key = node << 8 | byte;
      size_t slot = slot_of(key);
      while (edges_[slot].parent_and_byte != kNone) slot = (slot + 1) & (edges_.size() - 1);
      edges_[slot] = {key, next};
    }
    node = next;
  }
}

bool BacktrackTable::is_stable(Token left, Token right) const {
  const auto find_product = [this](Token a, Token b) {
    return pairs_.find(static_cast<int32_t>(a), static_cast<int32_t>(b)).rank;
  };
  return is_stable_pair(left, right, find_product, halves_);
}

}  // namespace weft
