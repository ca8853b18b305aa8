#include "preprocess/report/document_groups.h"

#include <stdexcept>
#include <thread>

namespace weft {

DocumentGroups::DocumentGroups(int64_t num_documents) {
  if (num_documents >= kMaxDocuments)
    throw std::length_error("documents are only compared where they are fewer than 2^40");
  entries_.resize(static_cast<size_t>(num_documents));
}

void DocumentGroups::set(int64_t document_idx, uint64_t hash_high, uint64_t hash_low) {
  Entry& entry = entries_[static_cast<size_t>(document_idx)];
  entry.high_ = hash_high;
  entry.low_ = (hash_low & ~Entry::kDocumentMask) | static_cast<uint64_t>(document_idx);
}

void DocumentGroups::sort(int num_threads) {
  sort(entries_.data(), entries_.data() + entries_.size(), num_threads);
}

// Parts the entries at the median and sorts each half in a thread of its own, in place.
void DocumentGroups::sort(Entry* begin, Entry* end, int num_threads) {
  constexpr ptrdiff_t kWorthAThread = 1 << 16;
  if (num_threads <= 1 || end - begin < kWorthAThread) {
    std::sort(begin, end);
    return;
  }
  Entry* middle = begin + (end - begin) / 2;
  std::nth_element(begin, middle, end);
  std::jthread other([=] { sort(begin, middle, num_threads / 2); });
  sort(middle, end, num_threads - num_threads / 2);
}

}  // namespace weft
