// A byte-level BPE vocabulary: vocab.json and merges.txt in GPT-2's format, checked on load.
#pragma once

#include <array>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tokenizer/merge/merge_rules.h"

namespace weft {

class BacktrackTable;
class MergeTable;
template <typename Token>
class PairTable;

// The entry that stands between documents; never made by merges.
inline constexpr std::string_view kEndOfText = "<|endoftext|>";

// Immutable and thread-safe once loaded.
class Vocabulary {
 public:
  // Reads and checks both files: every byte has an entry, ids are 0..size-1 without gap, each merge
  // joins two entries into an entry, and every entry is a byte, a special token (<...> or [...]) or
  // made by a merge. Throws std::runtime_error naming file, line and reason; std::system_error if a
  // file cannot be read. Any size up to 2^24 ids; GPT-2's has 256 bytes, 50000 merges and
  // `<|endoftext|>`.
  static std::shared_ptr<const Vocabulary> load(const std::filesystem::path& vocab_file,
                                                const std::filesystem::path& merge_file);

  // Number of ids, special token included (GPT-2: 50257).
  int32_t size() const { return static_cast<int32_t>(bytes_.size()); }
  // Id of `<|endoftext|>`. Throws std::runtime_error if the vocabulary has none.
  int32_t end_of_document() const;
  // The bytes of one entry. Throws std::out_of_range.
  const std::string& bytes(int32_t id) const;
  // True if every entry except the special token encodes to itself by its own merges: then a word
  // that is an entry is one token and needs no merging. Checked on load; holds for GPT-2.
  bool entries_encode_to_themselves() const { return entries_encode_to_themselves_; }

  using Merge = MergeRules::Merge;
  // Merges in order of rank.
  const std::vector<Merge>& merges() const { return merges_; }
  // Returns the id of the entry with exactly these bytes; never that of the special token.
  std::optional<int32_t> find(std::string_view bytes) const;
  // The same merges, looked up by pair.
  const MergeTable& merge_table() const;
  // The table for encoding by longest match, made on first use (10 ms for GPT-2's); null if this
  // vocabulary does not allow that (BacktrackTable::make).
  const BacktrackTable* backtrack_table() const;
  // The merges as the encoder looks them up, made on first use (GPT-2: 5 ms); null if this
  // vocabulary does not allow that (PairTable::make). `Token`: uint16_t or uint32_t.
  template <typename Token>
  const PairTable<Token>* pair_table() const;
  // The files that the vocabulary was read from.
  const std::filesystem::path& vocab_file() const { return vocab_file_; }
  const std::filesystem::path& merge_file() const { return merge_file_; }

 private:
  Vocabulary() = default;
  void read_entries();
  void read_merges();
  void add_merge(std::string_view line, const std::string& where);
  void check_that_merges_make_every_entry() const;
  bool every_entry_encodes_to_itself() const;
  MergeRules rules() const;

  std::vector<std::string> bytes_;
  std::vector<Merge> merges_;
  int32_t end_of_document_ = -1;
  bool entries_encode_to_themselves_ = false;
  std::filesystem::path vocab_file_, merge_file_;
  struct Index;
  std::shared_ptr<Index> index_;  // complete-type deleter, so that Index can stay in the .cpp
};

// The two files of a vocabulary.
struct VocabularyFiles {
  std::filesystem::path vocab_file, merge_file;
};
// Finds GPT-2's files: the two given paths (both or none), which are returned unchecked; else those
// in $WEFT_GPT2_DIR if that is set (std::invalid_argument if it lacks them); else those in
// ~/.cache/weft/gpt2. Returns nothing if there are none.
std::optional<VocabularyFiles> find_vocabulary_files(const std::filesystem::path& vocab_file,
                                                     const std::filesystem::path& merge_file);

}  // namespace weft
