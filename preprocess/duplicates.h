// Documents that are the same, token by token: by hash, in 16 bytes of memory a document.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

namespace weft {

struct DuplicateGroup {
  int64_t first_document = 0, num_documents = 0;
  int64_t num_tokens = 0;  // of each
};

struct Duplicates {
  int64_t num_groups = 0;               // of at least two equal documents
  int64_t num_documents = 0;            // in them, but for the first of each
  int64_t num_tokens = 0;               // in these: what a dataset without them would save
  std::vector<DuplicateGroup> largest;  // by tokens that are saved; then by first document
};

// 88 bits of a document's XXH3-128 and its number. Among 10^9 documents the chance that any two
// different ones are taken for equal is 2 * 10^-9.
class DuplicateFinder {
 public:
  explicit DuplicateFinder(int64_t num_documents);
  // Thread-safe for different documents. Documents never set (empty ones) are not compared.
  void set(int64_t document_idx, uint64_t hash_high, uint64_t hash_low);
  // Sorts; to be called once. `num_tokens_of` gives the length of a document.
  Duplicates find(int num_threads, size_t num_largest,
                  const std::function<int64_t(int64_t document_idx)>& num_tokens_of);

  static constexpr int64_t kMaxDocuments = int64_t{1} << 40;

 private:
  struct Entry {
    uint64_t high = UINT64_MAX, low = UINT64_MAX;
    friend auto operator<=>(const Entry&, const Entry&) = default;
  };
  static void sort(Entry* begin, Entry* end, int num_threads);

  std::vector<Entry> entries_;
};

}  // namespace weft
