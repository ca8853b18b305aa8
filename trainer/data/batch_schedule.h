// How many samples each step takes, and how many steps a run has [Megatron-LM
// core/num_microbatches_calculator.py].
#pragma once

#include <cstdint>

#include "trainer/config/config.h"

namespace weft {

class BatchSchedule {
 public:
  // Of a configuration without problems(), for `dp_size` data-parallel ranks.
  explicit BatchSchedule(const Config& config, int64_t dp_size = 1);

  // Samples of the step that starts after `consumed_samples`.
  int64_t global_batch_size(int64_t consumed_samples) const;
  // Micro-batches of that step per data-parallel rank.
  int64_t num_micro_batches(int64_t consumed_samples) const {
    return global_batch_size(consumed_samples) / (micro_batch_size_ * dp_size_);
  }
  // Steps of the whole run; a last incomplete batch is dropped.
  int64_t num_iterations() const { return num_iterations_; }
  // Samples consumed after `iterations` steps from the start.
  int64_t consumed_samples_after(int64_t iterations) const;
  // Samples of the whole run, as the dataset is asked for: --train-samples, or iterations times
  // batch size.
  int64_t num_train_samples() const { return num_train_samples_; }
  bool ramps_up() const { return increment_ > 0; }

 private:
  int64_t count_iterations() const;

  int64_t micro_batch_size_ = 0, dp_size_ = 1, full_ = 0;
  int64_t start_ = 0, increment_ = 0, rampup_samples_ = 0;
  double samples_per_increment_ = 0;
  int64_t num_iterations_ = 0, num_train_samples_ = 0;
};

}  // namespace weft
