#include "trainer/data/batch_schedule.h"

#include <algorithm>

namespace weft {

BatchSchedule::BatchSchedule(const Config& config)
    : micro_batch_size_(config.micro_batch_size),
      dp_size_(config.data_parallel_size()),
      plan_(config.batch_size_plan()),
      curriculum_(config.length_curriculum()),
      train_tokens_(config.train_tokens),
      counts_samples_(config.train_samples.has_value()) {
  num_train_samples_ =
      config.train_samples ? *config.train_samples : *config.train_iters * config.global_batch();
  num_iterations_of_samples_ =
      config.train_iters ? *config.train_iters : plan_.iterations_within(num_train_samples_);
  resume_at({});
}

void BatchSchedule::resume_at(const RunPosition& position) {
  if (counts_samples_) {
    num_iterations_of_samples_ =
        position.iteration + plan_.iterations_within(num_train_samples_, position.consumed.rows);
  }
  num_iterations_ = num_iterations_of_samples_;
  if (!train_tokens_) return;
  const int64_t rest = num_iterations_ - position.iteration;
  num_iterations_ = walk(position, rest, *train_tokens_).iteration;
}

RunPosition BatchSchedule::after(int64_t num_steps, const RunPosition& from) const {
  return walk(from, num_steps, INT64_MAX);
}

// Goes on for `max_steps`, or up to the step that reaches `max_tokens`.
RunPosition BatchSchedule::walk(RunPosition position, int64_t max_steps, int64_t max_tokens) const {
  auto& [iteration, consumed] = position;
  const int64_t L = curriculum_.sequence_length();
  const int64_t last_iteration = iteration + max_steps;
  while (iteration < last_iteration && consumed.tokens < max_tokens) {
    const int64_t batch = plan_.batch_size(consumed.rows);
    const bool is_full = curriculum_.length(iteration + 1) == L &&
                         iteration + 1 >= curriculum_.stretches().back().first_iteration;
    if (is_full && plan_.is_last(consumed.rows)) {
      // From here on all steps are alike, except that a sample which is begun ends first.
      const int64_t steps_to_tokens = (max_tokens - consumed.tokens - 1) / (batch * L) + 1;
      const int64_t steps = consumed.tokens % L == 0 || !curriculum_.reshapes()
                                ? std::min(last_iteration - iteration, steps_to_tokens)
                                : 1;
      if (steps > 1) {
        iteration += steps;
        consumed.rows += steps * batch;
        consumed.tokens += steps * batch * L;
        continue;
      }
    }
    consumed = curriculum_.after(consumed, iteration + 1, batch);
    ++iteration;
  }
  return position;
}

}  // namespace weft
