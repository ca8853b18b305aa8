// The checks of batch sizes and of the run's length.
#include <optional>
#include <string>
#include <utility>

#include "indexed_dataset/base/process/exit_code.h"
#include "indexed_dataset/order/batches/batch_size_problems.h"
#include "trainer/problems/problem_list.h"

namespace weft {

void check_step_schedule(Config& c, ProblemList& p) {
  if (c.step_batch_size_schedule.empty()) return;
  try {
    if (c.seq_length > 0) {
      c.batch_size_plan();
      return;
    }
  } catch (const UsageError& error) {
    p.add_if(true, "{}", error.what());
  }
  c.step_batch_size_schedule.clear();
}

void check_duration(const Config& c, ProblemList& p) {
  p.required(c.micro_batch_size, "--micro-batch-size");
  p.positive(c.global_batch_size, "--global-batch-size");
  p.positive(c.train_iters, "--train-iters");
  p.positive(c.train_samples, "--train-samples");
  p.positive(c.train_tokens, "--train-tokens");
  p.positive(c.exit_interval, "--exit-interval");
  p.positive(c.train_epochs, "--train-epochs");
  p.add_if(!c.train_iters && !c.train_samples && !c.train_epochs,
           "one of --train-iters, --train-samples and --train-epochs is required");
  p.add_if(
      c.eval_global_batch_size && *c.eval_global_batch_size != c.global_batch(),
      "--eval-global-batch-size {}: evaluations take batches of --global-batch-size, {}; leave "
      "it out",
      c.eval_global_batch_size.value_or(0), c.global_batch());
  try {
    const std::vector<StepRange> untrained = c.untrained_steps();
    p.add_if(!untrained.empty() && !c.curriculum_metrics.empty(),
             "--iterations-to-skip and --skip-train-iteration-range do not go with "
             "--curriculum-metrics");
  } catch (const UsageError& error) {
    p.add_if(true, "{}", error.what());
  }
  p.add_if(c.train_iters && c.train_samples,
           "--train-iters {} and --train-samples {} exclude each other", c.train_iters.value_or(0),
           c.train_samples.value_or(0));
  const int64_t first_batch =
      c.rampup_batch_size.empty() ? c.batch_size_plan().batch_size(0) : c.rampup_batch_size[0];
  p.add_if(c.train_samples.value_or(0) > 0 && *c.train_samples < first_batch,
           "--train-samples {} is less than one batch of {}: nothing would be trained",
           c.train_samples.value_or(0), first_batch);
  p.add_if(c.exit_duration_in_mins && !(*c.exit_duration_in_mins > 0),
           "--exit-duration-in-mins must be positive (got {})",
           c.exit_duration_in_mins.value_or(0));
  p.add_if(c.eval_iters < 0, "--eval-iters must be at least 0 (got {})", c.eval_iters);
  p.positive(c.eval_interval, "--eval-interval");
  // Without both options it is the default, one micro-batch of each rank.
  const auto full_batch =
      c.step_batch_size_schedule.empty() ? std::optional(c.global_batch()) : c.global_batch_size;
  for (std::string& problem : batch_size_problems({.global_batch_size = full_batch,
                              .rampup_batch_size = c.rampup_batch_size,
                              .step_batch_size_schedule = c.step_batch_size_schedule,
                              .sequence_length = c.seq_length,
                              .micro_batch_size = c.micro_batch_size,
                              .data_parallel_size = c.data_parallel_size()}))
    p.list.push_back(std::move(problem));
}

}  // namespace weft
