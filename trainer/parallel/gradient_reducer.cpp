#include "trainer/parallel/gradient_reducer.h"

namespace weft {

GradientReducer::GradientReducer(Backend& backend, const ProcessGroups& groups,
                                 const ArenaShards& shards, ArenaRange partial, ArenaRange tied)
    : backend_(backend),
      tensor_(*groups.tensor),
      data_(*groups.data),
      ends_(*groups.tied),
      shards_(shards),
      partial_(partial),
      tied_(tied) {}

void GradientReducer::bind(Tensor gradients) {
  gradients_ = gradients;
  ready_ = backend_.create_event();
  reduced_ = backend_.create_event();
}

void GradientReducer::layer(int64_t arena_end) {
  if (data_.size() == 1) return;
  const std::vector<ArenaRange>& buckets = shards_.buckets();
  while (num_reduced_ < buckets.size() && buckets[num_reduced_].end() <= arena_end) {
    reduce(buckets[num_reduced_++]);
  }
}

void GradientReducer::finish() {
  if (partial_.count > 0) {
    tensor_.all_reduce(range_of(gradients_, partial_), Reduce::kSum, Stream::kCompute);
  }
  layer(shards_.padded_elements());
  if (data_.size() > 1) {
    backend_.record(reduced_, Stream::kReduction);
    backend_.wait(Stream::kCompute, reduced_);
  }
  sum_tied();
}

// Each data-parallel rank has the same part of the embedding on both stages.
void GradientReducer::sum_tied() {
  if (tied_.count == 0) return;
  for (const ArenaRange& bucket : shards_.buckets()) {
    if (bucket.first < tied_.first || bucket.end() > tied_.end()) continue;
    ends_.all_reduce(range_of(gradients_, shards_.own_part(bucket)), Reduce::kSum,
                     Stream::kCompute);
  }
}

void GradientReducer::reduce(const ArenaRange& bucket) {
  const Tensor sums = range_of(gradients_, bucket);
  backend_.record(ready_, Stream::kCompute);
  backend_.wait(Stream::kReduction, ready_);
  if (shards_.is_sharded()) {
    data_.reduce_scatter(range_of(gradients_, shards_.own_part(bucket)), sums, Stream::kReduction);
  } else {
    data_.all_reduce(sums, Reduce::kSum, Stream::kReduction);
  }
}

}  // namespace weft
