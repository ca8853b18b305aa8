#include "trainer/data/batch_schedule.h"

namespace weft {

BatchSchedule::BatchSchedule(const Config& config)
    : micro_batch_size_(config.micro_batch_size),
      dp_size_(config.data_parallel_size()),
      full_(config.global_batch()),
      rampup_(full_, config.rampup_batch_size) {
  num_train_samples_ = config.train_samples ? *config.train_samples : *config.train_iters * full_;
  num_iterations_ = config.train_iters ? *config.train_iters : count_iterations();
}

int64_t BatchSchedule::count_iterations() const {
  int64_t consumed = 0, iterations = 0;
  while (rampup_.is_ramping(consumed) && consumed <= num_train_samples_) {
    consumed += global_batch_size(consumed);
    ++iterations;
  }
  // A run shorter than its ramp-up ends with the last whole batch.
  if (consumed > num_train_samples_) return iterations - 1;
  return iterations + (num_train_samples_ - consumed) / full_;
}

}  // namespace weft
