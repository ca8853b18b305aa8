// Finds documents that have something in common, their text or their origin, by its hash. It takes
// 16 bytes of memory a document, however many different ones there are.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <vector>

namespace weft {

// Holds 88 bits of each document's XXH3-128, and its number. Among 10^9 documents the chance that
// any two different hashes are taken for equal is 2 * 10^-9.
class DocumentGroups {
 public:
  static constexpr int64_t kMaxDocuments = int64_t{1} << 40;

  // Throws std::length_error for kMaxDocuments and more.
  explicit DocumentGroups(int64_t num_documents);
  // May be called by several threads for different documents. A document that is never set is in no
  // group.
  void set(int64_t document_idx, uint64_t hash_high, uint64_t hash_low);

  class Entry {
   public:
    int64_t document_idx() const { return static_cast<int64_t>(low_ & kDocumentMask); }

   private:
    friend DocumentGroups;
    static constexpr uint64_t kDocumentMask = static_cast<uint64_t>(kMaxDocuments) - 1;
    bool is_set() const { return *this != Entry{}; }
    bool is_like(const Entry& other) const {
      return high_ == other.high_ && (low_ & ~kDocumentMask) == (other.low_ & ~kDocumentMask);
    }
    friend auto operator<=>(const Entry&, const Entry&) = default;

    uint64_t high_ = UINT64_MAX, low_ = UINT64_MAX;
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

}  // namespace weft
