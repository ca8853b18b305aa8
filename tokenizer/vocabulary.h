// Everything that makes a tokenizer: its entries, the merges that make them, the tokens that are
// found in the text itself, and the pattern by which text is cut before merging. One function for
// each format makes it from the contents of files (formats/).
#pragma once

#include <bitset>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "tokenizer/merge/merge_rules.h"
#include "tokenizer/merge/merge_table.h"
#include "tokenizer/split/split_pattern.h"

namespace weft {

class BacktrackTable;
class WordMerger;
template <typename Token>
class PairTable;

// The token that stands between documents in GPT-2's family.
inline constexpr std::string_view kEndOfText = "<|endoftext|>";

// A token that is found in the text itself, before the text is cut into pieces: Hugging Face's
// added token, tiktoken's special token. The flags mean what they mean in tokenizer.json.
struct AddedToken {
  std::string content;
  int32_t id = -1;
  bool special = true;  // text that spells it is ordinary text unless the caller wants the token
  bool normalized = false;              // it is found in the normalized text, else in the raw text
  bool lstrip = false, rstrip = false;  // it takes the white space before or behind it along
  bool single_word = false;             // it is found only where no word character touches it
};

// Done to the text before it is cut. Hugging Face's NFC is that of Unicode 9.0 (unicode/nfc.h).
enum class Normalizer { kNone, kNfc };

// Immutable and thread-safe.
class Vocabulary {
 public:
  using Merge = MergeRules::Merge;

  struct Parts {
    std::string name;                  // of the file, for messages
    std::vector<std::string> entries;  // bytes of each id; empty where no token has the id
    std::vector<Merge> merges;         // in order of rank
    MergeTable merge_table;            // the same, and all bytes (MergeTable::kNoByte: no entry)
    std::vector<AddedToken> added_tokens = {};
    std::vector<int32_t> special_tokens = {};  // ids of entries that are meant never to be merged
    int32_t end_of_document = -1;              // id of an entry, or -1
    Normalizer normalizer = Normalizer::kNone;
    std::vector<int32_t> prefix_ids = {}, suffix_ids = {};  // added around a document on request
    // Ids of entries that a piece is if it spells them, whatever merging would make of it: all
    // entries of the model if the tokenizer says ignore_merges, else none.
    std::vector<int32_t> whole_pieces = {};
    std::shared_ptr<const SplitPattern> pattern;
    std::string pattern_name;  // for people and manifests: "llama3"
  };
  explicit Vocabulary(Parts parts);

  // Number of ids, special tokens and unused ids included (GPT-2: 50257).
  int32_t size() const { return static_cast<int32_t>(parts_.entries.size()); }
  bool has_end_of_document() const { return parts_.end_of_document >= 0; }
  // Id of the token that ends documents. Throws std::runtime_error if the vocabulary has none.
  int32_t end_of_document() const;
  // Tokens that are found in the text itself, in the order of the file.
  const std::vector<AddedToken>& added_tokens() const { return parts_.added_tokens; }
  // Ids of entries that are meant never to come out of merging (GPT-2: 50256): added tokens, and
  // entries written as special tokens are.
  const std::vector<int32_t>& special_tokens() const { return parts_.special_tokens; }
  bool is_special(int32_t id) const { return is_special_[static_cast<size_t>(id)]; }
  // The bytes of one entry, empty for an unused id. Throws std::out_of_range.
  const std::string& bytes(int32_t id) const;

  Normalizer normalizer() const { return parts_.normalizer; }
  // Cuts text before it is merged.
  const SplitPattern& pattern() const { return *parts_.pattern; }
  const std::string& pattern_name() const { return parts_.pattern_name; }
  // Ids that the tokenizer's own template puts around a text (Llama-3: <|begin_of_text|> before).
  const std::vector<int32_t>& prefix_ids() const { return parts_.prefix_ids; }
  const std::vector<int32_t>& suffix_ids() const { return parts_.suffix_ids; }

  // True if merging the bytes of the entry ends with it.
  bool is_reachable(int32_t id) const { return is_reachable_[static_cast<size_t>(id)]; }
  // Number of entries that no text gives although they are not special: 0 for GPT-2.
  int32_t num_unreachable() const { return num_unreachable_; }
  // The entry that a whole piece is although merging does not end with it, or -1 (ignore_merges).
  int32_t whole_piece(std::string_view piece) const {
    if (whole_pieces_.empty()) return -1;
    const auto found = whole_pieces_.find(piece);
    return found == whole_pieces_.end() ? -1 : found->second;
  }
  // Bytes without an entry. They are left out of the text, and their neighbours are merged.
  const std::bitset<256>& missing_bytes() const { return missing_bytes_; }

  // One merge for each entry that merging can make, in order of rank (effective_merges.h). Tables
  // of these give the ids of a word, unless one of the ids needs all merges.
  const std::vector<Merge>& merges() const { return parts_.merges; }
  bool needs_all_merges(int32_t id) const { return needs_all_merges_[static_cast<size_t>(id)]; }
  // False if no id does: GPT-2's.
  bool some_ids_need_all_merges() const { return some_ids_need_all_merges_; }
  // All merges, looked up by pair.
  const MergeTable& merge_table() const { return parts_.merge_table; }
  // The table for encoding by longest match, made on first use (10 ms for GPT-2's); null if this
  // vocabulary does not allow that (BacktrackTable::make).
  const BacktrackTable* backtrack_table() const;
  // The merges as the encoder looks them up, made on first use (GPT-2: 5 ms); null if this
  // vocabulary does not allow that (PairTable::make). `Token`: uint16_t or uint32_t.
  template <typename Token>
  const PairTable<Token>* pair_table() const;

 private:
  void keep_effective_merges();
  bool encodes_to_itself(int32_t id, WordMerger& merger) const;
  MergeRules rules() const { return {parts_.entries, parts_.merges, parts_.merge_table}; }

  Parts parts_;
  std::vector<bool> is_special_, is_reachable_, needs_all_merges_;
  bool some_ids_need_all_merges_ = false;
  int32_t num_unreachable_ = 0;
  std::unordered_map<std::string_view, int32_t> whole_pieces_;
  std::bitset<256> missing_bytes_;
  struct LazyTables;
  std::shared_ptr<LazyTables> lazy_;  // complete-type deleter, so that it can stay in the .cpp
};

}  // namespace weft
