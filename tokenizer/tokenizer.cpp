#include "tokenizer/tokenizer.h"

#include <algorithm>
#include <stdexcept>
#include <utility>

#include "tokenizer/merge_table.h"
#include "tokenizer/split.h"
#include "tokenizer/word_cache.h"
#include "tokenizer/word_merger.h"

namespace weft {
namespace {

// Pieces split at a time: positions and ids of a batch stay in the L1 cache.
constexpr size_t kBatchPieces = kSplitBatch;

// One word of a batch on its way through the cache.
struct Probe {
  ShortWordCache::Key key;
  const ShortWordCache::Entry* slot;
};

template <typename Entry>
void append(const Entry& entry, std::vector<int32_t>& ids) {
  int32_t entry_ids[LongWordCache::kMaxIds];
  entry.copy_ids(entry_ids);
  ids.insert(ids.end(), entry_ids, entry_ids + entry.num_ids());
}

}  // namespace

struct Tokenizer::Impl {
  Impl(std::shared_ptr<const Vocabulary> vocabulary_, SpecialTokens special_tokens_)
      : vocabulary(std::move(vocabulary_)),
        special_tokens(special_tokens_),
        table(vocabulary->merge_table()),
        merger(table) {
    remember_entries();
  }

  void encode(std::string_view text, std::vector<int32_t>& ids);
  void encode_plain(std::string_view text, std::vector<int32_t>& ids);
  void prepare(std::string_view text, size_t begin, const size_t* ends, size_t num_pieces,
               Probe* probes) const;
  void encode_batch(std::string_view text, size_t begin, const size_t* ends, size_t num_pieces,
                    const Probe* probes, std::vector<int32_t>& ids);
  void encode_word(std::string_view word, std::vector<int32_t>& ids);
  void encode_rare_word(std::string_view word, std::vector<int32_t>& ids);
  void encode_parts(std::string_view word, std::vector<int32_t>& ids);
  void encode_part(std::string_view part, std::vector<int32_t>& ids);
  void remember_entries();
  void remember(std::string_view word, const int32_t* word_ids, size_t num_ids);

  std::shared_ptr<const Vocabulary> vocabulary;
  SpecialTokens special_tokens;
  const MergeTable& table;
  WordMerger merger;
  ShortWordCache short_words;
  LongWordCache long_words;
};

// The text between special tokens is split on its own, as Hugging Face's tokenizers do.
void Tokenizer::Impl::encode(std::string_view text, std::vector<int32_t>& ids) {
  if (special_tokens != SpecialTokens::kLiteral) {
    size_t found;
    while ((found = text.find(kEndOfText)) != std::string_view::npos) {
      if (special_tokens == SpecialTokens::kError) {
        throw std::runtime_error(
            "the text contains <|endoftext|>; accept it as ordinary text or as the end-of-document "
            "token "
            "(--special literal or --special token)");
      }
      encode_plain(text.substr(0, found), ids);
      ids.push_back(vocabulary->end_of_document());
      text.remove_prefix(found + kEndOfText.size());
    }
  }
  encode_plain(text, ids);
}

// Batches in two steps: first keys and where they would be in the cache, so that memory is on its
// way while the rest of the batch is prepared; then the ids.
void Tokenizer::Impl::encode_plain(std::string_view text, std::vector<int32_t>& ids) {
  size_t ends[kBatchPieces];
  Probe probes[kBatchPieces];
  for (size_t begin = 0; begin < text.size();) {
    const size_t num_pieces = split_pieces(text, begin, ends, kBatchPieces);
    prepare(text, begin, ends, num_pieces, probes);
    encode_batch(text, begin, ends, num_pieces, probes, ids);
    begin = ends[num_pieces - 1];
  }
}

void Tokenizer::Impl::prepare(std::string_view text, size_t begin, const size_t* ends,
                              size_t num_pieces, Probe* probes) const {
  for (size_t i = 0; i < num_pieces; ++i) {
    const size_t num_bytes = ends[i] - begin;
    if (num_bytes <= ShortWordCache::kMaxWordBytes) {
      const std::string_view word = text.substr(begin, num_bytes);
      probes[i].key = text.size() - begin >= sizeof(ShortWordCache::Key)
                          ? ShortWordCache::key_of_readable(word.data(), num_bytes)
                          : ShortWordCache::key_of(word);
      probes[i].slot = short_words.slot_of(probes[i].key);
      __builtin_prefetch(probes[i].slot);
    }
    begin = ends[i];
  }
}

void Tokenizer::Impl::encode_batch(std::string_view text, size_t begin, const size_t* ends,
                                   size_t num_pieces, const Probe* probes,
                                   std::vector<int32_t>& ids) {
  int32_t batch_ids[kBatchPieces * ShortWordCache::kMaxIds];
  int32_t* next_id = batch_ids;
  bool slots_hold = true;  // no word was inserted since they were looked up
  for (size_t i = 0; i < num_pieces; ++i) {
    const std::string_view word = text.substr(begin, ends[i] - begin);
    begin = ends[i];
    const ShortWordCache::Entry* entry = nullptr;
    if (word.size() <= ShortWordCache::kMaxWordBytes) {
      entry = slots_hold ? short_words.find(probes[i].key, probes[i].slot)
                         : short_words.find(probes[i].key);
    }
    if (entry != nullptr) {
      entry->copy_ids(next_id);
      next_id += entry->num_ids();
    } else {
      ids.insert(ids.end(), batch_ids, next_id);
      next_id = batch_ids;
      encode_rare_word(word, ids);
      slots_hold = false;
    }
  }
  ids.insert(ids.end(), batch_ids, next_id);
}

void Tokenizer::Impl::encode_word(std::string_view word, std::vector<int32_t>& ids) {
  const ShortWordCache::Entry* entry = nullptr;
  if (word.size() <= ShortWordCache::kMaxWordBytes) {
    entry = short_words.find(ShortWordCache::key_of(word));
  }
  if (entry != nullptr) {
    append(*entry, ids);
  } else {
    encode_rare_word(word, ids);
  }
}

// A word that is not in short_words.
void Tokenizer::Impl::encode_rare_word(std::string_view word, std::vector<int32_t>& ids) {
  if (word.size() <= LongWordCache::kMaxWordBytes) {
    if (const auto* entry = long_words.find(LongWordCache::key_of(word))) {
      append(*entry, ids);
      return;
    }
  }
  const size_t first = ids.size();
  encode_parts(word, ids);
  remember(word, ids.data() + first, ids.size() - first);
}

// Cuts the word where no token reaches across: the parts come back in many words.
void Tokenizer::Impl::encode_parts(std::string_view word, std::vector<int32_t>& ids) {
  size_t begin = 0;
  for (size_t i = 1; i <= word.size(); ++i) {
    if (i < word.size() &&
        table.may_touch(static_cast<uint8_t>(word[i - 1]), static_cast<uint8_t>(word[i]))) {
      continue;
    }
    const std::string_view part = word.substr(begin, i - begin);
    if (part.size() == 1) {
      ids.push_back(table.byte_id(static_cast<uint8_t>(part[0])));
    } else if (part.size() == word.size()) {
      encode_part(part, ids);
    } else {
      encode_word(part, ids);
    }
    begin = i;
  }
}

// A part between byte pairs that no token reaches across. Short entries are in the cache from the
// start; for the others (runs of spaces or dashes) a look saves the merging.
void Tokenizer::Impl::encode_part(std::string_view part, std::vector<int32_t>& ids) {
  if (part.size() > ShortWordCache::kMaxWordBytes && vocabulary->entries_encode_to_themselves()) {
    if (const std::optional<int32_t> id = vocabulary->find(part)) {
      ids.push_back(*id);
      return;
    }
  }
  merger.merge(part, ids);
}

// Most words of a text are entries. This takes 5 ms for GPT-2's 50,000; to look each up when it
// first comes takes ten times as long.
void Tokenizer::Impl::remember_entries() {
  if (!vocabulary->entries_encode_to_themselves()) return;
  for (int32_t id = 0; id < vocabulary->size(); ++id) {
    const std::string& word = vocabulary->bytes(id);
    if (word != kEndOfText && word.size() <= ShortWordCache::kMaxWordBytes) remember(word, &id, 1);
  }
}

// Words of too many bytes or ids for either cache are not remembered.
void Tokenizer::Impl::remember(std::string_view word, const int32_t* word_ids, size_t num_ids) {
  if (word.size() <= ShortWordCache::kMaxWordBytes && num_ids <= ShortWordCache::kMaxIds) {
    short_words.insert(ShortWordCache::key_of(word), word_ids, num_ids);
  } else if (word.size() <= LongWordCache::kMaxWordBytes && num_ids <= LongWordCache::kMaxIds) {
    long_words.insert(LongWordCache::key_of(word), word_ids, num_ids);
  }
}

Tokenizer::Tokenizer(std::shared_ptr<const Vocabulary> vocabulary, SpecialTokens special_tokens) {
  if (vocabulary == nullptr) throw std::invalid_argument("Tokenizer: no vocabulary");
  if (special_tokens == SpecialTokens::kToken)
    vocabulary->end_of_document();  // throws if there is none
  impl_ = std::make_unique<Impl>(std::move(vocabulary), special_tokens);
}

Tokenizer::~Tokenizer() = default;
Tokenizer::Tokenizer(Tokenizer&&) noexcept = default;
Tokenizer& Tokenizer::operator=(Tokenizer&&) noexcept = default;

void Tokenizer::encode(std::string_view text, std::vector<int32_t>& ids) {
  impl_->encode(text, ids);
}

std::string Tokenizer::decode(const int32_t* ids, size_t num_ids) const {
  std::string bytes;
  for (size_t i = 0; i < num_ids; ++i) bytes += impl_->vocabulary->bytes(ids[i]);
  return bytes;
}

const Vocabulary& Tokenizer::vocabulary() const { return *impl_->vocabulary; }

}  // namespace weft
