// Learns a byte-level BPE vocabulary from text (Sennrich et al. 2016, arXiv:1508.07909; byte level:
// Radford et al. 2019).
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "tokenizer/split/split_patterns.h"
#include "tokenizer/vocabulary.h"

namespace weft {

// What the files of a tokenizer are written from (formats/learned_files.h).
struct LearnedVocabulary {
  std::vector<std::string> entries;  // 256 bytes, then what each merge makes, in order of id
  std::vector<std::pair<int32_t, int32_t>> merges;  // ids of the two halves, in order of rank
  std::vector<std::string> special_tokens;          // they have the ids behind the entries

  size_t size() const { return entries.size() + special_tokens.size(); }
};

// Deterministic: the result depends on how often each word occurs, not on the order of the texts.
// Merges equal those of Hugging Face's BpeTrainer (tokenizers 0.23) with the same pre-tokenizer,
// the alphabet of bytes, and the same vocab_size, min_frequency and special tokens. The README says
// how ties are decided. Other than there, no merge makes an entry that is spelled like a special
// token.
class VocabularyTrainer {
 public:
  explicit VocabularyTrainer(SplitKind pattern = SplitKind::kGpt2);

  // Counts the words of one document (the pieces of the pattern). `text` should be valid UTF-8.
  // Memory grows with the number of distinct words: about 100 bytes each, 1.3 million per GB of
  // English web text.
  void add_text(std::string_view text);

  int64_t num_distinct_words() const { return static_cast<int64_t>(counts_.size()); }

  // Learns until there are `vocab_size` entries, special tokens included, or no pair of neighbours
  // occurs at least `min_frequency` times (then there are fewer entries). Throws
  // std::invalid_argument unless 256 bytes and the special tokens fit, vocab_size <= 2^24,
  // min_frequency >= 1 and the special tokens are distinct texts that are spelled like no byte.
  LearnedVocabulary train(int64_t vocab_size, int64_t min_frequency,
                          std::vector<std::string> special_tokens = {
                              std::string(kEndOfText)}) const;

 private:
  struct Hash {
    using is_transparent = void;
    size_t operator()(std::string_view word) const { return std::hash<std::string_view>()(word); }
  };
  std::shared_ptr<const SplitPattern> pattern_;
  std::unordered_map<std::string, int64_t, Hash, std::equal_to<>> counts_;
};

}  // namespace weft
