// Finds documents that have something in common, their text or their origin, by its hash. It takes
// 16 bytes of memory a document, however many different ones there are: corpora have tens of
// millions of domains.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "indexed_dataset/base/process/parallel_for.h"
#include "indexed_dataset/format/sidecars/source_map.h"
#include "preprocess/inspect/report/data_report.h"

namespace weft {

// Holds 88 bits of each document's XXH3-128, and its number. Among 10^9 documents the chance that
// any two different hashes are taken for equal is 2 * 10^-9.
class DocumentGroups {
 public:
  static constexpr int64_t kMaxDocuments = int64_t{1} << 40;
  static constexpr uint64_t kDocumentMask = static_cast<uint64_t>(kMaxDocuments) - 1;

  // Throws std::length_error for kMaxDocuments and more.
  explicit DocumentGroups(int64_t num_documents);
  // May be called by several threads for different documents. A document that is never set is in no
  // group.
  void set(int64_t document_idx, uint64_t hash_high, uint64_t hash_low);

  struct Entry {
    uint64_t high = UINT64_MAX, low = UINT64_MAX;  // bits of the hash; the number is in `low`

    int64_t document_idx() const { return static_cast<int64_t>(low & kDocumentMask); }
    bool is_set() const { return *this != Entry{}; }
    bool is_like(const Entry& other) const {
      return high == other.high && (low & ~kDocumentMask) == (other.low & ~kDocumentMask);
    }
    friend auto operator<=>(const Entry&, const Entry&) = default;
  };
  // The documents of one hash, at least one, ordered by number. Valid as long as this object.
  using Group = std::span<const Entry>;

  // Must be called once, after the last set() and before for_each().
  void sort(int num_threads);
  // Calls use(group) for each group, in an order that depends only on the hashes.
  template <typename Use>
  void for_each(const Use& use) const {
    for (auto begin = entries_.begin(); begin != entries_.end() && begin->is_set();) {
      const auto end = std::find_if(begin + 1, entries_.end(),
                                    [&](const Entry& entry) { return !entry.is_like(*begin); });
      use(Group(begin, end));
      begin = end;
    }
  }

 private:
  static void sort(Entry* begin, Entry* end, int num_threads);

  std::vector<Entry> entries_;
};

// Keeps the best `count` of many values, in order. Adding a value that is not among them costs
// little.
template <typename Value, typename IsBetter>
class BestFew {
 public:
  BestFew(size_t count, IsBetter is_better) : count_(count), is_better_(is_better) {}
  void add(const Value& value) {
    values_.push_back(value);
    if (values_.size() >= 2 * count_ + 64) cut();
  }
  void add_all(const BestFew& other) {
    for (const Value& value : other.values_) add(value);
  }
  std::vector<Value> take() {
    cut();
    return std::move(values_);
  }

 private:
  void cut() {
    std::sort(values_.begin(), values_.end(), is_better_);
    if (values_.size() > count_)
      values_.erase(values_.begin() + static_cast<ptrdiff_t>(count_), values_.end());
  }

  size_t count_;
  IsBetter is_better_;
  std::vector<Value> values_;
};

// Calls use(begin, end) for ranges of the documents [0, count), on several threads, in which each
// takes a few milliseconds.
template <typename Use>
void for_each_range(int64_t count, int num_threads, const Use& use) {
  const int64_t size = std::clamp<int64_t>(count / (64 * std::max(num_threads, 1)), 1, 4096);
  parallel_for((count + size - 1) / size, num_threads,
               [&](int64_t i) { use(i * size, std::min((i + 1) * size, count)); });
}

using NumTokensOf = std::function<int64_t(int64_t document_idx)>;  // called by any thread

// `groups` holds the documents by their text; empty ones are never set and not compared. Sorts
// `groups`.
Duplicates find_duplicates(DocumentGroups& groups, int num_threads, size_t num_largest,
                           const NumTokensOf& num_tokens_of);

// `sources` must have origins. The result does not depend on the number of threads. Throws what
// SourceMap::entry() throws.
OriginCounts count_origins(const SourceMap& sources, int num_threads, size_t num_largest,
                           const NumTokensOf& num_tokens_of);

}  // namespace weft
