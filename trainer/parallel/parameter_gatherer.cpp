#include "trainer/parallel/parameter_gatherer.h"

namespace weft {

ParameterGatherer::ParameterGatherer(Backend& backend, const ProcessGroups& groups,
                                     const ArenaShards& shards)
    : backend_(backend), data_(*groups.data), shards_(shards) {}

void ParameterGatherer::bind(Tensor parameters) {
  parameters_ = parameters;
  if (!shards_.is_sharded()) return;
  updated_ = backend_.create_event();
  for (size_t i = 0; i < shards_.buckets().size(); ++i) {
    gathered_.push_back(backend_.create_event());
  }
}

void ParameterGatherer::gather(size_t bucket) {
  if (!shards_.is_sharded()) return;
  const ArenaRange& range = shards_.buckets()[bucket];
  backend_.record(updated_, Stream::kCompute);
  backend_.wait(Stream::kReduction, updated_);
  data_.all_gather(range_of(parameters_, range), range_of(parameters_, shards_.own_part(range)),
                   Stream::kReduction);
  backend_.record(gathered_[bucket], Stream::kReduction);
  if (bucket + 1 == gathered_.size()) awaited_ = gathered_.size();
}

// The stream is in order: an event of a bucket stands for all that were gathered before it.
void ParameterGatherer::wait_from(int64_t arena_first) {
  size_t lowest = awaited_;
  while (lowest > 0 && shards_.buckets()[lowest - 1].end() > arena_first) --lowest;
  if (lowest == awaited_) return;
  backend_.wait(Stream::kCompute, gathered_[lowest]);
  awaited_ = lowest;
}

}  // namespace weft
