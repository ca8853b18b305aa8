#include "trainer/parallel/parameter_gatherer.h"

#include <stdexcept>

namespace weft {

ParameterGatherer::ParameterGatherer(Backend& backend, const ProcessGroups& groups,
                                     const ArenaShards& shards)
    : backend_(backend), data_(*groups.data), shards_(shards), ahead_(groups.tensor->size() > 1) {}

void ParameterGatherer::bind(Tensor parameters) {
  parameters_ = parameters;
  if (!shards_.is_sharded()) return;
  for (size_t i = 0; i < shards_.buckets().size(); ++i) {
    updated_.push_back(backend_.create_event());
    gathered_.push_back(backend_.create_event());
  }
}

void ParameterGatherer::gather(size_t bucket) {
  if (!shards_.is_sharded()) return;
  if (bucket + 1 == gathered_.size()) {
    if (enqueued_ != 0) throw std::logic_error("gathering: forward has not waited for all buckets");
    enqueued_ = awaited_ = gathered_.size();
  }
  backend_.record(updated_[bucket], Stream::kCompute);
  if (!ahead_) enqueue(bucket);
}

void ParameterGatherer::enqueue(size_t bucket) {
  // Ranks that gather in different orders would wait for each other, or mix up buckets.
  if (bucket + 1 != enqueued_) throw std::logic_error("gathering: a bucket is out of order");
  const ArenaRange& range = shards_.buckets()[bucket];
  backend_.wait(Stream::kReduction, updated_[bucket]);
  data_.all_gather(range_of(parameters_, range), range_of(parameters_, shards_.own_part(range)),
                   Stream::kReduction);
  backend_.record(gathered_[bucket], Stream::kReduction);
  enqueued_ = bucket;
}

size_t ParameterGatherer::lowest_bucket(int64_t arena_first, size_t limit) const {
  size_t lowest = limit;
  while (lowest > 0 && shards_.buckets()[lowest - 1].end() > arena_first) --lowest;
  return lowest;
}

// The stream is in order: an event of a bucket stands for all that were gathered before it.
void ParameterGatherer::wait_from(int64_t arena_first, int64_t next_first) {
  for (const size_t lowest = lowest_bucket(next_first, enqueued_); enqueued_ > lowest;) {
    enqueue(enqueued_ - 1);
  }
  const size_t lowest = lowest_bucket(arena_first, awaited_);
  if (lowest == awaited_) return;
  backend_.wait(Stream::kCompute, gathered_[lowest]);
  awaited_ = lowest;
}

}  // namespace weft
