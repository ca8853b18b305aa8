#include "preprocess/inspect/report/document_groups.h"

#include <atomic>
#include <stdexcept>
#include <thread>

#include "indexed_dataset/format/soundness/xxh3.h"

namespace weft {
namespace {

bool saves_more(const DuplicateGroup& a, const DuplicateGroup& b) {
  const int64_t a_saves = (a.num_documents - 1) * a.num_tokens;
  const int64_t b_saves = (b.num_documents - 1) * b.num_tokens;
  return a_saves != b_saves ? a_saves > b_saves : a.first_document < b.first_document;
}

struct SizedGroup {
  DocumentGroups::Group documents;
  int64_t num_tokens = 0;
};

bool has_more_tokens(const SizedGroup& a, const SizedGroup& b) {
  if (a.num_tokens != b.num_tokens) return a.num_tokens > b.num_tokens;
  return a.documents.front().document_idx() < b.documents.front().document_idx();
}

}  // namespace

DocumentGroups::DocumentGroups(int64_t num_documents) {
  if (num_documents >= kMaxDocuments)
    throw std::length_error("documents are only compared where they are fewer than 2^40");
  entries_.resize(static_cast<size_t>(num_documents));
}

void DocumentGroups::set(int64_t document_idx, uint64_t hash_high, uint64_t hash_low) {
  entries_[static_cast<size_t>(document_idx)] = {
      hash_high, (hash_low & ~kDocumentMask) | static_cast<uint64_t>(document_idx)};
}

void DocumentGroups::sort(int num_threads) {
  sort(entries_.data(), entries_.data() + entries_.size(), num_threads);
}

// Divides the entries at the median and sorts each half in a thread of its own, in place.
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

Duplicates find_duplicates(DocumentGroups& groups, int num_threads, size_t num_largest,
                           const NumTokensOf& num_tokens_of) {
  groups.sort(num_threads);
  Duplicates found;
  BestFew<DuplicateGroup, decltype(&saves_more)> largest(num_largest, &saves_more);
  groups.for_each([&](const DocumentGroups::Group& documents) {
    if (documents.size() == 1) return;
    const int64_t first = documents.front().document_idx();
    const DuplicateGroup group{first, std::ssize(documents), num_tokens_of(first)};
    ++found.num_groups;
    found.num_documents += group.num_documents - 1;
    found.num_tokens += (group.num_documents - 1) * group.num_tokens;
    largest.add(group);
  });
  found.largest = largest.take();
  return found;
}

OriginCounts count_origins(const SourceMap& sources, int num_threads, size_t num_largest,
                           const NumTokensOf& num_tokens_of) {
  OriginCounts counts;
  std::atomic<int64_t> num_documents_without = 0, num_tokens_without = 0;
  DocumentGroups groups(sources.num_documents());
  for_each_range(sources.num_documents(), num_threads, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      const Origin origin = sources.entry(i).origin;
      if (origin.is_empty()) {
        ++num_documents_without;
        num_tokens_without += num_tokens_of(i);
        continue;
      }
      const XXH128_hash_t hash = XXH3_128bits(origin.bytes.data(), origin.bytes.size());
      groups.set(i, hash.high64, hash.low64);
    }
  });
  counts.num_documents_without = num_documents_without;
  counts.num_tokens_without = num_tokens_without;

  groups.sort(num_threads);
  BestFew<SizedGroup, decltype(&has_more_tokens)> largest(num_largest, &has_more_tokens);
  groups.for_each([&](const DocumentGroups::Group& group) {
    ++counts.num_origins;
    SizedGroup sized{group};
    for (const auto& entry : group) sized.num_tokens += num_tokens_of(entry.document_idx());
    largest.add(sized);
  });
  for (const auto& [group, num_tokens] : largest.take()) {
    const SourceEntry first = sources.entry(group.front().document_idx());
    counts.largest.push_back({std::string(first.origin.view()), std::ssize(group), num_tokens});
  }
  return counts;
}

}  // namespace weft
