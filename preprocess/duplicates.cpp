#include "preprocess/duplicates.h"

#include <algorithm>
#include <stdexcept>
#include <thread>

namespace weft {
namespace {

constexpr uint64_t kDocumentMask = static_cast<uint64_t>(DuplicateFinder::kMaxDocuments) - 1;

}  // namespace

DuplicateFinder::DuplicateFinder(int64_t num_documents) {
  if (num_documents >= kMaxDocuments)
    throw std::length_error("duplicates are only looked for among fewer than 2^40 documents");
  entries_.resize(static_cast<size_t>(num_documents));
}

void DuplicateFinder::set(int64_t document_idx, uint64_t hash_high, uint64_t hash_low) {
  entries_[static_cast<size_t>(document_idx)] = {
      hash_high, (hash_low & ~kDocumentMask) | static_cast<uint64_t>(document_idx)};
}

// Halves around the median, each in a thread of its own: needs no memory besides.
void DuplicateFinder::sort(Entry* begin, Entry* end, int num_threads) {
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

Duplicates DuplicateFinder::find(int num_threads, size_t num_largest,
                                 const std::function<int64_t(int64_t)>& num_tokens_of) {
  sort(entries_.data(), entries_.data() + entries_.size(), num_threads);
  const auto saves_more = [](const DuplicateGroup& a, const DuplicateGroup& b) {
    const int64_t a_saves = (a.num_documents - 1) * a.num_tokens;
    const int64_t b_saves = (b.num_documents - 1) * b.num_tokens;
    return a_saves != b_saves ? a_saves > b_saves : a.first_document < b.first_document;
  };
  Duplicates found;
  for (auto begin = entries_.begin(); begin != entries_.end() && *begin != Entry{};) {
    const auto end = std::find_if(begin + 1, entries_.end(), [&](const Entry& entry) {
      return entry.high != begin->high ||
             (entry.low & ~kDocumentMask) != (begin->low & ~kDocumentMask);
    });
    // The documents of one hash follow each other by their numbers.
    if (end - begin > 1) {
      const auto first = static_cast<int64_t>(begin->low & kDocumentMask);
      const DuplicateGroup group{first, end - begin, num_tokens_of(first)};
      ++found.num_groups;
      found.num_documents += group.num_documents - 1;
      found.num_tokens += (group.num_documents - 1) * group.num_tokens;
      found.largest.push_back(group);
      if (found.largest.size() >= 2 * num_largest + 64) {
        std::sort(found.largest.begin(), found.largest.end(), saves_more);
        found.largest.resize(num_largest);
      }
    }
    begin = end;
  }
  std::sort(found.largest.begin(), found.largest.end(), saves_more);
  if (found.largest.size() > num_largest) found.largest.resize(num_largest);
  return found;
}

}  // namespace weft
