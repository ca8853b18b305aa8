#include "tokenizer/train_vocabulary.h"

#include <algorithm>
#include <array>
#include <queue>
#include <stdexcept>
#include <unordered_set>

#include "tokenizer/byte_alphabet.h"

namespace weft {
namespace {

constexpr int64_t kNumBytes = 256;
constexpr int64_t kMaxVocabSize = int64_t{1} << 24;

// Two neighbouring entries; compares as (left, right).
using Pair = uint64_t;
Pair make_pair_key(int32_t left, int32_t right) {
  return static_cast<uint64_t>(static_cast<uint32_t>(left)) << 32 | static_cast<uint32_t>(right);
}
int32_t left_of(Pair pair) { return static_cast<int32_t>(pair >> 32); }
int32_t right_of(Pair pair) { return static_cast<int32_t>(pair & 0xFFFFFFFF); }

// Learns the merges. Each round merges the commonest pair in all words that hold it; only the
// pairs next to a merge change, so the counts and the list "pair -> words" are kept up to date
// instead of being made anew.
class PairLearner {
 public:
  // `reserved`: spellings, in the printable alphabet, that no entry may have.
  PairLearner(const std::vector<std::pair<std::string_view, int64_t>>& words,
              const std::unordered_set<std::string>& reserved);

  // Returns false if no pair occurs `min_frequency` times.
  bool learn_merge(int64_t min_frequency);

  // The entries in order of id: bytes, then learned ones. No two are equal: wherever an entry was
  // made, the merges inside it were the same, because a merge across its ends would have prevented
  // it.
  const std::vector<std::string>& entries() const { return entries_; }
  // The merges in order of rank.
  const std::vector<Pair>& merges() const { return merges_; }

 private:
  struct Word {
    size_t begin, size;  // in symbols_
    int64_t count;
  };
  // Words that got `pair` in one round. A pair is queued with the count that it had then; counts
  // only fall later, and one that has fallen is queued again when it comes up.
  struct Candidate {
    int64_t count;
    Pair pair;
    std::vector<uint32_t> words;
    bool operator<(const Candidate& other) const {  // std::priority_queue: the largest comes first
      return count != other.count ? count < other.count : pair > other.pair;
    }
  };
  using WordsOfPair = std::unordered_map<Pair, std::vector<uint32_t>>;

  void enqueue(WordsOfPair& words_of_pair);
  void merge_in_word(uint32_t word_idx, Pair pair, int32_t result, WordsOfPair& words_of_pair);

  const std::unordered_set<std::string>& reserved_;
  std::vector<std::string> entries_;
  std::vector<Pair> merges_;
  std::vector<int32_t> symbols_;
  std::vector<Word> words_;
  std::unordered_map<Pair, int64_t> counts_;
  std::priority_queue<Candidate> queue_;
};

// Lists bytes in the order of their printable characters' code points, as GPT-2 numbers them.
std::array<uint8_t, 256> bytes_in_order_of_id() {
  std::array<uint8_t, 256> bytes;
  for (size_t i = 0; i < 256; ++i) bytes[i] = static_cast<uint8_t>(i);
  std::sort(bytes.begin(), bytes.end(),
            [](uint8_t a, uint8_t b) { return code_point_of_byte(a) < code_point_of_byte(b); });
  return bytes;
}

PairLearner::PairLearner(const std::vector<std::pair<std::string_view, int64_t>>& words,
                         const std::unordered_set<std::string>& reserved)
    : reserved_(reserved) {
  std::array<int32_t, 256> id_of_byte{};
  for (uint8_t byte : bytes_in_order_of_id()) {
    id_of_byte[byte] = static_cast<int32_t>(entries_.size());
    entries_.emplace_back(1, static_cast<char>(byte));
  }
  WordsOfPair words_of_pair;
  for (const auto& [bytes, count] : words) {
    const auto word_idx = static_cast<uint32_t>(words_.size());
    words_.push_back({symbols_.size(), bytes.size(), count});
    for (size_t i = 0; i < bytes.size(); ++i) {
      symbols_.push_back(id_of_byte[static_cast<uint8_t>(bytes[i])]);
      if (i == 0) continue;
      const Pair pair = make_pair_key(symbols_.end()[-2], symbols_.back());
      counts_[pair] += count;
      std::vector<uint32_t>& holders = words_of_pair[pair];
      if (holders.empty() || holders.back() != word_idx) holders.push_back(word_idx);
    }
  }
  enqueue(words_of_pair);
}

void PairLearner::enqueue(WordsOfPair& words_of_pair) {
  for (auto& [pair, words] : words_of_pair) {
    const int64_t count = counts_[pair];
    if (count > 0) queue_.push({count, pair, std::move(words)});
  }
}

bool PairLearner::learn_merge(int64_t min_frequency) {
  while (!queue_.empty()) {
    // top() is const only to protect the order, which pop() gives up anyway.
    Candidate top = std::move(const_cast<Candidate&>(queue_.top()));
    queue_.pop();
    const int64_t count = counts_[top.pair];
    if (count != top.count) {
      top.count = count;
      queue_.push(std::move(top));
      continue;
    }
    if (count < std::max<int64_t>(min_frequency, 1)) return false;
    std::string joined = entries_[left_of(top.pair)] + entries_[right_of(top.pair)];
    if (reserved_.contains(to_printable(joined))) continue;
    const auto result = static_cast<int32_t>(entries_.size());
    entries_.push_back(std::move(joined));
    merges_.push_back(top.pair);
    WordsOfPair words_of_pair;
    for (uint32_t word_idx : top.words) merge_in_word(word_idx, top.pair, result, words_of_pair);
    enqueue(words_of_pair);
    return true;
  }
  return false;
}

void PairLearner::merge_in_word(uint32_t word_idx, Pair pair, int32_t result,
                                WordsOfPair& words_of_pair) {
  Word& word = words_[word_idx];
  int32_t* const symbols = symbols_.data() + word.begin;
  const int32_t left = left_of(pair), right = right_of(pair);
  const auto gain = [&](int32_t a, int32_t b) {
    const Pair gained = make_pair_key(a, b);
    counts_[gained] += word.count;
    std::vector<uint32_t>& holders = words_of_pair[gained];
    if (holders.empty() || holders.back() != word_idx) holders.push_back(word_idx);
  };
  size_t size = 0;  // symbols[0, size) are merged, symbols[i, word.size) are not looked at yet
  for (size_t i = 0; i < word.size; ++i) {
    if (symbols[i] != left || i + 1 == word.size || symbols[i + 1] != right) {
      symbols[size++] = symbols[i];
      continue;
    }
    if (size > 0) {
      counts_[make_pair_key(symbols[size - 1], left)] -= word.count;
      gain(symbols[size - 1], result);
    }
    ++i;
    if (i + 1 < word.size) {
      counts_[make_pair_key(right, symbols[i + 1])] -= word.count;
      gain(result, symbols[i + 1]);
    }
    symbols[size++] = result;
  }
  word.size = size;
}

std::unordered_set<std::string> check_special_tokens(const std::vector<std::string>& tokens) {
  std::unordered_set<std::string> spellings;
  for (uint8_t byte : bytes_in_order_of_id())
    spellings.insert(to_printable(std::string(1, static_cast<char>(byte))));
  for (const std::string& token : tokens) {
    if (token.empty()) throw std::invalid_argument("special token '': it has no text");
    if (!spellings.insert(token).second) {
      throw std::invalid_argument("special token '" + token +
                                  "': it is there already, as a byte or another special token");
    }
  }
  return spellings;
}

}  // namespace

VocabularyTrainer::VocabularyTrainer(SplitKind pattern) : pattern_(make_split_pattern(pattern)) {}

void VocabularyTrainer::add_text(std::string_view text) {
  size_t ends[kSplitBatch];
  size_t begin = 0;
  while (begin < text.size()) {
    const size_t num_pieces = pattern_->split(text, begin, ends, std::size(ends));
    for (size_t i = 0; i < num_pieces; ++i) {
      const std::string_view word = text.substr(begin, ends[i] - begin);
      const auto it = counts_.find(word);
      if (it != counts_.end()) {
        ++it->second;
      } else {
        counts_.emplace(word, 1);
      }
      begin = ends[i];
    }
  }
}

LearnedVocabulary VocabularyTrainer::train(int64_t vocab_size, int64_t min_frequency,
                                           std::vector<std::string> special_tokens) const {
  const auto num_special_tokens = static_cast<int64_t>(special_tokens.size());
  if (vocab_size < kNumBytes + num_special_tokens || vocab_size > kMaxVocabSize) {
    throw std::invalid_argument("vocabulary size " + std::to_string(vocab_size) + ": must be " +
                                std::to_string(kNumBytes + num_special_tokens) +
                                " (256 bytes and the special tokens) to 16777216");
  }
  if (min_frequency < 1) {
    throw std::invalid_argument("minimum frequency " + std::to_string(min_frequency) +
                                ": must be at least 1");
  }
  const std::unordered_set<std::string> reserved = check_special_tokens(special_tokens);
  PairLearner learner({counts_.begin(), counts_.end()}, reserved);
  while (static_cast<int64_t>(learner.entries().size()) + num_special_tokens < vocab_size &&
         learner.learn_merge(min_frequency)) {
  }
  LearnedVocabulary learned = {learner.entries(), {}, std::move(special_tokens)};
  for (const Pair pair : learner.merges())
    learned.merges.emplace_back(left_of(pair), right_of(pair));
  return learned;
}

}  // namespace weft
