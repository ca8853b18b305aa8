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
constexpr size_t kBatchPieces = 256;

}  // namespace

struct Tokenizer::Impl {
  Impl(std::shared_ptr<const Vocabulary> vocabulary_, SpecialTokens special_tokens_)
      : vocabulary(std::move(vocabulary_)),
        special_tokens(special_tokens_),
        table(vocabulary->merge_table()),
        merger(table) {}

  void encode(std::string_view text, std::vector<int32_t>& ids);
  void encode_plain(std::string_view text, std::vector<int32_t>& ids);
  void encode_piece(std::string_view piece, std::vector<int32_t>& ids);
  void encode_parts(std::string_view piece, std::vector<int32_t>& ids);
  void encode_part(std::string_view part, std::vector<int32_t>& ids);
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

void Tokenizer::Impl::encode_plain(std::string_view text, std::vector<int32_t>& ids) {
  size_t ends[kBatchPieces];
  int32_t batch_ids[kBatchPieces * ShortWordCache::kMaxIds];
  size_t begin = 0;
  for (;;) {
    const size_t num_pieces = split_pieces(text, begin, ends, kBatchPieces);
    int32_t* next_id = batch_ids;
    for (size_t i = 0; i < num_pieces; ++i) {
      const size_t num_bytes = ends[i] - begin;
      const char* const piece = text.data() + begin;
      const ShortWordCache::Entry* entry = nullptr;
      if (num_bytes <= ShortWordCache::kMaxWordBytes) {
        entry =
            short_words.find(ShortWordCache::key_of(piece, num_bytes, text.size() - begin >= 16));
      }
      if (entry != nullptr) {
        entry->copy_ids(next_id);
        next_id += entry->num_ids();
      } else {
        ids.insert(ids.end(), batch_ids, next_id);
        next_id = batch_ids;
        encode_piece({piece, num_bytes}, ids);
      }
      begin = ends[i];
    }
    ids.insert(ids.end(), batch_ids, next_id);
    if (num_pieces < kBatchPieces) return;
  }
}

// A piece that ShortWordCache does not know.
void Tokenizer::Impl::encode_piece(std::string_view piece, std::vector<int32_t>& ids) {
  if (piece.size() <= LongWordCache::kMaxWordBytes) {
    if (const std::vector<int32_t>* known = long_words.find(piece)) {
      ids.insert(ids.end(), known->begin(), known->end());
      return;
    }
  }
  const size_t first = ids.size();
  encode_parts(piece, ids);
  if (piece.size() <= LongWordCache::kMaxWordBytes) {
    remember(piece, ids.data() + first, ids.size() - first);
  }
}

void Tokenizer::Impl::encode_parts(std::string_view piece, std::vector<int32_t>& ids) {
  size_t begin = 0;
  for (size_t i = 1; i <= piece.size(); ++i) {
    if (i < piece.size() &&
        table.may_touch(static_cast<uint8_t>(piece[i - 1]), static_cast<uint8_t>(piece[i]))) {
      continue;
    }
    encode_part(piece.substr(begin, i - begin), ids);
    begin = i;
  }
}

// A part between byte pairs that no token reaches across.
void Tokenizer::Impl::encode_part(std::string_view part, std::vector<int32_t>& ids) {
  if (part.size() == 1) {
    ids.push_back(table.byte_id(static_cast<uint8_t>(part[0])));
    return;
  }
  if (vocabulary->entries_encode_to_themselves()) {
    if (const std::optional<int32_t> id = vocabulary->find(part)) {
      ids.push_back(*id);
      return;
    }
  }
  merger.merge(part, ids);
}

void Tokenizer::Impl::remember(std::string_view word, const int32_t* word_ids, size_t num_ids) {
  if (word.size() <= ShortWordCache::kMaxWordBytes && num_ids <= ShortWordCache::kMaxIds) {
    short_words.insert(ShortWordCache::key_of(word.data(), word.size(), false), word_ids, num_ids);
  } else {
    long_words.insert(word, word_ids, num_ids);
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
