#include "tokenizer/text_encoder.h"

#include <algorithm>
#include <optional>
#include <span>
#include <string>

#include "tokenizer/known_words/word_batch.h"
#include "tokenizer/known_words/word_cache.h"
#include "tokenizer/merge/backtracking_merger.h"
#include "tokenizer/merge/merge_table.h"
#include "tokenizer/merge/pair_merger.h"
#include "tokenizer/merge/word_merger.h"
#include "tokenizer/split/simd.h"
#include "tokenizer/split/split_pattern.h"
#include "tokenizer/vocabulary.h"

namespace weft {
namespace {

// Only hostile text has words of more ids than this: their memory is released.
constexpr size_t kMaxKeptIds = 1 << 16;

// Parts that windows cannot encode, mostly lines of dashes, are merged by a queue up to this size.
// It takes 0.1 ms, once for each such word.
constexpr size_t kMaxQueuedBytes = 512;

// `CacheId` is the type of ids in the cache and of tokens in tables: uint16_t takes half the
// memory.
template <typename CacheId>
class CachingEncoder : public TextEncoder {
 public:
  explicit CachingEncoder(const Vocabulary& vocabulary)
      : vocabulary_(vocabulary),
        steps_(word_batch_steps<CacheId>(chosen_simd())),
        merger_(vocabulary.merge_table()) {
    if (const auto* pairs = vocabulary.pair_table<CacheId>()) pair_merger_.emplace(*pairs);
    remember_entries();
  }

  void encode(std::string_view text, std::vector<int32_t>& ids) override { encode_as(text, ids); }
  void encode(std::string_view text, std::vector<uint16_t>& ids) override { encode_as(text, ids); }
  int64_t num_dropped_bytes() const override { return num_dropped_bytes_; }

 private:
  using Cache = WordCache<CacheId>;
  using Merger = PairMerger<CacheId>;

  template <typename OutId>
  void encode_as(std::string_view text, std::vector<OutId>& ids);
  template <typename OutId>
  void encode_batch(std::string_view text, std::vector<OutId>& ids);
  template <typename OutId>
  void encode_rare_word(size_t i, std::string_view text, CacheId*& next_id,
                        std::vector<OutId>& ids);
  template <typename SomeId>
  void remember(const WordKey& key, std::string_view word, std::span<const SomeId> ids);
  bool has_missing_byte(std::string_view word) const;
  template <typename Id>
  bool some_need_all_merges(std::span<const Id> ids) const;
  size_t encode_short_word(std::string_view word, CacheId* ids);
  template <typename OutId>
  void encode_without_missing_bytes(std::string_view word, std::vector<OutId>& ids);
  template <typename OutId>
  void encode_long_word(std::string_view word, std::vector<OutId>& ids);
  template <typename OutId>
  void encode_long_part(std::string_view part, std::vector<OutId>& ids);
  void remember_entries();

  const Vocabulary& vocabulary_;
  WordBatchSteps<CacheId> steps_;
  WordMerger merger_;  // works with any vocabulary; the other mergers need one that allows them
  std::optional<Merger> pair_merger_;
  std::optional<BacktrackingMerger> long_merger_;  // made on first use
  Cache cache_;
  WordBatch batch_;
  // Ids that wait to be appended. Those of a rare word, which may be many, are added only in the
  // first half, so that the rest of the batch has room whatever comes.
  static constexpr size_t kMaxWaitingIds = kBatchWords * Cache::kNumCopied;
  static constexpr size_t kMaxWaitingIdsOfWord = 64;
  CacheId batch_ids_[2 * kMaxWaitingIds + kMaxWaitingIdsOfWord + Cache::kNumCopied];
  bool keys_are_stale_ = false;      // the cache's entries have moved since batch_ was prepared
  std::vector<int32_t> merged_ids_;  // scratch
  std::string kept_bytes_;           // scratch
  int64_t num_dropped_bytes_ = 0;
};

template <typename CacheId>
template <typename OutId>
void CachingEncoder<CacheId>::encode_as(std::string_view text, std::vector<OutId>& ids) {
  for (batch_.begin = 0; batch_.begin < text.size();
       batch_.begin = batch_.ends[batch_.num_words - 1]) {
    batch_.num_words = vocabulary_.pattern().split(text, batch_.begin, batch_.ends, kBatchWords);
    encode_batch(text, ids);
  }
}

template <typename CacheId>
template <typename OutId>
void CachingEncoder<CacheId>::encode_batch(std::string_view text, std::vector<OutId>& ids) {
  steps_.make_keys(text, cache_.table(), batch_);
  CacheId* next_id = batch_ids_;
  for (size_t i = 0;; ++i) {
    i = steps_.copy_known(text, cache_.table(), batch_, i, next_id);
    if (i == batch_.num_words) break;
    encode_rare_word(i, text, next_id, ids);
    if (keys_are_stale_) steps_.make_keys(text, cache_.table(), batch_);
    keys_are_stale_ = false;
  }
  ids.insert(ids.end(), batch_ids_, next_id);
}

// Encodes word number `i` of the batch, which was not found at once. A few ids are written to
// `next_id`; many are appended to `ids`, after those that wait in batch_ids_.
template <typename CacheId>
template <typename OutId>
void CachingEncoder<CacheId>::encode_rare_word(size_t i, std::string_view text, CacheId*& next_id,
                                               std::vector<OutId>& ids) {
  const WordKey& key = batch_.keys[i];
  const std::string_view word =
      text.substr(batch_.begin_of(i), batch_.ends[i] - batch_.begin_of(i));
  const auto flush = [&] {
    ids.insert(ids.end(), batch_ids_, next_id);
    next_id = batch_ids_;
  };
  if (next_id > batch_ids_ + kMaxWaitingIds) flush();
  if (const auto* entry = cache_.find_and_advance(batch_.offsets[i], key, word)) {
    const auto known_ids = cache_.ids_of(*entry);
    if (known_ids.size() <= kMaxWaitingIdsOfWord) {
      for (const CacheId id : known_ids) *next_id++ = id;
    } else {
      flush();
      ids.insert(ids.end(), known_ids.begin(), known_ids.end());
    }
  } else if (const int32_t id = vocabulary_.whole_piece(word); id >= 0) {
    *next_id = static_cast<CacheId>(id);
    if (word.size() <= WordKey::kMaxKeptBytes)
      remember(key, word, std::span<const CacheId>(next_id, 1));
    ++next_id;
  } else if (has_missing_byte(word)) {
    flush();
    encode_without_missing_bytes(word, ids);
  } else if (pair_merger_ && word.size() <= Merger::kMaxShortBytes) {
    const size_t num_ids = encode_short_word(word, next_id);
    remember(key, word, std::span<const CacheId>(next_id, num_ids));
    next_id += num_ids;
  } else {
    flush();
    const size_t num_before = ids.size();
    encode_long_word(word, ids);
    if (word.size() <= WordKey::kMaxKeptBytes)
      remember(key, word, std::span<const OutId>(ids).subspan(num_before));
  }
}

// A full cache forgets everything, which costs less than keeping count of use.
template <typename CacheId>
template <typename SomeId>
void CachingEncoder<CacheId>::remember(const WordKey& key, std::string_view word,
                                       std::span<const SomeId> ids) {
  if (!cache_.has_room(word.size())) {
    cache_.clear();
    remember_entries();
    keys_are_stale_ = true;
  }
  keys_are_stale_ |= cache_.insert(key, word, ids);
}

template <typename CacheId>
bool CachingEncoder<CacheId>::has_missing_byte(std::string_view word) const {
  const auto& missing = vocabulary_.missing_bytes();
  return missing.any() && std::any_of(word.begin(), word.end(),
                                      [&](char c) { return missing[static_cast<uint8_t>(c)]; });
}

// The bytes beside a missing one are neighbours then, as with Hugging Face's tokenizers. The word
// is not remembered, so that what is dropped is counted each time.
template <typename CacheId>
template <typename OutId>
void CachingEncoder<CacheId>::encode_without_missing_bytes(std::string_view word,
                                                           std::vector<OutId>& ids) {
  kept_bytes_ = word;
  num_dropped_bytes_ += static_cast<int64_t>(std::erase_if(kept_bytes_, [this](char c) {
    return vocabulary_.missing_bytes()[static_cast<uint8_t>(c)];
  }));
  encode_long_word(kept_bytes_, ids);
  if (kept_bytes_.size() > kMaxKeptIds) kept_bytes_ = {};
}

template <typename CacheId>
template <typename Id>
bool CachingEncoder<CacheId>::some_need_all_merges(std::span<const Id> ids) const {
  return vocabulary_.some_ids_need_all_merges() && std::any_of(ids.begin(), ids.end(), [&](Id id) {
           return vocabulary_.needs_all_merges(static_cast<int32_t>(id));
         });
}

// Writes the ids of a word of at most kMaxShortBytes and returns their number.
template <typename CacheId>
size_t CachingEncoder<CacheId>::encode_short_word(std::string_view word, CacheId* ids) {
  const size_t num_ids = pair_merger_->merge_short(word, ids);
  for (size_t i = 0; i < num_ids; ++i) ids[i] = static_cast<CacheId>(pair_merger_->id(ids[i]));
  if (!some_need_all_merges(std::span<const CacheId>(ids, num_ids))) return num_ids;
  merged_ids_.clear();
  merger_.merge(word, merged_ids_);
  std::copy(merged_ids_.begin(), merged_ids_.end(), ids);
  return merged_ids_.size();
}

// Cuts the word where no token reaches across, into stretches that can be merged at once if
// possible.
template <typename CacheId>
template <typename OutId>
void CachingEncoder<CacheId>::encode_long_word(std::string_view word, std::vector<OutId>& ids) {
  const auto may_touch = [&](size_t i) {
    return i < word.size() && vocabulary_.merge_table().may_touch(static_cast<uint8_t>(word[i - 1]),
                                                                  static_cast<uint8_t>(word[i]));
  };
  for (size_t begin = 0, end; begin < word.size(); begin = end) {
    end = std::min(begin + Merger::kMaxShortBytes, word.size());
    while (end > begin && may_touch(end)) --end;
    if (end == begin) {
      end = std::min(begin + Merger::kMaxShortBytes, word.size());
      while (may_touch(end)) ++end;
    }
    encode_long_part(word.substr(begin, end - begin), ids);
  }
}

template <typename CacheId>
template <typename OutId>
void CachingEncoder<CacheId>::encode_long_part(std::string_view part, std::vector<OutId>& ids) {
  if (pair_merger_ && part.size() <= Merger::kMaxShortBytes) {
    CacheId part_ids[Merger::kMaxShortBytes];
    const size_t num_ids = encode_short_word(part, part_ids);
    ids.insert(ids.end(), part_ids, part_ids + num_ids);
    return;
  }
  const size_t num_before = ids.size();
  if (pair_merger_ && pair_merger_->merge_by_windows(part, ids)) {
    if (!some_need_all_merges(std::span<const OutId>(ids).subspan(num_before))) return;
    ids.resize(num_before);
  }
  merged_ids_.clear();
  // Longest match, whose table takes 30 ms to make, is for hostile text.
  const BacktrackTable* const table =
      part.size() <= kMaxQueuedBytes ? nullptr : vocabulary_.backtrack_table();
  if (table != nullptr) {
    if (!long_merger_) long_merger_.emplace(*table);
    long_merger_->merge(part, merged_ids_);
    if (some_need_all_merges(std::span<const int32_t>(merged_ids_))) merged_ids_.clear();
  }
  if (merged_ids_.empty()) merger_.merge(part, merged_ids_);
  ids.insert(ids.end(), merged_ids_.begin(), merged_ids_.end());
  if (merged_ids_.size() > kMaxKeptIds) merged_ids_ = {};
}

// Puts the entries of the vocabulary into the cache: most words of a text are entries, and merging
// each when it first comes takes ten times as long. A vocabulary that would fill the cache is left
// out. The lines of the next entries are fetched meanwhile, as they lie anywhere.
template <typename CacheId>
void CachingEncoder<CacheId>::remember_entries() {
  constexpr size_t kNumAhead = 16;
  struct Known {
    int32_t id;
    WordKey key;
  };
  Known ahead[kNumAhead];
  size_t num_begun = 0, num_done = 0;
  const auto insert = [&](const Known& known) {
    const CacheId ids[] = {static_cast<CacheId>(known.id)};
    cache_.insert(known.key, vocabulary_.bytes(known.id), std::span<const CacheId>(ids));
  };
  for (int32_t id = 0; id < vocabulary_.size() && id < Cache::kMaxEntries / 4; ++id) {
    const std::string& word = vocabulary_.bytes(id);
    if (word.empty() || word.size() > WordKey::kMaxBytes) continue;
    if (!vocabulary_.is_reachable(id) && vocabulary_.whole_piece(word) != id) continue;
    if (num_begun - num_done == kNumAhead) insert(ahead[num_done++ % kNumAhead]);
    Known& known = ahead[num_begun++ % kNumAhead];
    known = {id, WordKey::of(word)};
    const WordTable table = cache_.table();
    __builtin_prefetch(table.lines + (known.key.hash() >> table.shift) * kWordLineBytes, 1);
  }
  while (num_done < num_begun) insert(ahead[num_done++ % kNumAhead]);
}

}  // namespace

std::unique_ptr<TextEncoder> make_text_encoder(const Vocabulary& vocabulary) {
  if (vocabulary.size() <= 1 << 16) return std::make_unique<CachingEncoder<uint16_t>>(vocabulary);
  return std::make_unique<CachingEncoder<uint32_t>>(vocabulary);
}

}  // namespace weft
