#include "trainer/data/batch_schedule.h"

namespace weft {

BatchSchedule::BatchSchedule(const Config& config)
    : micro_batch_size_(config.micro_batch_size),
      dp_size_(config.data_parallel_size()),
      full_(config.global_batch()) {
  if (!config.rampup_batch_size.empty()) {
    start_ = config.rampup_batch_size[0];
    increment_ = config.rampup_batch_size[1];
    rampup_samples_ = config.rampup_batch_size[2];
    const int64_t num_increments = (full_ - start_) / increment_;
    samples_per_increment_ =
        static_cast<double>(rampup_samples_) / static_cast<double>(num_increments);
  }
  num_train_samples_ = config.train_samples ? *config.train_samples : *config.train_iters * full_;
  num_iterations_ = config.train_iters ? *config.train_iters : count_iterations();
}

int64_t BatchSchedule::global_batch_size(int64_t consumed_samples) const {
  if (!ramps_up() || consumed_samples > rampup_samples_ || rampup_samples_ == 0) return full_;
  const auto steps =
      static_cast<int64_t>(static_cast<double>(consumed_samples) / samples_per_increment_);
  return start_ + steps * increment_;
}

int64_t BatchSchedule::count_iterations() const {
  int64_t consumed = 0, iterations = 0;
  while (ramps_up() && consumed <= rampup_samples_ && consumed <= num_train_samples_) {
    consumed += global_batch_size(consumed);
    ++iterations;
  }
  // A run shorter than its ramp-up ends with the last whole batch.
  if (consumed > num_train_samples_) return iterations - 1;
  return iterations + (num_train_samples_ - consumed) / full_;
}

int64_t BatchSchedule::consumed_samples_after(int64_t iterations) const {
  int64_t consumed = 0, done = 0;
  while (ramps_up() && done < iterations && consumed <= rampup_samples_) {
    consumed += global_batch_size(consumed);
    ++done;
  }
  return consumed + (iterations - done) * full_;
}

}  // namespace weft
