// Byte pair encoding of one word: starting from its bytes, the neighbouring pair of lowest rank
// (the leftmost of several) is replaced by its result until no pair has a rule.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "tokenizer/merge/merge_table.h"

namespace weft {

// Holds scratch memory: one per thread. `table` must outlive it.
class WordMerger {
 public:
  explicit WordMerger(const MergeTable& table) : table_(table) {}

  // Appends the ids of `word`. O(n^2) up to kMaxScannedBytes, where moving a few bytes beats every
  // data structure; O(n log n) above, with about 24 bytes of memory per byte of the word. Words of
  // 4 GiB or more: std::length_error.
  void merge(std::string_view word, std::vector<int32_t>& ids);

 private:
  static constexpr size_t kMaxScannedBytes = 48;

  struct Symbol {
    int32_t id;  // kGone once merged into its left neighbour
    uint32_t previous, next;
  };
  void merge_by_scanning(std::string_view word, std::vector<int32_t>& ids);
  void merge_by_queue(std::string_view word, std::vector<int32_t>& ids);
  void enqueue(uint32_t left);

  const MergeTable& table_;
  std::vector<Symbol> symbols_;
  std::vector<uint64_t> queue_;  // heap of rank << 32 | position of the left symbol
};

}  // namespace weft
