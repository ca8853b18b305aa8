#include "tokenizer/vocabulary.h"

#include <algorithm>
#include <mutex>
#include <stdexcept>
#include <tuple>
#include <utility>

#include "tokenizer/merge/backtrack_table.h"
#include "tokenizer/merge/effective_merges.h"
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
      is_reachable_(parts_.entries.size()),
      lazy_(std::make_shared<LazyTables>()) {
  for (const int32_t id : parts_.special_tokens) is_special_[static_cast<size_t>(id)] = true;
  for (size_t byte = 0; byte < missing_bytes_.size(); ++byte) {
    const int32_t id = merge_table().byte_id(static_cast<uint8_t>(byte));
    if (id == MergeTable::kNoByte) {
      missing_bytes_.set(byte);
    } else {
      is_reachable_[static_cast<size_t>(id)] = true;
    }
  }
  keep_effective_merges();
  std::vector<bool> is_whole_piece(parts_.entries.size());
  for (const int32_t id : parts_.whole_pieces) {
    is_whole_piece[static_cast<size_t>(id)] = true;
    if (!is_reachable(id)) whole_pieces_.emplace(bytes(id), id);
  }
  for (int32_t id = 0; id < size(); ++id) {
    num_unreachable_ += !bytes(id).empty() && !is_special(id) && !is_reachable(id) &&
                        !is_whole_piece[static_cast<size_t>(id)];
  }
}

void Vocabulary::keep_effective_merges() {
  EffectiveMerges effective = effective_merges(rules());
  for (const Merge& merge : effective.merges)
    is_reachable_[static_cast<size_t>(merge.result)] = true;
  needs_all_merges_ = std::move(effective.needs_all_merges);
  some_ids_need_all_merges_ = std::find(needs_all_merges_.begin(), needs_all_merges_.end(), true) !=
                              needs_all_merges_.end();
  if (some_ids_need_all_merges_) {
    WordMerger merger(merge_table());
    for (int32_t id = 0; id < size(); ++id) {
      if (!is_reachable(id) || needs_all_merges(id))
        is_reachable_[static_cast<size_t>(id)] = encodes_to_itself(id, merger);
    }
  }
  parts_.merges = std::move(effective.merges);
}

bool Vocabulary::encodes_to_itself(int32_t id, WordMerger& merger) const {
  const std::string& entry = bytes(id);
  const auto is_missing = [this](char c) { return missing_bytes_[static_cast<uint8_t>(c)]; };
  if (entry.empty() || std::any_of(entry.begin(), entry.end(), is_missing)) return false;
  std::vector<int32_t> ids;
  merger.merge(entry, ids);
  return ids.size() == 1 && ids[0] == id;
}

int32_t Vocabulary::end_of_document() const {
  if (parts_.end_of_document < 0) {
    throw std::runtime_error(parts_.name +
                             ": the tokenizer has none of the known tokens that end documents");
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
  std::call_once(lazy_->backtrack_table_made,
                 [this] { lazy_->backtrack_table = BacktrackTable::make(rules()); });
  return lazy_->backtrack_table ? &*lazy_->backtrack_table : nullptr;
}

template <typename Token>
const PairTable<Token>* Vocabulary::pair_table() const {
  auto& pairs = std::get<LazyTables::Pairs<Token>>(lazy_->pairs);
  std::call_once(pairs.made, [&] { pairs.table = PairTable<Token>::make(rules()); });
  return pairs.table ? &*pairs.table : nullptr;
}

template const PairTable<uint16_t>* Vocabulary::pair_table() const;
template const PairTable<uint32_t>* Vocabulary::pair_table() const;

}  // namespace weft
