#include "indexed_dataset/order/samples/cyclic_order.h"

#include <string>

#include "indexed_dataset/base/process/exit_code.h"
#include "indexed_dataset/order/samples/torch_randperm.h"

namespace weft {
namespace {

// This is 8 MB of permutations. The thread that reads ahead stands some batches before those that
// fill them, which are many epochs of a small validation set: 21 batches of 25,000 samples fit
// twice.
constexpr int64_t kKeptNumbers = 1 << 21;
constexpr int64_t kNumbersPerEpoch = 16;  // an epoch takes as much memory beside its permutation

int64_t samples_of_epoch(int64_t num_samples, const CyclicOptions& options) {
  const int64_t unit = options.micro_batch_size * options.data_parallel_size;
  if (num_samples >= unit) return num_samples - num_samples % unit;
  throw UsageError("--dataloader-type cyclic: the dataset has " + std::to_string(num_samples) +
                   " samples, less than one micro-batch of all ranks (" + std::to_string(unit) +
                   ")");
}

int64_t size_of_bucket(int64_t num_samples, const CyclicOptions& options) {
  const int64_t batch = options.micro_batch_size;
  return options.shards ? num_samples / (batch * options.data_parallel_size) * batch
                        : num_samples / batch * batch;
}

}  // namespace

CyclicOrder::CyclicOrder(int64_t num_samples, const CyclicOptions& options)
    : options_(options),
      unit_(options.micro_batch_size * options.data_parallel_size),
      active_(samples_of_epoch(num_samples, options)),
      bucket_size_(size_of_bucket(num_samples, options)),
      epochs_(static_cast<size_t>(
          std::max<int64_t>(2, kKeptNumbers / (bucket_size_ + kNumbersPerEpoch)))) {
  permutation_of(0);
}

std::shared_ptr<const CyclicOrder::Permutation> CyclicOrder::permutation_of(int64_t epoch) const {
  const std::lock_guard lock(mutex_);
  Epoch& kept = epochs_[static_cast<size_t>(epoch % std::ssize(epochs_))];
  if (kept.number != epoch) {
    kept = {epoch, std::make_shared<const Permutation>(
                       torch_randperm(bucket_size_, static_cast<uint64_t>(epoch)))};
  }
  return kept.permutation;
}

int64_t CyclicOrder::sample_at(int64_t position) const {
  const int64_t in_epoch = position % active_, in_batch = in_epoch % unit_;
  const int64_t rank = in_batch / options_.micro_batch_size,
                slot = in_batch % options_.micro_batch_size;
  const auto permutation = permutation_of(position / active_);
  const int64_t begin = in_epoch - in_batch;
  if (!options_.shards) {
    const int64_t at = begin + slot * options_.data_parallel_size + rank;
    return (*permutation)[static_cast<size_t>(at)];
  }
  const int64_t at = begin / options_.data_parallel_size + slot;
  return rank * bucket_size_ + (*permutation)[static_cast<size_t>(at)];
}

int64_t CyclicOrder::position_of(int64_t at, int64_t rank) const {
  const int64_t batch = options_.micro_batch_size;
  if (options_.shards) return at / batch * unit_ + rank * batch + at % batch;
  const int64_t num_ranks = options_.data_parallel_size, in_batch = at % unit_;
  return at - in_batch + in_batch % num_ranks * batch + in_batch / num_ranks;
}

}  // namespace weft
