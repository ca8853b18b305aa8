#include "tokenizer/vocabulary.h"

#include <mutex>
#include <stdexcept>
#include <tuple>
#include <utility>

#include "tokenizer/merge/backtrack_table.h"
#include "tokenizer/merge/pair_table.h"
#include "tokenizer/merge/word_merger.h"

namespace weft {

struct Vocabulary::LazyTables {
  std::once_flag backtrack_table_made;
  std::optional<BacktrackTable> backtrack_table;
  template <typename Token>
  struct Pairs {
    std::once_flag made;
    std::optional<PairTable<Token>> table;
  };
  std::tuple<Pairs<uint16_t>, Pairs<uint32_t>> pairs;
};

Vocabulary::Vocabulary(Parts parts)
    : parts_(std::move(parts)),
      is_special_(parts_.entries.size()),
      lazy_(std::make_shared<LazyTables>()) {
  for (const int32_t id : parts_.special_tokens) is_special_[static_cast<size_t>(id)] = true;
  entries_encode_to_themselves_ = every_entry_encodes_to_itself();
}

bool Vocabulary::every_entry_encodes_to_itself() const {
  WordMerger merger(parts_.merge_table);
  std::vector<int32_t> ids;
  for (int32_t id = 0; id < size(); ++id) {
    if (is_special(id)) continue;
    ids.clear();
    merger.merge(bytes(id), ids);
    if (ids.size() != 1 || ids[0] != id) return false;
  }
  return true;
}

int32_t Vocabulary::end_of_document() const {
  if (parts_.end_of_document < 0) {
    throw std::runtime_error(parts_.name + ": the vocabulary has no entry " +
                             std::string(kEndOfText) + " to end documents with");
  }
  return parts_.end_of_document;
}

const std::string& Vocabulary::bytes(int32_t id) const {
  if (id < 0 || id >= size()) {
    throw std::out_of_range("token id " + std::to_string(id) + " is not in the vocabulary of " +
                            std::to_string(size()) + " ids");
  }
  return parts_.entries[static_cast<size_t>(id)];
}

const BacktrackTable* Vocabulary::backtrack_table() const {
  std::call_once(lazy_->backtrack_table_made, [this] {
    if (entries_encode_to_themselves_) lazy_->backtrack_table = BacktrackTable::make(rules());
  });
  return lazy_->backtrack_table ? &*lazy_->backtrack_table : nullptr;
}

template <typename Token>
const PairTable<Token>* Vocabulary::pair_table() const {
  auto& pairs = std::get<LazyTables::Pairs<Token>>(lazy_->pairs);
  std::call_once(pairs.made, [&] {
    if (entries_encode_to_themselves_) pairs.table = PairTable<Token>::make(rules());
  });
  return pairs.table ? &*pairs.table : nullptr;
}

template const PairTable<uint16_t>* Vocabulary::pair_table() const;
template const PairTable<uint32_t>* Vocabulary::pair_table() const;

}  // namespace weft
