// Learns a byte-level BPE vocabulary in GPT-2's format from text (Sennrich et al. 2016,
// arXiv:1508.07909; byte level: Radford et al. 2019).
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <unordered_map>

namespace weft {

// Contents of the two files that Vocabulary::load reads; the caller writes them.
struct LearnedVocabulary {
  std::string vocab_json;
  std::string merges_txt;
  int32_t num_entries;  // 256 bytes, the learned entries and <|endoftext|>, which has the last id
};

// Deterministic: the result depends on how often each word occurs, not on the order of the texts.
// Merges equal those of Hugging Face's BpeTrainer (tokenizers 0.23) with the ByteLevel
// pre-tokenizer and alphabet, the same vocab_size and min_frequency, and <|endoftext|> as special
// token. The README says how ties are decided.
class VocabularyTrainer {
 public:
  // Counts the words of one document (the pieces of the GPT-2 pattern). `text` should be valid
  // UTF-8. Memory grows with the number of distinct words: about 100 bytes each, 1.3 million per GB
  // of English web text.
  void add_text(std::string_view text);

  int64_t num_distinct_words() const { return static_cast<int64_t>(counts_.size()); }

  // Learns until there are `vocab_size` entries, <|endoftext|> included, or no pair of neighbours
  // occurs at least `min_frequency` times (then there are fewer entries). Throws
  // std::invalid_argument unless 257 <= vocab_size <= 2^24 and min_frequency >= 1.
  LearnedVocabulary train(int64_t vocab_size, int64_t min_frequency) const;

 private:
  struct Hash {
    using is_transparent = void;
    size_t operator()(std::string_view word) const { return std::hash<std::string_view>()(word); }
  };
  std::unordered_map<std::string, int64_t, Hash, std::equal_to<>> counts_;
};

}  // namespace weft
