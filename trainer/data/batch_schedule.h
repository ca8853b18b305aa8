// The number of samples of each step and the number of steps of a run.
// [Megatron-LM core/num_microbatches_calculator.py]
#pragma once

#include <cstdint>

#include "indexed_dataset/samples/batch_size_plan.h"
#include "trainer/config/config.h"

namespace weft {

class BatchSchedule {
 public:
  // `config` has no problems(); its data-parallel ranks share the batches.
  explicit BatchSchedule(const Config& config);

  // The run goes on at this iteration. With --train-samples the rest is counted anew: sizes may have
  // been others before.
  void resume_at(int64_t iteration, int64_t consumed_samples);

  // Returns the number of samples of the step that starts after `consumed_samples`.
  int64_t global_batch_size(int64_t consumed_samples) const {
    return plan_.batch_size(consumed_samples);
  }
  // Returns the number of micro-batches of that step per data-parallel rank.
  int64_t num_micro_batches(int64_t consumed_samples) const {
    return global_batch_size(consumed_samples) / (micro_batch_size_ * dp_size_);
  }
  // Returns the number of steps of the whole run; a last incomplete batch is dropped.
  int64_t num_iterations() const { return num_iterations_; }
  // Returns the samples that the first `iterations` steps consume.
  int64_t consumed_samples_after(int64_t iterations) const {
    return plan_.consumed_after(iterations).value();
  }
  // Returns the samples that are consumed when the run ends which has consumed these at `iteration`.
  int64_t consumed_at_end(int64_t iteration, int64_t consumed_samples) const {
    return plan_.consumed_after(num_iterations_ - iteration, consumed_samples).value();
  }
  int64_t largest_global_batch_size() const { return plan_.largest(); }
  // Returns the samples that the run asks of its dataset: --train-samples, or iterations times
  // batch size.
  int64_t num_train_samples() const { return num_train_samples_; }
  bool batch_size_changes() const { return plan_.changes(); }

 private:
  int64_t micro_batch_size_ = 0, dp_size_ = 1;
  BatchSizePlan plan_;
  int64_t num_iterations_ = 0, num_train_samples_ = 0;
  bool counts_samples_ = false;  // --train-samples
};

}  // namespace weft
