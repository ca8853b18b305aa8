#include "tokenizer/text_encoder.h"

#include <optional>
#include <string>

#include "tokenizer/backtracking_merger.h"
#include "tokenizer/merge_table.h"
#include "tokenizer/split.h"
#include "tokenizer/vocabulary.h"
#include "tokenizer/word_cache.h"
#include "tokenizer/word_merger.h"

namespace weft {
namespace {

// Pieces split at a time: positions, keys and ids of a batch stay in the L1 cache.
constexpr size_t kBatchPieces = kSplitBatch;
// Entries are brought to L2 as soon as the key is known, and to L1 this many words before they are
// read: about 16 lookups take as long as the L2 cache does.
constexpr size_t kPrefetchAhead = 16;

// Longer words are encoded by longest match, if the vocabulary allows that.
constexpr size_t kMaxScannedBytes = 15;
// Parts of this size come back in any long word (a Han character has 3 bytes); longer ones come
// back in few, and looking for one in a table takes as long as encoding it.
constexpr size_t kMaxCachedPartOfLongWord = 4;

// Only hostile text has words of so many ids: give such memory back.
constexpr size_t kMaxKeptIds = 1 << 16;

// `CacheId` is the type of ids in the caches: uint16_t takes half the memory.
template <typename CacheId>
class CachingEncoder : public TextEncoder {
 public:
  explicit CachingEncoder(const Vocabulary& vocabulary)
      : vocabulary_(vocabulary), table_(vocabulary.merge_table()), merger_(table_) {
    remember_entries();
  }

  void encode(std::string_view text, std::vector<int32_t>& ids) override { encode_as(text, ids); }
  void encode(std::string_view text, std::vector<uint16_t>& ids) override { encode_as(text, ids); }

 private:
  using ShortWords = ShortWordCache<CacheId>;
  using LongWords = LongWordCache<CacheId>;

  // One word of a batch on its way through the cache.
  struct Probe {
    typename ShortWords::Key key;
    uint64_t hash;
  };

  template <typename OutId>
  void encode_as(std::string_view text, std::vector<OutId>& ids);
  void prepare(std::string_view text, size_t begin, const size_t* ends, size_t num_pieces,
               Probe* probes) const;
  template <typename OutId>
  void encode_batch(std::string_view text, size_t begin, const size_t* ends, size_t num_pieces,
                    const Probe* probes, std::vector<OutId>& ids);
  template <typename OutId>
  void encode_rare_word(std::string_view word, std::vector<OutId>& ids);
  void encode_parts(std::string_view word, std::vector<int32_t>& ids);
  void encode_cached_part(std::string_view part, std::vector<int32_t>& ids);
  void encode_part(std::string_view part, std::vector<int32_t>& ids);
  void encode_long_part(std::string_view part, std::vector<int32_t>& ids);
  void remember_entries();
  void remember(std::string_view word, const int32_t* word_ids, size_t num_ids);

  const Vocabulary& vocabulary_;
  const MergeTable& table_;
  WordMerger merger_;
  std::optional<BacktrackingMerger> long_merger_;  // made on first use
  ShortWords short_words_;
  LongWords long_words_;
  std::vector<int32_t> rare_ids_;  // scratch
};

template <typename Entry, typename OutId>
void append(const Entry& entry, std::vector<OutId>& ids) {
  ids.insert(ids.end(), entry.ids, entry.ids + entry.num_ids);
}

// Batches in two steps: first keys and where they would be in the cache, so that memory is on its
// way while the rest of the batch is prepared; then the ids.
template <typename CacheId>
template <typename OutId>
void CachingEncoder<CacheId>::encode_as(std::string_view text, std::vector<OutId>& ids) {
  size_t ends[kBatchPieces];
  Probe probes[kBatchPieces + kPrefetchAhead] = {};  // those behind the last are prefetched, too
  for (size_t begin = 0; begin < text.size();) {
    const size_t num_pieces = split_pieces(text, begin, ends, kBatchPieces);
    prepare(text, begin, ends, num_pieces, probes);
    encode_batch(text, begin, ends, num_pieces, probes, ids);
    begin = ends[num_pieces - 1];
  }
}

template <typename CacheId>
void CachingEncoder<CacheId>::prepare(std::string_view text, size_t begin, const size_t* ends,
                                      size_t num_pieces, Probe* probes) const {
  // Equal to no word's, as it says it is longer than fits.
  constexpr typename ShortWords::Key kTooLong = {0, UINT64_MAX};
  for (size_t i = 0; i < num_pieces; ++i) {
    const size_t num_bytes = ends[i] - begin;
    if (num_bytes > ShortWords::kMaxWordBytes) {
      probes[i].key = kTooLong;
    } else if (text.size() - begin >= sizeof(typename ShortWords::Key)) {
      probes[i].key = ShortWords::key_of_readable(text.data() + begin, num_bytes);
    } else {
      probes[i].key = ShortWords::key_of(text.substr(begin, num_bytes));
    }
    probes[i].hash = ShortWords::hash_of(probes[i].key);
    short_words_.template prefetch<2>(probes[i].hash);
    begin = ends[i];
  }
}

template <typename CacheId>
template <typename OutId>
void CachingEncoder<CacheId>::encode_batch(std::string_view text, size_t begin, const size_t* ends,
                                           size_t num_pieces, const Probe* probes,
                                           std::vector<OutId>& ids) {
  CacheId batch_ids[kBatchPieces * ShortWords::kMaxIds + ShortWords::kNumCopied];
  CacheId* next_id = batch_ids;
  for (size_t i = 0; i < num_pieces; ++i) {
    short_words_.template prefetch<3>(probes[i + kPrefetchAhead].hash);
    if (const auto* entry = short_words_.find(probes[i].key, probes[i].hash)) {
      entry->copy_ids(next_id);
      next_id += entry->num_ids;
      continue;
    }
    ids.insert(ids.end(), batch_ids, next_id);
    next_id = batch_ids;
    const size_t word_begin = i == 0 ? begin : ends[i - 1];
    encode_rare_word(text.substr(word_begin, ends[i] - word_begin), ids);
  }
  ids.insert(ids.end(), batch_ids, next_id);
}

// A word that is not in short_words_.
template <typename CacheId>
template <typename OutId>
void CachingEncoder<CacheId>::encode_rare_word(std::string_view word, std::vector<OutId>& ids) {
  if (word.size() <= LongWords::kMaxWordBytes) {
    if (const auto* entry = long_words_.find(LongWords::key_of(word))) {
      append(*entry, ids);
      return;
    }
  }
  rare_ids_.clear();
  encode_parts(word, rare_ids_);
  remember(word, rare_ids_.data(), rare_ids_.size());
  ids.insert(ids.end(), rare_ids_.begin(), rare_ids_.end());
  if (rare_ids_.size() > kMaxKeptIds) rare_ids_ = {};
}

// Cuts the word where no token reaches across: the parts come back in many words.
template <typename CacheId>
void CachingEncoder<CacheId>::encode_parts(std::string_view word, std::vector<int32_t>& ids) {
  const size_t max_cached_bytes =
      word.size() > LongWords::kMaxWordBytes ? kMaxCachedPartOfLongWord : word.size() - 1;
  size_t begin = 0;
  for (size_t i = 1; i <= word.size(); ++i) {
    if (i < word.size() &&
        table_.may_touch(static_cast<uint8_t>(word[i - 1]), static_cast<uint8_t>(word[i]))) {
      continue;
    }
    const std::string_view part = word.substr(begin, i - begin);
    if (part.size() == 1) {
      ids.push_back(table_.byte_id(static_cast<uint8_t>(part[0])));
    } else if (part.size() <= max_cached_bytes) {
      encode_cached_part(part, ids);
    } else if (word.size() > LongWords::kMaxWordBytes) {
      encode_long_part(part, ids);
    } else {
      encode_part(part, ids);
    }
    begin = i;
  }
}

template <typename CacheId>
void CachingEncoder<CacheId>::encode_cached_part(std::string_view part, std::vector<int32_t>& ids) {
  if (part.size() <= ShortWords::kMaxWordBytes) {
    if (const auto* entry = short_words_.find(ShortWords::key_of(part))) return append(*entry, ids);
  }
  if (part.size() <= LongWords::kMaxWordBytes) {
    if (const auto* entry = long_words_.find(LongWords::key_of(part))) return append(*entry, ids);
  }
  const size_t num_before = ids.size();
  encode_part(part, ids);
  remember(part, ids.data() + num_before, ids.size() - num_before);
}

// A part between byte pairs that no token reaches across. For a few bytes scanning is fastest.
template <typename CacheId>
void CachingEncoder<CacheId>::encode_part(std::string_view part, std::vector<int32_t>& ids) {
  if (part.size() > kMaxScannedBytes) {
    encode_long_part(part, ids);
  } else {
    merger_.merge(part, ids);
  }
}

template <typename CacheId>
void CachingEncoder<CacheId>::encode_long_part(std::string_view part, std::vector<int32_t>& ids) {
  const BacktrackTable* const table = vocabulary_.backtrack_table();
  if (table == nullptr) {
    merger_.merge(part, ids);
    return;
  }
  if (!long_merger_) long_merger_.emplace(*table);
  long_merger_->merge(part, ids);
}

// Most words of a text are entries. This takes 5 ms for GPT-2's 50,000; to look each up when it
// first comes takes ten times as long. A vocabulary that would fill the cache stays out.
template <typename CacheId>
void CachingEncoder<CacheId>::remember_entries() {
  if (!vocabulary_.entries_encode_to_themselves()) return;
  for (int32_t id = 0; id < vocabulary_.size() && id < ShortWords::kMaxEntries / 2; ++id) {
    const std::string& word = vocabulary_.bytes(id);
    if (word == kEndOfText || word.size() > ShortWords::kMaxWordBytes) continue;
    short_words_.insert(ShortWords::key_of(word), &id, 1);
  }
}

// Words of too many bytes or ids for either cache are not remembered. A full cache forgets
// everything, which costs less than keeping count of use.
template <typename CacheId>
void CachingEncoder<CacheId>::remember(std::string_view word, const int32_t* word_ids,
                                       size_t num_ids) {
  if (word.size() <= ShortWords::kMaxWordBytes && num_ids <= ShortWords::kMaxIds) {
    if (!short_words_.has_room()) {
      short_words_.clear();
      remember_entries();
    }
    short_words_.insert(ShortWords::key_of(word), word_ids, num_ids);
  } else if (word.size() <= LongWords::kMaxWordBytes && num_ids <= LongWords::kMaxIds) {
    if (!long_words_.has_room()) long_words_.clear();
    long_words_.insert(LongWords::key_of(word), word_ids, num_ids);
  }
}

}  // namespace

std::unique_ptr<TextEncoder> make_text_encoder(const Vocabulary& vocabulary) {
  if (vocabulary.size() <= 1 << 16) return std::make_unique<CachingEncoder<uint16_t>>(vocabulary);
  return std::make_unique<CachingEncoder<uint32_t>>(vocabulary);
}

}  // namespace weft
