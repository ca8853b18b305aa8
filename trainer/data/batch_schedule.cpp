#include "trainer/data/batch_schedule.h"

namespace weft {

BatchSchedule::BatchSchedule(const Config& config)
    : micro_batch_size_(config.micro_batch_size),
      dp_size_(config.data_parallel_size()),
      plan_(config.batch_size_plan()),
      counts_samples_(config.train_samples.has_value()) {
  num_train_samples_ =
      config.train_samples ? *config.train_samples : *config.train_iters * config.global_batch();
  num_iterations_ =
      config.train_iters ? *config.train_iters : plan_.iterations_within(num_train_samples_);
}

void BatchSchedule::resume_at(int64_t iteration, int64_t consumed_samples) {
  if (!counts_samples_) return;
  num_iterations_ = iteration + plan_.iterations_within(num_train_samples_, consumed_samples);
}

}  // namespace weft
