// What a tokenizer knows: its entries, the merges that make them, its special tokens and the
// pattern by which text is cut before merging. One function for each format makes it from the
// contents of files (load_gpt2.h).
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tokenizer/merge/merge_rules.h"
#include "tokenizer/merge/merge_table.h"
#include "tokenizer/split/split_pattern.h"

namespace weft {

class BacktrackTable;
template <typename Token>
class PairTable;

// The token that stands between documents in GPT-2's family.
inline constexpr std::string_view kEndOfText = "<|endoftext|>";

// Immutable and thread-safe.
class Vocabulary {
 public:
  using Merge = MergeRules::Merge;

  struct Parts {
    std::string name;                     // of the file, for messages
    std::vector<std::string> entries;     // bytes of each id
    std::vector<Merge> merges;            // in order of rank
    MergeTable merge_table;               // the same, and all bytes and entries of ordinary text
    std::vector<int32_t> special_tokens;  // ids of entries that never come out of merging
    int32_t end_of_document = -1;         // one of them, or -1
    std::shared_ptr<const SplitPattern> pattern;
  };
  explicit Vocabulary(Parts parts);

  // Number of ids, special tokens included (GPT-2: 50257).
  int32_t size() const { return static_cast<int32_t>(parts_.entries.size()); }
  // Id of the token that ends documents. Throws std::runtime_error if the vocabulary has none.
  int32_t end_of_document() const;
  // Ids of entries that never come out of merging (GPT-2: 50256).
  const std::vector<int32_t>& special_tokens() const { return parts_.special_tokens; }
  bool is_special(int32_t id) const { return is_special_[static_cast<size_t>(id)]; }
  // The bytes of one entry. Throws std::out_of_range.
  const std::string& bytes(int32_t id) const;
  // True if every entry except special tokens encodes to itself by its own merges: then a word that
  // is an entry is one token and needs no merging. Holds for GPT-2.
  bool entries_encode_to_themselves() const { return entries_encode_to_themselves_; }

  // Cuts text before it is merged.
  const SplitPattern& pattern() const { return *parts_.pattern; }
  // Merges in order of rank.
  const std::vector<Merge>& merges() const { return parts_.merges; }
  // The same merges, looked up by pair.
  const MergeTable& merge_table() const { return parts_.merge_table; }
  // The table for encoding by longest match, made on first use (10 ms for GPT-2's); null if this
  // vocabulary does not allow that (BacktrackTable::make).
  const BacktrackTable* backtrack_table() const;
  // The merges as the encoder looks them up, made on first use (GPT-2: 5 ms); null if this
  // vocabulary does not allow that (PairTable::make). `Token`: uint16_t or uint32_t.
  template <typename Token>
  const PairTable<Token>* pair_table() const;

 private:
  bool every_entry_encodes_to_itself() const;
  MergeRules rules() const { return {parts_.entries, parts_.merges, parts_.merge_table}; }

  Parts parts_;
  std::vector<bool> is_special_;
  bool entries_encode_to_themselves_ = false;
  struct LazyTables;
  std::shared_ptr<LazyTables> lazy_;  // complete-type deleter, so that it can stay in the .cpp
};

}  // namespace weft
