#include "tokenizer/merge/word_merger.h"

#include <algorithm>
#include <functional>
#include <stdexcept>

namespace weft {
namespace {

constexpr int32_t kGone = -1;
constexpr uint32_t kNone = UINT32_MAX;
// Only hostile text has longer words: their memory is released.
constexpr size_t kMaxKeptSymbols = 1 << 16;

}  // namespace

void WordMerger::merge(std::string_view word, std::vector<int32_t>& ids) {
  if (word.size() <= kMaxScannedBytes) {
    merge_by_scanning(word, ids);
  } else {
    merge_by_queue(word, ids);
  }
}

void WordMerger::merge_by_scanning(std::string_view word, std::vector<int32_t>& ids) {
  int32_t symbols[kMaxScannedBytes];
  MergeTable::Rule
      rules[kMaxScannedBytes];  // rules[i] is for symbols i and i + 1; the last has none
  size_t num_symbols = word.size();
  for (size_t i = 0; i < num_symbols; ++i)
    symbols[i] = table_.byte_id(static_cast<uint8_t>(word[i]));
  for (size_t i = 0; i + 1 < num_symbols; ++i) rules[i] = table_.find(symbols[i], symbols[i + 1]);

  while (num_symbols > 1) {
    size_t best = 0;
    for (size_t i = 1; i + 1 < num_symbols; ++i) {
      if (rules[i].rank < rules[best].rank) best = i;
    }
    if (rules[best].rank == MergeTable::kNoRank) break;
    symbols[best] = rules[best].result;
    std::copy(symbols + best + 2, symbols + num_symbols, symbols + best + 1);
    std::copy(rules + best + 1, rules + num_symbols, rules + best);
    --num_symbols;
    if (best > 0) rules[best - 1] = table_.find(symbols[best - 1], symbols[best]);
    if (best + 1 < num_symbols) rules[best] = table_.find(symbols[best], symbols[best + 1]);
  }
  ids.insert(ids.end(), symbols, symbols + num_symbols);
}

void WordMerger::enqueue(uint32_t left) {
  const uint32_t right = symbols_[left].next;
  if (right == kNone) return;
  const MergeTable::Rule rule = table_.find(symbols_[left].id, symbols_[right].id);
  if (rule.rank == MergeTable::kNoRank) return;
  queue_.push_back(static_cast<uint64_t>(rule.rank) << 32 | left);
  std::push_heap(queue_.begin(), queue_.end(), std::greater<>());
}

void WordMerger::merge_by_queue(std::string_view word, std::vector<int32_t>& ids) {
  if (word.size() >= kNone) throw std::length_error("tokenizer: a single word of 4 GiB or more");
  const auto num_symbols = static_cast<uint32_t>(word.size());
  symbols_.resize(num_symbols);
  queue_.clear();
  for (uint32_t i = 0; i < num_symbols; ++i) {
    symbols_[i] = {table_.byte_id(static_cast<uint8_t>(word[i])), i == 0 ? kNone : i - 1,
                   i + 1 == num_symbols ? kNone : i + 1};
  }
  for (uint32_t i = 0; i < num_symbols; ++i) enqueue(i);

  while (!queue_.empty()) {
    std::pop_heap(queue_.begin(), queue_.end(), std::greater<>());
    const uint64_t top = queue_.back();
    queue_.pop_back();
    const auto left = static_cast<uint32_t>(top);
    Symbol& symbol = symbols_[left];
    // The pair may have changed since it was queued: its rule says whether this is still the one.
    if (symbol.id == kGone || symbol.next == kNone) continue;
    Symbol& right = symbols_[symbol.next];
    const MergeTable::Rule rule = table_.find(symbol.id, right.id);
    if (rule.rank != top >> 32) continue;
    symbol.id = rule.result;
    symbol.next = right.next;
    right.id = kGone;
    if (symbol.next != kNone) symbols_[symbol.next].previous = left;
    if (symbol.previous != kNone) enqueue(symbol.previous);
    enqueue(left);
  }
  for (uint32_t i = 0; i != kNone; i = symbols_[i].next) ids.push_back(symbols_[i].id);
  if (symbols_.size() > kMaxKeptSymbols) {
    symbols_ = {};
    queue_ = {};
  }
}

}  // namespace weft
