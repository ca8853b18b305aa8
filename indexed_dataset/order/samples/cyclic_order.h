// The order of --dataloader-type cyclic: a run takes the samples of a dataset again and again, in a
// new order each epoch. [Megatron-LM megatron/legacy/data/data_samplers.py,
// MegatronPretrainingRandomSampler]
//
// A run that has consumed `c` samples is in epoch c / A, where A is the number of samples rounded
// down to whole micro-batches of all ranks; the others are not used. With sharding, rank r takes
// its samples from the r-th of dp equal ranges, all in the order of PyTorch's randperm with the
// epoch as its seed; without, the ranks take turns in one permutation of all samples.
//
// A run that goes on with other micro-batches or ranks keeps the sizes that its order was begun
// with: position c is then the same sample for every topology. Megatron cuts the order anew, and
// repeats and loses samples.
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

namespace weft {

struct CyclicOptions {
  int64_t micro_batch_size = 1, data_parallel_size = 1;
  bool shards = true;  // false: --no-data-sharding

  bool operator==(const CyclicOptions&) const = default;
};

// Thread-safe.
class CyclicOrder {
 public:
  // Throws UsageError for a dataset of less than one micro-batch of all ranks, and for
  // one that torch_randperm() does not take.
  CyclicOrder(int64_t num_samples, const CyclicOptions& options);

  // Returns the sample of the dataset that stands at `position` of the run: position c + r * B + s
  // is slot s of rank r in the micro-batch of B samples that begins after c consumed ones.
  int64_t sample_at(int64_t position) const;
  // The inverse: calls use(position, sample) for each position in [first, last) at which one of
  // `samples` (ascending) stands. Shuffles each epoch of the range once.
  template <typename Use>
  void for_each_position(const std::vector<int64_t>& samples, int64_t first, int64_t last,
                         const Use& use) const {
    for (int64_t epoch = first / active_; epoch * active_ < last; ++epoch) {
      const auto permutation = permutation_of(epoch);
      for (int64_t at = 0; at < std::ssize(*permutation); ++at) {
        const int64_t shuffled = (*permutation)[static_cast<size_t>(at)];
        for (int64_t rank = 0; rank < num_buckets(); ++rank) {
          const int64_t sample = rank * bucket_size_ + shuffled;
          if (!std::binary_search(samples.begin(), samples.end(), sample)) continue;
          const int64_t in_epoch = position_of(at, rank), position = epoch * active_ + in_epoch;
          if (in_epoch < active_ && position >= first && position < last) use(position, sample);
        }
      }
    }
  }

 private:
  using Permutation = std::vector<int32_t>;
  std::shared_ptr<const Permutation> permutation_of(int64_t epoch) const;
  int64_t num_buckets() const { return options_.shards ? options_.data_parallel_size : 1; }
  // Where in an epoch entry `at` of the permutation stands for this rank; without sharding the
  // entry alone says it.
  int64_t position_of(int64_t at, int64_t rank) const;

  const CyclicOptions options_;
  const int64_t unit_;         // samples of a micro-batch of all ranks
  const int64_t active_;       // samples of an epoch
  const int64_t bucket_size_;  // numbers that are permuted
  struct Epoch {
    int64_t number = -1;
    std::shared_ptr<const Permutation> permutation;
  };
  mutable std::mutex mutex_;
  // The latest epochs, at least two: epoch e stands at e % size. Readers stand in several at a
  // time.
  mutable std::vector<Epoch> epochs_;
};

}  // namespace weft
