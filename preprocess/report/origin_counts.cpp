#include "preprocess/report/origin_counts.h"

#include <algorithm>
#include <atomic>

#include "indexed_dataset/process/parallel_for.h"
#include "indexed_dataset/soundness/xxh3.h"
#include "preprocess/report/document_groups.h"

namespace weft {
namespace {

// A thread takes so many documents at a time, which keep it busy for a few milliseconds.
constexpr int64_t kRangeDocuments = 1 << 16;

bool is_larger(const DocumentGroups::Group& a, const DocumentGroups::Group& b) {
  if (a.size() != b.size()) return a.size() > b.size();
  return a.front().document_idx() < b.front().document_idx();
}

}  // namespace

OriginCounts count_origins(const SourceMap& sources, int num_threads, size_t num_largest,
                           const std::function<int64_t(int64_t)>& num_tokens_of) {
  OriginCounts counts;
  std::atomic<int64_t> num_documents_without = 0, num_tokens_without = 0;
  DocumentGroups groups(sources.num_documents());
  const int64_t num_ranges = (sources.num_documents() + kRangeDocuments - 1) / kRangeDocuments;
  parallel_for(num_ranges, num_threads, [&](int64_t range) {
    const int64_t end = std::min((range + 1) * kRangeDocuments, sources.num_documents());
    for (int64_t i = range * kRangeDocuments; i < end; ++i) {
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
  BestFew<DocumentGroups::Group, decltype(&is_larger)> largest(num_largest, &is_larger);
  groups.for_each([&](const DocumentGroups::Group& group) {
    ++counts.num_origins;
    largest.add(group);
  });
  for (const DocumentGroups::Group& group : largest.take()) {
    OriginCount count;
    count.origin = sources.entry(group.front().document_idx()).origin.view();
    count.num_documents = std::ssize(group);
    for (const auto& entry : group) count.num_tokens += num_tokens_of(entry.document_idx());
    counts.largest.push_back(std::move(count));
  }
  return counts;
}

}  // namespace weft
