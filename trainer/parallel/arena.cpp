#include "trainer/parallel/arena.h"

#include <algorithm>

#include "kernels/numbers/split_master.h"

namespace weft {
namespace {

int64_t round_up(int64_t value, int64_t multiple) {
  return (value + multiple - 1) / multiple * multiple;
}

}  // namespace

ArenaShards::ArenaShards(int64_t arena_elements, int64_t bucket_elements, int rank, int size,
                         bool sharded, ArenaRange tied)
    : rank_(rank), size_(size), sharded_(sharded && size > 1) {
  const int64_t unit = sharded_ ? size * kOptimizerBlock : kOptimizerBlock;
  padded_elements_ = round_up(arena_elements, unit);
  const int64_t bucket = size == 1 ? padded_elements_ : round_up(bucket_elements, unit);
  for (int64_t first = 0; first < padded_elements_; first = buckets_.back().end()) {
    int64_t end = std::min(first + bucket, padded_elements_);
    for (const int64_t cut : {tied.first, tied.end()}) {
      if (first < cut) end = std::min(end, cut);
    }
    buckets_.push_back({first, end - first});
  }
}

ArenaRange ArenaShards::part_of(const ArenaRange& bucket, int rank) const {
  if (!sharded_) return bucket;
  const int64_t part = bucket.count / size_;
  return {bucket.first + rank * part, part};
}

}  // namespace weft
