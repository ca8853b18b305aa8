// The flat arenas of a rank (model/parameters.h), and how data-parallel ranks share them out.
#pragma once

#include <cstdint>
#include <vector>

#include "trainer/config/tensor_views.h"

namespace weft {

// Elements [first, first + count) of the arenas.
struct ArenaRange {
  int64_t first = 0, count = 0;
  int64_t end() const { return first + count; }
};

// How an arena is shared out over data-parallel ranks.
class ArenaShards {
 public:
  ArenaShards() = default;
  // `bucket_elements` is rounded up to whole blocks of kOptimizerBlock for every rank. A bucket
  // begins and one ends with `tied`, the word embedding that two pipeline stages share; it may be
  // empty.
  ArenaShards(int64_t arena_elements, int64_t bucket_elements, int rank, int size, bool sharded,
              ArenaRange tied = {});

  bool is_sharded() const { return sharded_; }
  // Every arena has so many elements: the parameters' and padding that makes buckets divide.
  int64_t padded_elements() const { return padded_elements_; }
  const std::vector<ArenaRange>& buckets() const { return buckets_; }
  // Returns the part of a bucket that a rank updates; replicated, that is all of it.
  ArenaRange part_of(const ArenaRange& bucket, int rank) const;
  ArenaRange own_part(const ArenaRange& bucket) const { return part_of(bucket, rank_); }
  // Returns the number of elements that this rank updates, over all buckets. Its optimizer state
  // holds their values, bucket after bucket.
  int64_t own_elements() const { return sharded_ ? padded_elements_ / size_ : padded_elements_; }

 private:
  int rank_ = 0, size_ = 1;
  bool sharded_ = false;
  int64_t padded_elements_ = 0;
  std::vector<ArenaRange> buckets_;
};

// Returns `range` of a flat tensor.
inline Tensor range_of(Tensor arena, const ArenaRange& range) {
  return range_of(arena, range.first, range.count);
}

}  // namespace weft
